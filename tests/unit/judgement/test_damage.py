"""Tests that records which nobody can read convict as CORRUPTED, with checksums or the broker's error as evidence."""

from __future__ import annotations

from typing import Any

import msgspec
from support.evidence import CANARY_ARM, RUN, SUBJECT, Rows, arm, doubts, evidence_of, judged

from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.model.unreadable import Unreadable, count_unreadable
from delivery_verifier.pages.doubts import ADVICE

WHY = "t/1 was not fetched: error 2 (CORRUPT_MESSAGE)"
DAMAGE = (
    Unreadable(first=40, end=60, shown_until=39, detail=WHY),
    Unreadable(first=80, end=81, shown_until=80, detail="a batch of 90 bytes"),
)


def corrupted(rows: Rows) -> None:
    """Makes 21 records of partition 1 of the subject corrupted."""
    row = next(
        row
        for row in rows["books/producers.parquet"]
        if (row["arm"], row["producer"], row["partition"]) == (SUBJECT, 0, 1)
    )
    row["corrupted"] = 21


def damaged(change: Any = corrupted, name: str = SUBJECT, partition: int = 1, **more: Any) -> Evidence:
    offsets = evidence_of(RUN).offsets
    parts = [
        msgspec.structs.replace(part, unreadable=DAMAGE) if (part.arm, part.partition) == (name, partition) else part
        for part in offsets.partitions
    ]
    return evidence_of(RUN, change, offsets=msgspec.structs.replace(offsets, partitions=parts), **more)


def leader() -> int:
    return next(
        part.leader for part in evidence_of(RUN).offsets.partitions if (part.arm, part.partition) == (SUBJECT, 1)
    )


def test_unreadable_records_are_a_violation_with_the_brokers_error_as_evidence() -> None:
    said = arm(judged(damaged()))
    evidence = (
        f"offsets 40 to 59 of the leader, broker {leader()}, cannot be read, because {WHY} (the first of 2 such ranges)"
    )
    assert said.verdict == "VIOLATED"
    assert f"21 corrupted (21 of them cannot be read: in partition 1, {evidence}), which the" in said.sentence
    (doubt,) = said.doubts
    assert (doubt.kind, doubt.name, doubt.detail) == ("coverage", "log_unreadable", f"{SUBJECT}/1: {evidence}")


def test_attempts_that_may_be_there_are_named_and_not_called_lost() -> None:
    (doubt,) = arm(judged(damaged(missing={(SUBJECT, 1): 1_234, (SUBJECT, 2): 7}))).doubts
    assert doubt.detail.endswith(
        "; 1,234 of its reported records were not found, and are not called lost, because they may be at unreadable "
        "offsets"
    )


def test_unreadable_offsets_forbid_held_whatever_the_books_count() -> None:
    said = judged(damaged(lambda rows: None))
    assert (arm(said).verdict, doubts(said)) == ("INCONCLUSIVE", {("coverage", "log_unreadable")})
    of_canary = judged(damaged(lambda rows: None, CANARY_ARM))
    assert doubts(of_canary, CANARY_ARM) == {("coverage", "log_unreadable")} and doubts(of_canary) == set()


def test_unreadable_offsets_are_counted_where_they_are_asked_for() -> None:
    assert [count_unreadable(DAMAGE, *within) for within in ((0, 100), (50, 81), (60, 80), (0, 41))] == [21, 11, 0, 1]


def test_there_is_advice_for_the_doubt() -> None:
    assert "log_unreadable" in ADVICE
