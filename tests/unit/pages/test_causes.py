"""Tests of who broke a promise: report, terminal, note, mail and JUnit tell what the program did, and what to look for
in it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from support import report_material, run_directories
from support.applications import applied
from support.commands import without_git
from support.evidence import SECOND

from delivery_verifier.judgement.evaluation import Validation
from delivery_verifier.model.history import Injection
from delivery_verifier.model.verdict import Cause, RunVerdict
from delivery_verifier.pages import brief, junit, terminal
from delivery_verifier.pages.causes import of_subjects, who_broke_it
from delivery_verifier.pages.leadership import Clock
from delivery_verifier.pages.material import Material
from delivery_verifier.pages.report import page, programs
from delivery_verifier.pages.report.chain import Hop, chain
from delivery_verifier.pages.report.hops import events, explanation, last_us
from delivery_verifier.store.table import Table, arrow_schema
from delivery_verifier.store.tables import ANOMALIES
from delivery_verifier.store.witness_tables import COMMITS, GENERATIONS

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
    return path, replace(verdict, arms=[replace(subject, findings=[skipped], causes=[CAUSE]), *verdict.arms[1:]])


def test_every_place_that_tells_the_verdict_tells_who_did_it_and_what_to_look_for(
    broken: tuple[Path, RunVerdict], tmp_path: Path
) -> None:
    path, verdict = broken
    terminal.write(verdict, stream := io.StringIO(), run_dir=path)
    junit.write(tmp_path / "out.xml", verdict, Validation(run_id="r", great_expectations_version="1", evaluated=[]))
    note, mail = brief.note_text(verdict, path), "\n".join(brief.plain_lines(path, verdict))
    for text in (stream.getvalue(), note, mail, page.render(path, verdict), (tmp_path / "out.xml").read_text()):
        assert [part for part in SAID if part not in text] == []
        assert "broke a promise" not in text
    assert "No setting: your program, or the client library that it uses, did it. Kafka did what it was told." in note


def test_where_the_evidence_shows_nobody_kafka_its_client_and_the_verifier_remain(
    broken: tuple[Path, RunVerdict],
) -> None:
    path, verdict = broken
    bare = replace(verdict, arms=[replace(verdict.arms[0], causes=[]), *verdict.arms[1:]])
    assert "Kafka, its client or this verifier broke a promise." in brief.note_text(bare, path)
    assert of_subjects(bare) == of_subjects(None) == []


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
    note = brief.note_text(verdict, path)
    assert len(note) <= brief.NOTE_LENGTH and SAID[0] in note and "x" * 600 not in note
    assert note.endswith("More: in the tab *Delivery report* of this run.")


def test_of_several_subjects_each_cause_names_its_arm(broken: tuple[Path, RunVerdict]) -> None:
    _, verdict = broken
    two = replace(verdict, arms=[verdict.arms[0], replace(verdict.arms[0], arm="second"), *verdict.arms[1:]])
    assert [each.heading.split(":")[0] for each in of_subjects(two)] == [verdict.arms[0].arm, "second"]


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


def write(path: Path, table: Table, *rows: dict[str, Any]) -> None:
    file = path / table.file
    file.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows), arrow_schema(table)), file)


@pytest.fixture
def run(tmp_path: Path) -> tuple[Material, dict[str, Any]]:
    """A run with a program of the user's own that committed a record ahead and was killed, and the record's case."""
    path, scenario = tmp_path, applied(run_directories.scenario(["a"]), "own")
    material, arm = Material(path, None, scenario), scenario.arms[0]
    kill = Injection(id=1, cycle=0, action="kill_application", brokers=[], hit={}, requested_at_us=1, bite_at_us=at(5))
    material.injections = [kill]
    commit = {"arm": arm.name, "topic": arm.topic_name, "partition": 0, "offset": 9, "leader_epoch": 0, "metadata": ""}
    place = {"at": at(3), "log_partition": 1, "transactional": False, "committed": True}
    write(path, COMMITS, commit | place | {"log_offset": 2}, commit | place | {"arm": "another", "log_offset": 3})
    member = {"arm": arm.name, "generation": 1, "member_id": "a-1", "client_id": "a", "at": 1, "assigned": [0]}
    write(path, GENERATIONS, member | {"log_partition": 1, "log_offset": 1})
    row = ROW | {"arm": arm.name, "kind": "SKIPPED"}
    names = [name for name in ANOMALIES.column_names if name in row]
    others = [row | {"sequence": 8, "offsets": [8]}]
    material.tables["anomalies"] = pa.Table.from_pylist(
        [{name: each[name] for name in names} for each in [row, *others]]
    )
    return material, row


def test_the_story_of_a_record_says_when_its_offset_was_committed_and_by_whom(
    run: tuple[Material, dict[str, Any]],
) -> None:
    material, row = run
    assert [(moment, text) for moment, text, _ in events(material, row)] == [
        (at(3), "Offset 9 is committed by member a-1: from here on the group is not given this record any more.")
    ]
    assert last_us(material, row) == at(5), "the kill belongs to the story"
    why = explanation(material, row)
    assert why.startswith("The program, or its client library, committed offsets of records that it had not applied")
    assert "Offset 9 of this partition was committed at 00:00:03.000 UTC by member a-1" in why
    assert material.missing == []


def test_the_hops_of_a_record_of_a_program_end_with_what_its_group_committed(
    run: tuple[Material, dict[str, Any]],
) -> None:
    material, row = run
    clock = Clock(0, True)
    *_, handed, applied, committed = chain(material, row, clock)
    assert (handed, applied) == (Hop("handed over", "unknown"), Hop("applied", "missing", "never"))
    assert committed == Hop("committed", "done", f"{clock.text(at(3))} by member a-1")
    behind = row | {"offsets": [9]}
    assert chain(material, behind, clock)[-1] == Hop("committed", "missing")
    assert last_us(material, behind) is None
    nothing = "Neither the commits of its group nor the kills of the plan show at which hop it got lost or doubled."
    assert explanation(material, behind) == nothing


def test_without_a_witness_nobody_knows_what_the_group_committed(run: tuple[Material, dict[str, Any]]) -> None:
    material, row = run
    (material.path / COMMITS.file).unlink()
    assert programs.group_of(material, row["arm"]) is None and programs.group_of(material, "nobody") is None
    assert chain(material, row, Clock(0, True))[-1] == Hop("committed", "unknown") and material.missing == []
    (material.path / COMMITS.file).write_bytes(b"PAR1")
    assert programs.group_of(material, row["arm"]) is None
    assert [part.name for part in material.missing] == [COMMITS.file]
