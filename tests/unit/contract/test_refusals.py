"""Tests of refusals: an ISR that is whole again, or large enough, lets brokers refuse nothing any more."""

from __future__ import annotations

from typing import Any

import pytest

from delivery_verifier.contract.disturbances import disturbances
from delivery_verifier.contract.effect_windows import EffectWindow, effect_windows
from delivery_verifier.contract.refusals import regained, satisfied
from delivery_verifier.model.history import Disturbance, Injection, Observation

SECOND = 1_000_000


def isr(s: int, *brokers: int, leader: int = 1, epoch: int = 1, partition: int = 0, **more: Any) -> Observation:
    return Observation(
        at_us=s * SECOND, kind="partition", topic="t", partition=partition, leader=leader, leader_epoch=epoch,
        isr=list(brokers), **more,
    )  # fmt: skip


ALL = isr(1, 1, 2, 3)


def windows(seen: list[Observation], *injections: Injection, kind: str) -> list[EffectWindow]:
    return [
        each
        for each in effect_windows(disturbances(seen, injections), seen, injections)
        if each.disturbance.kind == kind
    ]


def ends_of_shrinks(*seen: Observation) -> list[int | None]:
    """Returns the time in s at which the effect window of each shrink ends."""
    ends = [each.until_us for each in windows([ALL, *seen], kind="isr_shrink")]
    return [end and end // SECOND for end in ends]


@pytest.mark.parametrize(
    ("seen", "ends"),
    [
        ([isr(24, 1, 2), isr(27, 1, 2, 3)], [27]),
        ([isr(24, 1, 2)], [None]),
        ([isr(24, 1, 2), isr(25, 1), isr(26, 1, 2), isr(27, 1, 2, 3)], [27, 26]),
        ([isr(24, 1, 2), isr(25, 1, 3), isr(27, 1, 2, 3)], [27, 27]),
        ([isr(24, 1, 2), isr(27, 1, 2, 3), isr(30, 1, 2), isr(33, 1, 2, 3)], [27, 33]),
        ([isr(24, 1, 2), isr(27, 1, 2, 3, leader=-1), isr(29, 1, 2, 3)], [29]),
        ([isr(24, 1, 2), isr(27, 1, 2, 3, epoch=0)], [None]),
        ([isr(24, leader=-1, elr=[1]), isr(27, 1, epoch=2), isr(29, 1, 2, 3, epoch=2)], [29, 29]),
        ([isr(24, 1, 2), isr(24, 1), isr(24, 1, 2), isr(27, 1, 2, 3)], [27, 27]),
    ],
    ids=["whole", "never", "step_by_step", "another_two", "twice", "no_leader", "old_epoch", "nobody", "at_once"],
)
def test_the_reach_of_a_shrink_ends_when_all_its_members_are_back(
    seen: list[Observation], ends: list[int | None]
) -> None:
    assert ends_of_shrinks(*seen) == ends


def end_of_alteration(value: int, *seen: Observation, setting: str = "min.insync.replicas") -> int | None:
    """Returns the time in s at which the effect window of an alteration ends that happens at 20 s to two partitions."""
    alteration = Injection(
        id=1, cycle=0, action="alter_topic", brokers=[], hit={"t": [0, 1]}, requested_at_us=20 * SECOND,
        effect_at_us=20 * SECOND, took_effect=True, options={"setting": setting, "value": value},
    )  # fmt: skip
    (window,) = windows([ALL, isr(1, 1, 2, 3, partition=1), *seen], alteration, kind="topic_altered")
    return window.until_us and window.until_us // SECOND


def test_the_reach_of_an_altered_min_isr_ends_when_the_isrs_are_large_enough() -> None:
    assert end_of_alteration(2) == 20
    assert end_of_alteration(2, isr(18, 1)) is None
    assert end_of_alteration(2, isr(18, 1), isr(23, 1, 2)) == 23
    assert end_of_alteration(2, isr(18, 1), isr(23, 1, 2), isr(18, 1, partition=1)) is None
    assert end_of_alteration(2, isr(18, 1), isr(22, 1, 2, leader=-1), isr(25, 1, 2)) == 25
    assert end_of_alteration(4, isr(25, 1, 2, 3, epoch=2)) is None
    assert end_of_alteration(2, isr(22, 1)) == 20, "that is a shrink, and has an effect window of its own"
    assert end_of_alteration(2, setting="flush.messages") is None


# ---- At the edges: an ISR seen in the microsecond of an alteration, and a leader with the id 0.


AT_US = 20


def isr_of(at_us: int, size: int) -> tuple[int, Observation]:
    return at_us, Observation(at_us=at_us, kind="partition", topic="t", partition=0, leader=0, isr=list(range(size)))


@pytest.mark.parametrize(
    ("seen", "end_us"),
    [
        ([isr_of(19, 3), isr_of(AT_US, 1), isr_of(27, 3)], 27),
        ([isr_of(19, 1), isr_of(AT_US, 3)], AT_US),
        ([isr_of(AT_US, 3), isr_of(AT_US, 1), isr_of(27, 3)], 27),
        ([isr_of(19, 3), isr_of(21, 1)], AT_US),
        ([isr_of(19, 1), isr_of(21, 3)], 21),
        ([isr_of(18, 3), isr_of(19, 1), isr_of(27, 3)], 27),
        ([isr_of(19, 1)], None),
    ],
)
def test_the_last_isr_up_to_the_alteration_counts(seen: list[tuple[int, Observation]], end_us: int | None) -> None:
    altered = Disturbance(
        kind="topic_altered", at_us=AT_US, planned=True, topic="t", partitions=[0], setting="min.insync.replicas",
        value="3",
    )  # fmt: skip
    assert satisfied(altered, {("t", 0): seen}) == end_us


def test_an_isr_that_broker_0_leads_is_whole_again() -> None:
    assert regained({("t", 0): [isr_of(1, 2), isr_of(2, 1), isr_of(3, 2)]}) == {("t", 0, 2): 3}
