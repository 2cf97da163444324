"""Tests of the snapshot without markers: two looks that agree, or a doubt."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from delivery_verifier.audit import snapshot
from delivery_verifier.cluster.foreign_topic import Look


def look(end: int = 10, leader: int = 1, epoch: int = 0, in_sync: bool = True) -> dict[int, Look]:
    return {0: Look(start=0, end=end, stable=end, leader=leader, leader_epoch=epoch, in_sync=in_sync)}


def looking(looks: Sequence[dict[int, Look]]) -> Callable[[], dict[int, Look]]:
    """Returns a function that gives one look after another, and then the last one again and again."""
    left = list(looks)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_two_equal_looks_are_a_snapshot() -> None:
    taken = snapshot.take(looking([look()]), {0: 10}, quiet_s=0)
    assert (taken.looks, taken.wrong) == (look(), {})


def test_it_waits_until_the_log_stands_still_its_leader_stays_and_all_replicas_are_in_sync() -> None:
    unsteady = [look(8), look(9), look(9, in_sync=False), look(9, epoch=1, leader=2), look(10, epoch=1, leader=2)]
    taken = snapshot.take(looking(unsteady), {}, quiet_s=0)
    assert (taken.looks, taken.wrong) == (unsteady[-1], {})


def test_it_waits_until_the_high_watermark_is_behind_every_acknowledged_offset() -> None:
    looks = [look(8), look(8), look(8), look(12), look(12)]
    assert snapshot.take(looking(looks), {0: 12}, quiet_s=0).looks == look(12)


def test_without_offsets_it_waits_for_longer_than_a_follower_may_trail() -> None:
    """30 s is Kafka's default of replica.lag.time.max.ms."""
    assert snapshot.quiet_s(0) == snapshot.QUIET_S and 30 < snapshot.quiet_s(1) < snapshot.DEADLINE_S


@pytest.mark.parametrize(
    ("looks", "name"),
    [
        ([look(8), look(9), look(8), look(9)] * 50, "not_quiet"),
        ([look(epoch=0), look(epoch=1)] * 50, "not_quiet"),
        ([look(leader=1), look(leader=2)] * 50, "not_quiet"),
        ([look(in_sync=False)], "isr_not_full"),
        ([look(leader=-1)], "isr_not_full"),
    ],
)
def test_what_does_not_come_to_rest_is_reported_by_name(looks: list[dict[int, Look]], name: str) -> None:
    taken = snapshot.take(looking(looks), {}, quiet_s=0.001, deadline_s=0)
    assert [*taken.wrong] == [name] and "partition 0" in taken.wrong[name]


def test_an_offset_behind_the_end_is_waited_for_only_until_the_deadline() -> None:
    taken = snapshot.take(looking([look(8)]), {0: 12}, quiet_s=0, deadline_s=0.01)
    assert (taken.looks, taken.wrong) == (look(8), {})  # the matching then counts the claims behind the end
