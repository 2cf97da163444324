"""Tests of where a run says what was given up: terminal, first screen of the report, note, mail, log of the task, JUnit
and table of arms. Nothing beside it says that nothing went wrong."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from msgspec.structs import replace
from support import report_material, run_builder
from support.commands import without_git
from support.readers import in_a_terminal
from support.report_material import Made

from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.orchestration.tasks import red_run
from delivery_verifier.reporting import brief, junit
from delivery_verifier.reporting.arm_rows import run_tone
from delivery_verifier.reporting.blocks import blocks_of
from delivery_verifier.reporting.overview import page as overview
from delivery_verifier.reporting.overview.run_filter import RunFilter
from delivery_verifier.reporting.report import page
from delivery_verifier.run_directory.run_directory import RunDirectory

FACT = "597 of 41,300 records (1.45 %) were not acknowledged and are not in the log: given up after "
SETTING = "delivery.timeout.ms=3000 (message.timeout.ms)"
CHANGE = "To lose none of them, set delivery.timeout.ms longer than the longest outage"
PRICE = "The price: failures are known later"
LEADS = (
    "Nothing for what was acknowledged: under this fault these settings promise what was asked",
    "No reported record was hurt this time, but these settings do not promise under this fault",  # of one replica
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_git(monkeypatch)
    for owner, plot in ((page.timeline, "timeline"), (page.timeline, "rates"), (page, "distribution")):
        monkeypatch.setattr(owner, plot, lambda *inputs: None)


@pytest.fixture(params=[3, 1], ids=["three replicas", "one replica"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    return report_material.gave_up(tmp_path, replicas=request.param)


def away(verdict: RunVerdict) -> str:
    (given_up,) = [arm.given_up for arm in verdict.arms if arm.given_up]
    return f"no running leader for {given_up.away_s} s"


def test_it_stands_in_terminal_note_mail_and_log_with_setting_share_outage_change_and_price(made: Made) -> None:
    path, verdict = made
    note, mail = brief.note_text(verdict, path.parent), [verdict.sentence, *brief.plain_lines(verdict, path.parent)]
    for text in (in_a_terminal(path, verdict), note, "\n".join(mail)):
        for part in (f"{FACT}{SETTING}.", away(verdict), CHANGE, PRICE):
            assert text.count(part) == 1, (part, text)
        assert any(lead in text for lead in LEADS)
    assert len(note) <= brief.NOTE_LENGTH
    log = " ".join(line.strip() for line in red_run.lines(verdict, "http://here"))
    assert FACT in log and SETTING in log and "acknowledged 41,210, given up 597, lost 0" in log
    assert "safe (under test): HELD, 41,210 reported, 597 given up, no anomaly" in mail[2]


def test_it_is_the_second_line_of_a_terminal_and_a_column_of_its_table(made: Made) -> None:
    lines = in_a_terminal(*made).splitlines()
    assert lines[0].startswith("HELD (as expected)") and lines[2].startswith(FACT)
    assert lines[1].startswith("All 41,210 acknowledged records are in the log exactly once and in order; the leader")
    headings, subject, control, canary = (
        [cell.strip() for cell in line.split("|")] for line in lines if line.startswith("| ")
    )
    at = headings.index("given up")
    assert (subject[at], control[at], canary[at]) == ("597", "0", "0")


def test_it_stands_in_the_reports_first_section_and_in_the_table_of_arms(made: Made) -> None:
    path, verdict = made
    whole = page.render(path, verdict)
    first = whole[whole.index('<section class="verdict') : whole.index('<section id="arms">')]
    for part in (f"<b>{FACT}{SETTING}.", away(verdict), CHANGE, PRICE):
        assert whole.count(part) == first.count(part) == 1, part
    assert "<h1>All 41,210 acknowledged records are in the log exactly once and in order.</h1>" in first
    assert '<p class="lead">The leader was frozen once, with' in first
    assert '<td class="n mark-given-up" data-name="given up">597</td>' in whole
    assert run_tone(verdict) == "NONE", "green would say that all is well"


def test_it_stands_in_junit_also_where_the_arm_passes_or_is_in_doubt(made: Made, tmp_path: Path) -> None:
    _, verdict = made
    for name in ("HELD", "VIOLATED", "INCONCLUSIVE"):
        arms = [replace(arm, verdict=name, as_expected=name == "HELD") for arm in verdict.arms]
        junit.write(tmp_path / "out.xml", replace(verdict, arms=arms))
        suite = ElementTree.parse(tmp_path / "out.xml").getroot().find("testsuite")
        assert suite is not None
        case = next(case for case in suite.findall("testcase") if str(case.get("classname")).endswith(".safe"))
        said = case.findtext("system-out") or ""
        assert all(part in said for part in (FACT, SETTING, away(verdict), CHANGE, PRICE))
        results = [*case.findall("failure"), *case.findall("error")]
        assert all(FACT in str(result.get("message")) for result in results) and len(results) == (name != "HELD")
        (sentence,) = [each.get("value") for each in suite.iter("property") if each.get("name") == "sentence"]
        assert FACT in str(sentence)


def test_of_several_subjects_each_says_its_own(made: Made) -> None:
    path, verdict = made
    subject = verdict.arms[0]
    other = replace(subject, arm="other", given_up=None, sentence="HELD: all is there; the leader was frozen once.")
    assert subject.given_up is not None
    sentence = (
        f"safe: HELD: all is there{subject.given_up.in_a_sentence}. other: HELD: all is there. The leader was frozen."
    )
    both = replace(verdict, arms=[subject, other, *verdict.arms[1:]], sentence=sentence)
    assert blocks_of(both).sentence == "safe: HELD: all is there. other: HELD: all is there. The leader was frozen."
    assert f'<p class="given-up">safe: <b>{FACT}' in page.render(path, both)
    assert f"safe: {FACT}" in in_a_terminal(path, both)
    assert f"* safe: {CHANGE}" in brief.note_text(both, path.parent)


def test_a_run_that_gave_up_nothing_has_no_column_and_no_paragraph(tmp_path: Path) -> None:
    path, verdict = report_material.held(tmp_path)
    texts = (in_a_terminal(path, verdict), brief.note_text(verdict, path.parent), page.render(path, verdict))
    assert not any(re.search(r"given up\b(?!:)", text.replace("would give that up", "")) for text in texts[:2])
    assert 'class="given-up"' not in texts[2] and 'data-name="given up"' not in texts[2]
    assert run_tone(verdict) == "HELD"


def test_a_note_that_is_too_long_leaves_out_the_change_and_never_the_fact(made: Made) -> None:
    path, verdict = made
    long = verdict.sentence + " The fault took more." * 20
    note = brief.note_text(replace(verdict, sentence=long), path.parent)
    assert FACT in note and CHANGE not in note and len(note) <= brief.NOTE_LENGTH
    assert note.endswith("More: in the tab *Delivery report* of this run.")


@pytest.mark.parametrize("replicas", [3, 1])
def test_nothing_says_beside_it_that_nothing_went_wrong(replicas: int, tmp_path: Path) -> None:
    path, verdict = report_material.gave_up(tmp_path, replicas=replicas)
    for text in (in_a_terminal(path, verdict), brief.note_text(verdict, path.parent), page.render(path, verdict)):
        assert "went wrong" not in text and "Nothing:" not in text


def test_the_page_of_all_runs_says_it_beside_the_anomalies(made: Made, tmp_path: Path) -> None:
    path, verdict = made
    with RunDirectory(path).writing("conclude") as output:
        run_builder.write_verdict(output, verdict)
    whole = overview.overview(tmp_path, RunFilter(), docs=False, dag_path="", in_airflow={})
    assert "no anomaly, <b>597 given up</b>" in whole
