"""Tests of excuses: a permission has a time and a place. What nothing can excuse convicts, and nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.evidence import (
    BITE,
    RECOVERED,
    SECOND,
    Change,
    a_scenario,
    arm,
    both,
    case,
    cases,
    doubts,
    evidence_of,
    judged,
    lost,
    partition,
    setting,
    the_observations,
)

from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.judgement.windows import CLIENT_LAG_US
from delivery_verifier.model.history import Observation
from delivery_verifier.model.verdict import ArmVerdict

RUN, NAME = a_scenario("acks_1"), "acks_1"
CHANGED = BITE + 3 * SECOND
"""When another broker leads partition 0, in the hand-made run: its leader, broker 1, was killed before."""
UNTIL = CHANGED + OBSERVER_LAG_US
UNEXPLAINED = {("coverage", "unexplained")}


def judged_with(*rows: dict[str, object], change: Change = lost(7, NAME), **more: Any) -> ArmVerdict:
    return arm(judged(evidence_of(RUN, change, cases=cases(*rows), **more)), NAME)


def a_loss(sent_us: int, settled_us: int | None, at: int = 0, kind: str = "LOST") -> dict[str, object]:
    return case(sent_us, settled_us, kind, arm=NAME, at=at)


def lost_on(at: int) -> Change:
    where: dict[str, Any] = {"arm": NAME, "producer": 0, "partition": at}
    return both(
        setting("books/producers.parquet", "lost", 1, **where),
        setting("books/producers.parquet", "found", 399, **where),
    )


def seen(*changes: tuple[int, int, int, Sequence[int]], alive: bool = True) -> dict[str, Any]:
    """Returns observations in which partition 0 goes through `changes`: (at_us, leader, epoch, ISR). If broker 1, which
    leads it first, is `alive`, its process is not seen to exit."""
    first = [it for it in the_observations(RUN) if it.at_us < BITE]
    ended = Observation(at_us=BITE, kind="process", broker=1, state="exited", exit_code=-9)
    rest = [partition(RUN, at, NAME, 0, leader, epoch, list(isr)) for at, leader, epoch, isr in changes]
    return {"observations": [*first, *([] if alive else [ended]), *rest]}


def test_what_the_new_leader_acknowledged_after_the_last_change_is_not_excused_by_the_change() -> None:
    verdict = judged_with(a_loss(BITE + 4_500_000, BITE + 4_600_000))
    assert verdict.verdict == "VIOLATED"
    assert [(it.rule, it.ruling, it.count) for it in verdict.findings if it.anomaly == "LOST"] == [
        ("lost.acks_1", "PERMITTED", 6),
        ("lost.unexplained", "FORBIDDEN", 1),
    ]
    assert "1 lost, which the contract forbids" in verdict.sentence


@settings(max_examples=25, deadline=None)
@given(sent_us=st.integers(BITE - SECOND, BITE), delay_us=st.integers(0, 10 * SECOND))
def test_what_was_acknowledged_before_the_change_is_excused(sent_us: int, delay_us: int) -> None:
    settled_us = min(sent_us + delay_us, UNTIL + CLIENT_LAG_US)
    assert judged_with(a_loss(sent_us, settled_us)).verdict == "HELD"


@settings(max_examples=25, deadline=None)
@given(late_us=st.integers(1, 60 * SECOND), delay_us=st.integers(0, 10 * SECOND), kind=st.sampled_from(["LOST"]))
def test_what_was_sent_after_the_change_convicts(late_us: int, delay_us: int, kind: str) -> None:
    assert judged_with(a_loss(UNTIL + late_us, UNTIL + late_us + delay_us, kind=kind)).verdict == "VIOLATED"


@settings(max_examples=25, deadline=None)
@given(sent_us=st.integers(BITE - SECOND, BITE), late_us=st.none() | st.integers(1, 60 * SECOND))
def test_what_was_sent_before_the_change_and_acknowledged_nobody_knows_by_whom_is_a_doubt(
    sent_us: int, late_us: int | None
) -> None:
    settled_us = late_us and UNTIL + CLIENT_LAG_US + late_us
    verdict = judged_with(a_loss(sent_us, settled_us) | {"overwritten": False})
    assert (verdict.verdict, {(it.kind, it.name) for it in verdict.doubts}) == ("INCONCLUSIVE", UNEXPLAINED)


@settings(max_examples=25, deadline=None)
@given(sent_us=st.integers(2, RECOVERED), at=st.integers(1, 2))
def test_a_loss_on_a_partition_whose_leader_never_changed_convicts(sent_us: int, at: int) -> None:
    assert judged_with(a_loss(sent_us, sent_us + 1, at), change=lost_on(at)).verdict == "VIOLATED"


def test_a_loss_before_the_first_observation_of_its_partition_is_a_doubt() -> None:
    assert judged_with(a_loss(0, BITE, at=1), change=lost_on(1)).verdict == "INCONCLUSIVE"


def test_a_loss_on_a_partition_whose_leader_is_not_proven_convicts_nobody() -> None:
    evidence = evidence_of(RUN, lost_on(1), cases=cases(a_loss(BITE, BITE + 1, at=1)))
    unknown = [
        msgspec.structs.replace(part, leader_epoch=-1) if part.partition == 1 else part
        for part in evidence.offsets.partitions
    ]
    offsets = msgspec.structs.replace(evidence.offsets, partitions=unknown)
    verdict = judged(evidence_of(RUN, lost_on(1), cases=evidence.cases, offsets=offsets))
    assert (arm(verdict, NAME).verdict, doubts(verdict, NAME)) == ("INCONCLUSIVE", UNEXPLAINED)


LATER = a_loss(CHANGED + 2 * SECOND, CHANGED + 2 * SECOND + 1)
BACK, OUT = CHANGED + 3 * SECOND, [2, 3]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        (seen((CHANGED, 2, 1, OUT)), "HELD"),  # never seen to have learned of its successor
        (seen((CHANGED, 2, 1, [1, 2, 3])), "HELD"),  # staying in the ISR proves nothing
        (seen((CHANGED, 2, 1, OUT), (BACK, 2, 1, [1, 2, 3])), "HELD"),
        (seen((CHANGED, 2, 1, OUT), (CHANGED + 1, 2, 1, [1, 2, 3])), "VIOLATED"),
        (seen((CHANGED, 2, 1, OUT), (CHANGED + 1, 2, 1, [1, 2, 3]), (CHANGED + 2, 2, 1, OUT)), "HELD"),  # an old ISR
        (seen((CHANGED, 2, 1, OUT), (CHANGED + 1, 1, 2, [1, 2, 3])), "HELD"),  # broker 2 is deposed now, and lives
        (seen((CHANGED, -1, 1, []), (CHANGED + 1, 2, 2, OUT), alive=False), "VIOLATED"),
        (seen((CHANGED, 2, 3, OUT), alive=False), "HELD"),  # a leader that nobody saw: broker 3 may have been it
        (seen((CHANGED, 2, 1, OUT), (BACK, 3, 2, OUT), alive=False), "HELD"),  # the change after it may excuse it
    ],
)
def test_a_deposed_leader_acknowledges_until_it_learns_of_its_successor(changes: dict[str, Any], verdict: str) -> None:
    assert judged_with(LATER, **changes).verdict == verdict


def test_a_conviction_by_cases_never_exceeds_the_books() -> None:
    verdict = judged_with(LATER, a_loss(UNTIL + SECOND, UNTIL + 2 * SECOND), change=lost(1, NAME))
    assert [it.count for it in verdict.findings if it.anomaly == "LOST"] == [0, 1]


def test_a_hidden_case_convicts_too() -> None:
    hidden = both(
        setting("books/producers.parquet", "duplicated", 1, arm=NAME, producer=0),
        setting("books/producers.parquet", "also_misplaced", 1, arm=NAME, producer=0),
    )
    row = case(UNTIL + SECOND, UNTIL + 2 * SECOND, "DUPLICATED", "MISPLACED", arm=NAME)
    verdict = judged_with(row, change=hidden)
    assert [(it.rule, it.also) for it in verdict.findings if it.also] == [("misplaced.unexplained", 1)]


def test_what_a_client_sends_again_once_it_learns_of_a_leader_late_is_a_doubt_and_no_violation() -> None:
    run = a_scenario("retries_off")
    twice = setting("books/producers.parquet", "duplicated", 1, arm="retries_off", producer=0)
    for sent_us, expected in (
        (CHANGED, "HELD"),
        (UNTIL + CLIENT_LAG_US, "HELD"),
        (UNTIL + CLIENT_LAG_US + 1, "INCONCLUSIVE"),
    ):
        row = case(sent_us, sent_us + 1, "DUPLICATED", arm="retries_off")
        assert arm(judged(evidence_of(run, twice, cases=cases(row))), "retries_off").verdict == expected
