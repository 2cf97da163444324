"""Tests of a verdict in few lines: terminal, note and mail have the order and the remedies of the report."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec
import pytest
from support import report_material
from support.commands import commands, plan, without_git
from support.readers import in_a_terminal
from support.run_builder import priced

from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.reporting import brief
from delivery_verifier.reporting.blocks import UNKNOWN
from delivery_verifier.reporting.report import page

HEADINGS = [brief.ARMS, brief.CHANGE, brief.LIMITS, brief.REPEAT]
STORED = Path(__file__).parents[2] / "data" / "runs" / "violated"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_git(monkeypatch)


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, RunVerdict]:
    """The stored run of acks=1 that lost records, in a folder of runs of its own."""
    path = Path(shutil.copytree(STORED, tmp_path / "stored"))
    return path, msgspec.json.decode((path / "verdict.json").read_bytes(), type=RunVerdict)


@pytest.mark.slow
def test_terminal_note_and_mail_have_the_order_of_the_report(stored: tuple[Path, RunVerdict]) -> None:
    path, verdict = stored
    whole = page.render(path, verdict)
    assert [each for each in re.findall(r"<h2[^>]*>([^<]+)</h2>", whole) if each in HEADINGS] == HEADINGS
    note, mail = brief.note_text(verdict, path.parent), "\n".join(brief.plain_lines(verdict, path.parent))
    (arm,) = (arm for arm in verdict.arms if arm.verdict == "VIOLATED")
    reason = arm.sentence.removeprefix("VIOLATED: ")[:70].capitalize()
    assert note.startswith(f"**VIOLATED**: {reason}") and " lost, which the claim" in reason
    assert re.findall(r"^\*\*([^*]+)\*\*$", note, re.MULTILINE) == [brief.CHANGE]
    assert re.findall(r"^(.+):$", mail, re.MULTILINE) == HEADINGS
    text = in_a_terminal(path, verdict)
    places = [text.index(part) for part in ("VIOLATED (", "| acks_1 ", brief.CHANGE, brief.LIMITS)]
    assert places == sorted(places)


def test_a_remedy_stands_in_terminal_note_and_mail_and_its_command_is_accepted(
    stored: tuple[Path, RunVerdict],
) -> None:
    path, verdict = stored
    command = "kdv run --profile acks_all --fault pause_leader --claim at_least_once --records 1000"
    assert plan(command).subjects[0].profile.name == "acks_all"  # type: ignore[attr-defined]
    note, mail = brief.note_text(verdict, path.parent), "\n".join(brief.plain_lines(verdict, path.parent))
    for text in (in_a_terminal(path, verdict), note, mail):
        assert "under this fault and this claim: acks=all; acks=all and enable.idempotence=true." in text
        assert command in text and "control-safe held under the same fault at the same moment" in text
    for proposed in commands(note):
        plan(proposed)
    assert len(list(commands(note))) >= 2, "one that tries the change, and one that measures it"


def test_a_note_is_as_long_as_airflow_keeps_and_leaves_out_whole_sections(
    stored: tuple[Path, RunVerdict], tmp_path: Path
) -> None:
    path, verdict = stored
    note = brief.note_text(verdict, path.parent)
    assert len(note) <= brief.NOTE_LENGTH and note.endswith("More: in the tab *Delivery report* of this run.")
    path, verdict = report_material.held(tmp_path)
    short = msgspec.structs.replace(verdict, limits=["One run on one cluster."])
    note = brief.note_text(short, path.parent)
    assert re.findall(r"^\*\*([^*]+)\*\*$", note, re.MULTILINE) == HEADINGS and "More:" not in note


def test_the_price_of_a_remedy_is_said_where_it_was_measured(stored: tuple[Path, RunVerdict]) -> None:
    path, verdict = stored
    for name in ("price.flat_out.acks_all", "price.none.acks_all"):
        priced(path.parent, name)
    text = "\n".join(brief.plain_lines(verdict, path.parent))
    assert re.search(r"^acks=all: 1,001 records/s, 99 % within [\d.]+ m?s, measured here 2026-11-21$", text, re.M)
    assert "Measure the price" not in text


def test_what_is_not_known_is_not_advised(tmp_path: Path) -> None:
    path, verdict = report_material.inconclusive(tmp_path)
    assert "Nothing yet: this run says nothing about these settings." in brief.note_text(verdict, path.parent)
    unknown = msgspec.structs.replace(verdict, advice=None, repeat="")
    note = brief.note_text(unknown)
    assert f"* {UNKNOWN}" in note and brief.REPEAT not in note
    assert UNKNOWN in in_a_terminal(path, unknown)


def test_a_change_that_would_weaken_settings_is_named_with_its_reason_and_never_alone(tmp_path: Path) -> None:
    path, verdict = report_material.held(tmp_path)
    text = " ".join(brief.plain_lines(verdict, path.parent))
    assert "Each of these changes alone would give that up: acks=0; acks=1;" in text and "Try it:" not in text
