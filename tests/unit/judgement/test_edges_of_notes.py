"""Tests of notes, and of damage at the edges: none, one and several."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from support.evidence import RUN, SUBJECT, Rows, evidence_of, setting

from delivery_verifier.judgement.damage import damage_doubts, unreadable_clause
from delivery_verifier.judgement.evidence import ArmEvidence
from delivery_verifier.judgement.notes import notes
from delivery_verifier.model.unreadable import Unreadable

EVIDENCE = evidence_of(RUN)
END = 400
"""The end of each partition, in the hand-made run."""


def test_cases_that_were_not_all_written_down_are_noted() -> None:
    cut = {"cases": 1200, "written": 1000, "cut": True}

    def change(rows: Rows) -> None:
        next(row for row in rows["books/cases.parquet"] if row["arm"] == SUBJECT and row["kind"] == "LOST").update(cut)

    assert notes(EVIDENCE) == []
    (note,) = notes(evidence_of(RUN, change))
    assert note.startswith(f"{SUBJECT}: 1,000 of 1,200 cases of LOST were written down")
    (column, *others) = evidence_of(RUN, change).books.rows("cases").column_names
    assert column == "arm" and len(others) == 4, "no other column hides that one is missing"


@pytest.mark.parametrize(("reported", "noted"), [({}, 0), ({SUBJECT: 2}, 1), ({SUBJECT: 3}, 0), ({SUBJECT: 4}, 0)])
def test_attempts_without_a_report_are_noted(reported: dict[str, int], noted: int) -> None:
    change = setting("books/producers.parquet", "indeterminate", 3, arm=SUBJECT, producer=0)
    found = notes(evidence_of(RUN, change, indeterminate=reported))
    assert len(found) == noted and all("for 1 of 3 INDETERMINATE" in note for note in found)


def test_books_without_a_count_of_indeterminate_attempts_have_nothing_to_note() -> None:
    def without(rows: Rows) -> None:
        for row in rows["books/producers.parquet"]:
            del row["indeterminate"]

    assert notes(evidence_of(RUN, without, indeterminate={SUBJECT: 0})) == []


def unreadable(**ranges: list[tuple[int, int]]) -> ArmEvidence:
    """Returns the subject with unreadable `ranges` of offsets, by partition (`p0`)."""
    offsets = EVIDENCE.offsets
    parts = [
        msgspec.structs.replace(
            part,
            unreadable=tuple(
                Unreadable(first=first, end=end, shown_until=first, detail="x")
                for first, end in ranges.get(f"p{part.partition}", [])
                if part.arm == SUBJECT
            ),
        )
        for part in offsets.partitions
    ]
    evidence = replace(EVIDENCE, offsets=msgspec.structs.replace(offsets, partitions=parts))
    return next(arm for arm in evidence.loaded if arm.name == SUBJECT)


def test_damage_within_the_snapshot_comes_before_damage_behind_it() -> None:
    arm = unreadable(p0=[(END, END + 1)], p1=[(40, 60), (END, END + 9)], p2=[(END - 1, END)])
    assert [name.split(":")[0] for _, name in damage_doubts(arm)] == [f"{SUBJECT}/{at}" for at in (1, 2, 0)]
    assert "in partition 1, offsets 40 to 59 of the leader" in unreadable_clause(arm)


@pytest.mark.parametrize(("ranges", "more"), [(1, ""), (2, " (the first of 2 such ranges)")])
def test_damage_says_how_many_ranges_of_offsets_there_are(ranges: int, more: str) -> None:
    ((_, detail),) = damage_doubts(unreadable(p0=[(10 * at, 10 * at + 1) for at in range(ranges)]))
    assert detail.endswith(f"because x{more}")
