"""Tests of who broke a promise: report, terminal, note, mail and JUnit tell what the program did, and what to look for
in it."""

from __future__ import annotations

import io
from dataclasses import replace as replace_evidence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from support import report_material, run_directories
from support.advised import advised, evidence_for_advice
from support.applications import applied
from support.commands import without_git
from support.evidence import SECOND

from delivery_verifier.advice.changes import who_broke_it
from delivery_verifier.advice.explanations import _example
from delivery_verifier.model.advice import Example
from delivery_verifier.model.history import Injection
from delivery_verifier.model.verdict import Cause, RunVerdict
from delivery_verifier.reporting import brief, junit, terminal
from delivery_verifier.reporting.blocks import blocks_of
from delivery_verifier.reporting.leadership import Clock
from delivery_verifier.reporting.material import Material
from delivery_verifier.reporting.report import page
from delivery_verifier.reporting.report.chain import Hop, chain
from delivery_verifier.reporting.report.hops import events, last_us
from delivery_verifier.run_directory.group_log import GroupLog
from delivery_verifier.verdict.evidence import ArmEvidence

CAUSE = Cause(
    anomaly="SKIPPED",
    count=16,
    what="The program committed what it had not applied.",
    evidence=["Record 7 stands at offset 7.", "Offset 9 was committed at 12:00 by member a."],
    look_for=["a commit before the write is durable", "a timer"],
)
SAID = (
    "16 skipped: The program committed what it had not applied.",
    "Record 7 stands at offset 7. Offset 9 was committed at 12:00 by member a.",
    "a commit before the write is durable",
    "a timer",
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_git(monkeypatch)


@pytest.fixture
def broken(tmp_path: Path) -> tuple[Path, RunVerdict]:
    """A run whose subject has skipped records, which the contract forbids, and of which it is known who did it."""
    path, verdict = report_material.violated(tmp_path)
    subject = verdict.arms[0]
    skipped = replace(subject.findings[0], anomaly="SKIPPED", ruled_by="contract", tolerance=0, count=16, also=0)
    arms = [replace(subject, findings=[skipped], causes=[CAUSE]), *verdict.arms[1:]]
    return path, advised(path, replace(verdict, arms=arms))


def test_every_place_that_tells_the_verdict_tells_who_did_it_and_what_to_look_for(
    broken: tuple[Path, RunVerdict], tmp_path: Path
) -> None:
    path, verdict = broken
    terminal.write(verdict, stream := io.StringIO(), runs=path.parent)
    junit.write(tmp_path / "out.xml", verdict)
    note, mail = brief.note_text(verdict, path.parent), "\n".join(brief.plain_lines(verdict, path.parent))
    for text in (stream.getvalue(), note, mail, page.render(path, verdict), (tmp_path / "out.xml").read_text()):
        assert [part for part in SAID if part not in text] == []
        assert "broke a promise" not in text
    assert "No setting: your program, or the client library that it uses, did it. Kafka did what it was told." in note


def test_where_the_evidence_shows_nobody_kafka_its_client_and_the_verifier_remain(
    broken: tuple[Path, RunVerdict],
) -> None:
    path, verdict = broken
    bare = advised(path, replace(verdict, arms=[replace(verdict.arms[0], causes=[]), *verdict.arms[1:]]))
    assert "Kafka, its client or this verifier broke a promise." in brief.note_text(bare, path.parent)
    assert blocks_of(bare).causes == []


def test_what_the_program_did_does_not_explain_what_the_log_lost(broken: tuple[Path, RunVerdict]) -> None:
    _, verdict = broken
    subject = verdict.arms[0]
    lost = replace(subject.findings[0], anomaly="LOST", count=3)
    lead, text = who_broke_it(subject, [*subject.findings, lost])
    assert lead == "No setting: 3 lost, and what happened is forbidden for these settings already."
    assert text.startswith("Kafka, its client or this verifier broke a promise.")


def test_a_note_that_is_too_long_leaves_out_its_last_lines(broken: tuple[Path, RunVerdict]) -> None:
    path, verdict = broken
    long = replace(CAUSE, anomaly="REAPPLIED", evidence=["x" * 600])
    verdict = replace(verdict, arms=[replace(verdict.arms[0], causes=[CAUSE, long]), *verdict.arms[1:]])
    note = brief.note_text(verdict, path.parent)
    assert len(note) <= brief.NOTE_LENGTH and SAID[0] in note and "x" * 600 not in note
    assert note.endswith("More: in the tab *Delivery report* of this run.")


def test_of_several_subjects_each_cause_names_its_arm(broken: tuple[Path, RunVerdict]) -> None:
    _, verdict = broken
    two = replace(verdict, arms=[verdict.arms[0], replace(verdict.arms[0], arm="second"), *verdict.arms[1:]])
    assert [each.heading.split(":")[0] for each in blocks_of(two).causes] == [verdict.arms[0].arm, "second"]


def at(seconds: float) -> int:
    return round(seconds * SECOND)


ROW: dict[str, Any] = {
    "producer": 0,
    "session": 0,
    "sequence": 7,
    "attempt": 0,
    "partition": 0,
    "offsets": [7],
    "sent_at": at(1),
    "settled_at": at(2),
    "outcome": "ACKED",
    "acked_offset": 7,
    "detail": "in the log at 0:7; never applied",
}


Run = tuple[Material, ArmEvidence, dict[str, Any]]
"""A run, what is known of its arm, and the row of a case."""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run with a program of the user's own that committed a record ahead and was killed, and the record's case."""
    scenario = applied(run_directories.scenario(["a"]), "own")
    arm = scenario.arms[0]
    kill = Injection(
        id=1, cycle=0, action="kill_application", brokers=[], hit={}, requested_at_us=1, effect_at_us=at(5)
    )
    commit = {"arm": arm.name, "topic": arm.topic_name, "partition": 0, "offset": 9, "leader_epoch": 0, "metadata": ""}
    commit |= {"at": at(3), "log_partition": 1, "transactional": False, "committed": True, "log_offset": 2}
    other = commit | {"arm": "another", "log_offset": 3}
    member = {"arm": arm.name, "generation": 1, "member_id": "a-1", "client_id": "a", "at": 1, "assigned": [0]}
    group_log = GroupLog([commit, other], [member | {"log_partition": 1, "log_offset": 1}], [], [])
    row = ROW | {"arm": arm.name, "kind": "SKIPPED"}
    cases = pa.Table.from_pylist([row, row | {"sequence": 8, "offsets": [8]}])
    evidence = evidence_for_advice(scenario, [kill], cases=cases, group_log=group_log, taken_at_us=at(9))
    evidence.tally.tables["counts/producers.parquet"] = pa.table({"arm": [arm.name], "lost": [0], "torn": [0]})
    return Material(tmp_path, None, scenario, [kill]), evidence.arms[0], row


def example(run: Run, **changes: Any) -> Example:
    """What the verdict says of the case, with `changes` to its row."""
    material, arm, row = run
    return _example(arm, material.path, [row | changes])


def test_the_story_of_a_record_says_when_its_offset_was_committed_and_by_whom(run: Run) -> None:
    material, _, row = run
    told = example(run)
    assert [(moment, text) for moment, text, _ in events(material, row, told)] == [
        (at(3), "Offset 9 is committed by member a-1: from here on the group is not given this record any more.")
    ]
    assert last_us(material, row, told) == at(5), "the kill belongs to the story"
    assert told.why.startswith(
        "The program, or its client library, committed offsets of records that it had not applied"
    )
    assert "Offset 9 of this partition was committed at 00:00:03.000 UTC by member a-1" in told.why
    assert material.missing == []


def test_the_hops_of_a_record_of_a_program_end_with_what_its_group_committed(run: Run) -> None:
    material, _, row = run
    clock = Clock(0, True)
    *_, handed, applied, committed = chain(material, row, clock, example(run))
    assert (handed, applied) == (Hop("handed over", "unknown"), Hop("applied", "missing", "never"))
    assert committed == Hop("committed", "done", f"{clock.text(at(3))} by member a-1")
    behind = example(run, offsets=[9])
    assert chain(material, row | {"offsets": [9]}, clock, behind)[-1] == Hop("committed", "missing")
    assert last_us(material, row | {"offsets": [9]}, behind) is None
    nothing = "Neither the commits of its group nor the kills of the plan show at which hop it got lost or doubled."
    assert behind.why == nothing


def test_without_a_group_log_nobody_knows_what_the_group_committed(run: Run) -> None:
    material, arm, row = run
    unseen = ArmEvidence(replace_evidence(arm.run, group_log=None), arm.spec)
    told = example((material, unseen, row))
    assert (told.is_group_known, told.committed) == (False, None)
    assert chain(material, row, Clock(0, True), told)[-1] == Hop("committed", "unknown") and material.missing == []
