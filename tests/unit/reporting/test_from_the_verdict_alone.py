"""Every text about a run comes from verdict.json alone: where nothing else is left of the run, each says the same. Only
the evidence that a report shows beside the verdict (charts, cases, settings) is missing then, and named as missing."""

from __future__ import annotations

import html
import io
import re
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from support import report_material
from support.stored_data import HELD, VIOLATED, stored_run

from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.reporting import brief, junit, terminal
from delivery_verifier.reporting.blocks import blocks_of
from delivery_verifier.reporting.causes import ReportedCause
from delivery_verifier.reporting.doubts import DoubtGroup
from delivery_verifier.reporting.report import page
from delivery_verifier.run_directory.run_directory import RunDirectory


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets pages have no plots, which take most of the time of a page."""
    for owner, plot in ((page.timeline, "timeline"), (page.timeline, "rates"), (page, "distribution")):
        monkeypatch.setattr(owner, plot, lambda *inputs: None)


def told(verdict: RunVerdict, runs: Path, out: Path) -> list[str]:
    """Returns the verdict as a terminal, a note, a mail and a CI server get it."""
    terminal.write(verdict, stream := io.StringIO(), runs=runs)
    junit.write(out, verdict)
    return [stream.getvalue(), brief.note_text(verdict, runs), *brief.plain_lines(verdict, runs), out.read_text()]


def sections(text: str) -> dict[str, str]:
    """Returns what a person reads in those sections of a report that say something of the verdict.

    What was asked is left out: it stands in the scenario.
    """
    names = ("verdict", "arms", "change", "limits", "repeat")
    text = re.sub(r"Asked: .*?</p>", "</p>", text, flags=re.S)
    found = {name: re.search(rf'<section[^>]*id="{name}".*?</section>', text, re.S) for name in names}
    assert all(found.values()), found
    return {name: visible(section[0]) for name, section in found.items() if section}


def visible(text: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text))).strip()


@pytest.fixture(params=[HELD, VIOLATED, "made"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, RunVerdict]:
    if request.param == "made":
        return report_material.violated(tmp_path)
    directory = stored_run(request.param, tmp_path)
    return directory.path, directory.verdict()


def test_terminal_note_mail_and_junit_need_nothing_but_the_verdict(
    run: tuple[Path, RunVerdict], tmp_path: Path
) -> None:
    path, verdict = run
    before = told(verdict, path.parent, tmp_path / "out.xml")
    shutil.rmtree(path)
    assert told(verdict, tmp_path / "nowhere", tmp_path / "out.xml") == before
    assert len(before) > 4 and all(before)


def test_report_terminal_and_mail_render_the_same_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, verdict = report_material.violated(tmp_path)
    marked = replace(
        blocks_of(verdict),
        limits=["A marked limit."],
        doubts=[DoubtGroup("checker", "marked_doubt", "A marked remedy.", ["safe"], ["A marked detail."])],
        causes=[ReportedCause("A marked cause.", "A marked proof.", ["a marked hint"])],
    )
    for module in (brief, terminal, page):
        monkeypatch.setattr(module, "blocks_of", lambda *inputs: marked)
    terminal_text, _, *mail, _ = told(verdict, path.parent, tmp_path / "out.xml")
    for text in (terminal_text, "\n".join(mail), visible(page.render(path, verdict))):
        assert all(f"arked {word}" in text for word in ("limit", "remedy", "detail", "cause", "proof", "hint")), text


def test_a_report_says_the_same_of_the_verdict_where_nothing_else_is_left(
    run: tuple[Path, RunVerdict], tmp_path: Path
) -> None:
    path, verdict = run
    before = sections(page.render(path, verdict))
    bare = tmp_path / "bare" / path.name
    bare.mkdir(parents=True)
    after = page.render(bare, verdict)
    assert sections(after) == before
    assert 'id="missing"' in after, "that the evidence is gone is said"


def test_every_text_says_of_a_doubt_what_the_verdict_says(tmp_path: Path) -> None:
    """A remedy that nobody else could know: none is looked up where a text is made."""
    path, verdict = report_material.inconclusive(tmp_path)
    arms = [
        replace(arm, doubts=[replace(each, remedy=f"Ask {arm.arm} of {each.name}.") for each in arm.doubts])
        for arm in verdict.arms
    ]
    verdict = replace(verdict, arms=arms)
    terminal_text, note, *mail, xml = told(verdict, path.parent, tmp_path / "out.xml")
    report = visible(page.render(path, verdict))
    for remedy in ("Ask safe of fault_took_no_effect.", "Ask control-acks_0 of counts_unbalanced:reported_sum."):
        assert all(f"What to do: {remedy}" in text for text in (terminal_text, note, "\n".join(mail), report))
    assert "What to do: Ask safe of fault_took_no_effect." in xml, "CI is told of arms that are red alone"


def test_a_note_of_a_decided_run_gives_up_its_doubts_before_what_to_change(tmp_path: Path) -> None:
    _, unsure = report_material.inconclusive(tmp_path / "a")
    _, hurt = report_material.violated(tmp_path / "b")
    doubts = [replace(each, detail="d" * 900) for each in unsure.arms[0].doubts]
    note = brief.note_text(replace(hurt, arms=[*hurt.arms[:-1], replace(hurt.arms[-1], doubts=doubts)]))
    assert brief.CHANGE in note and brief.WHY not in note and len(note) <= brief.NOTE_LENGTH


def test_a_verdict_that_is_read_back_is_the_one_that_was_stored(tmp_path: Path) -> None:
    run = stored_run(VIOLATED, tmp_path)
    verdict = run.verdict()
    with run.writing("conclude") as output:
        output.write_json("verdict.json", verdict)
    assert RunDirectory(run.path).verdict() == verdict and verdict.advice and verdict.repeat
    (subject, *_) = verdict.arms
    assert [example.anomaly for example in subject.examples] == ["LOST"] and all(
        invariant.holds for invariant in verdict.invariants
    )
    (lost,) = [finding for finding in subject.findings if finding.anomaly == "LOST"]
    assert lost.broken and len(lost.unexplained) + sum(len(each.records) for each in lost.explained_by) <= lost.cases
