"""Tests that records which nobody can read convict as CORRUPTED, with checksums or the broker's error as evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from support.evidence import (
    CANARY_ARM,
    RUN,
    SUBJECT,
    WEAK,
    Rows,
    a_scenario,
    arm,
    doubts,
    evidence_of,
    judged,
    lost,
    with_arm,
)

from delivery_verifier.advice.doubts import ADVICE
from delivery_verifier.judgement.damage import damage_doubts, unreadable_clause
from delivery_verifier.judgement.evidence import ArmEvidence, Evidence
from delivery_verifier.judgement.sentences import run_sentence
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.scenario import Bound, Expectation
from delivery_verifier.model.unreadable import Unreadable, count_unreadable
from delivery_verifier.pages.anomaly_columns import cases

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


def test_a_control_whose_losses_are_unproven_lost_at_least_those_that_are_proven() -> None:
    missing = {(WEAK, 1): 1_000, (WEAK, 2): 7}
    verdict = judged(damaged(lost(3, WEAK), name=WEAK, missing=missing))
    more = "and 1,007 that were not found may be at unreadable offsets."
    assert f"The fault took at least 3 of 1,200 records from the control acks_0, {more}" in verdict.sentence
    control = arm(verdict, WEAK)
    assert cases(control.books, Anomaly.LOST) is None and cases(arm(verdict).books, Anomaly.LOST) == 0
    quiet = run_sentence(evidence_of(a_scenario(fault="none")), [arm(verdict)], [control])
    assert quiet.endswith(f"at least 3 of 1,200 records were lost, without a fault, {more}")
    many = run_sentence(evidence_of(RUN), [arm(verdict)], [control] * 3)
    assert f"{WEAK} (3 lost, and 1,007 not found)" in many


@pytest.mark.parametrize(("op", "value", "met"), [("=", 0, False), ("<=", 2, False), ("<=", 3, True), (">=", 0, True)])
def test_a_bound_on_losses_is_met_only_if_every_possible_number_of_them_meets_it(
    op: Any, value: int, met: bool
) -> None:
    bound = Bound(count="LOST", op=op, value=value)
    scenario = with_arm(RUN, WEAK, expectation=Expectation(verdicts=("HELD", "VIOLATED"), bounds=(bound,)))
    missing = {(WEAK, 1): 3}
    assert arm(judged(evidence_of(scenario, missing=missing)), WEAK).as_expected is met
    assert arm(judged(evidence_of(scenario)), WEAK).as_expected


def test_unreadable_offsets_forbid_held_whatever_the_books_count() -> None:
    said = judged(damaged(lambda rows: None))
    assert (arm(said).verdict, doubts(said)) == ("INCONCLUSIVE", {("coverage", "log_unreadable")})
    of_canary = judged(damaged(lambda rows: None, CANARY_ARM))
    assert doubts(of_canary, CANARY_ARM) == {("coverage", "log_unreadable")} and doubts(of_canary) == set()


def test_unreadable_offsets_are_counted_where_they_are_asked_for() -> None:
    assert [count_unreadable(DAMAGE, *within) for within in ((0, 100), (50, 81), (60, 80), (0, 41))] == [21, 11, 0, 1]


def test_there_is_advice_for_the_doubt() -> None:
    assert "log_unreadable" in ADVICE


# ---- At the edges: damage behind the snapshot, and several ranges.


EVIDENCE = evidence_of(RUN)
END = 400
"""The end of each partition, in the hand-made run."""


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
