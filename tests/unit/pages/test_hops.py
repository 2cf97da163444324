"""Tests of the hops: who was handed a record, who applied it, and where it got lost or doubled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.applications import applied
from support.run_directories import scenario

from delivery_verifier.model.application import Discipline
from delivery_verifier.pages.material import Material
from delivery_verifier.pages.report.hops import events, explanation
from delivery_verifier.store.effect_tables import EFFECTS, JOURNAL
from delivery_verifier.store.table import arrow_schema

Row = dict[str, Any]
CASE: Row = {
    "arm": "a",
    "producer": 0,
    "session": 0,
    "sequence": 17,
    "attempt": 0,
    "partition": 0,
    "offsets": [17],
}


def effect(at: int, life: int, sequence: int = 17) -> Row:
    numbers = {"producer": 0, "session": 0, "sequence": sequence, "attempt": 0, "partition_sequence": sequence}
    place = {"partition": 0, "offset": sequence, "nth": 0, "order": at, "batch": 1, "applied_at": at}
    flags = {"parsed": True, "crc_ok": True, "foreign": False}
    return {"arm": "a", "member": 0, "life": life} | numbers | place | flags


def entry(at: int, life: int, what: str, first: int = -1, until: int = -1, answer: str | None = None) -> Row:
    moment = {"arm": "a", "member": 0, "life": life, "at": at, "what": what, "batch": 1, "partition": 0}
    return moment | {"first": first, "until": until, "answer": answer}


def material(path: Path, effects: list[Row], journal: list[Row], discipline: Discipline = "commit_first") -> Material:
    for table, rows in ((EFFECTS, effects), (JOURNAL, journal)):
        (path / table.name).mkdir()
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(table)), path / table.name / "a.parquet")
    return Material(path, None, scenario=applied(scenario(["a"]), discipline))


HANDED = entry(10, 0, "handed_over", 10, 20)
COMMITTED = entry(11, 0, "committed", -1, 20)
AGAIN = entry(30, 1, "handed_over", 10, 20)


def test_a_record_that_was_committed_and_then_not_applied_was_lost_in_the_application(tmp_path: Path) -> None:
    run = material(tmp_path, [effect(12, 0, sequence=16)], [HANDED, COMMITTED, entry(9, 0, "handed_over", 0, 10)])
    assert [sentence for _, sentence, _ in events(run, CASE | {"kind": "SKIPPED"})] == [
        "Member 0 (life 0) is handed the offsets 10 to 19.",
        "Member 0 (life 0) hears that offset 20 is committed: the group goes on from there.",
    ]
    expected = "Hop application: it was committed before it was applied, and the member never applied it."
    assert explanation(run, CASE | {"kind": "SKIPPED"}) == expected


@pytest.mark.parametrize(
    ("journal", "discipline", "expected"),
    [
        ([], "commit_first", "Hop hand-over: no member was ever given it"),
        ([HANDED], "at_handover", "the client's timer committed it"),
        ([HANDED, COMMITTED | {"answer": "UNKNOWN_MEMBER_ID"}], "commit_first", "given it and never applied it."),
        ([HANDED, COMMITTED], "commit_after", "Hop application: a member was given it and never applied it."),
    ],
)
def test_a_record_that_nobody_committed_for_itself_was_lost_elsewhere(
    tmp_path: Path, journal: list[Row], discipline: Discipline, expected: str
) -> None:
    assert expected in explanation(material(tmp_path, [], journal, discipline), CASE | {"kind": "SKIPPED"})


@pytest.mark.parametrize(
    ("journal", "expected"),
    [
        ([HANDED, AGAIN], "Hop application: it was applied, its commit never came"),
        ([HANDED, COMMITTED, AGAIN], "Hop hand-over: it was applied and committed, and the group was set back"),
        (
            [HANDED, COMMITTED | {"answer": "ILLEGAL_GENERATION"}, AGAIN],
            "Hop commit: it was applied, its commit was",
        ),
    ],
)
def test_a_record_that_two_lives_applied_was_doubled_where_the_commit_says(
    tmp_path: Path, journal: list[Row], expected: str
) -> None:
    run = material(tmp_path, [effect(11, 0), effect(31, 1)], journal)
    assert explanation(run, CASE | {"kind": "REAPPLIED"}).startswith(expected)
    told = [sentence for _, sentence, _ in events(run, CASE | {"kind": "REAPPLIED"})]
    assert "Member 0 (life 0) applies it." in told
    assert told[-1] == "Member 0 (life 1) applies it."


def test_a_case_of_the_log_and_a_run_without_applications_have_no_hops(tmp_path: Path) -> None:
    assert list(events(Material(tmp_path, None), CASE | {"kind": "LOST"})) == []
    assert list(events(Material(tmp_path, None), CASE | {"kind": "SKIPPED"})) == []
    assert explanation(Material(tmp_path, None), CASE | {"kind": "LOST"}) == ""
    assert explanation(Material(tmp_path, None), CASE | {"kind": "SKIPPED"}) == ""


def test_a_journal_that_cannot_be_read_is_missing_and_explains_nothing(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "a.parquet").write_bytes(b"half")
    run = Material(tmp_path, None)
    assert list(events(run, CASE | {"kind": "SKIPPED"})) == []
    assert explanation(run, CASE | {"kind": "SKIPPED"}) == "", "that nobody was given it would be a lie"
    assert {part.name for part in run.missing} == {"journal"}
