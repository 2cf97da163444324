"""Views: of what several brokers report of a partition, what is believed."""

from __future__ import annotations

import pytest

from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.cluster.views import newest

KEY = ("t", 0)


def state(leader: int, epoch: int, isr: tuple[int, ...]) -> PartitionState:
    return PartitionState(leader, epoch, (1, 2, 3), isr, (), 0)


FULL, SHRUNK = (state(3, 5, isr) for isr in ((1, 2, 3), (3,)))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_newest_epoch_is_believed_and_without_the_leader_what_most_brokers_say(order: tuple[int, ...]) -> None:
    stale, moved = state(1, 4, (1, 2, 3)), state(2, 5, (2, 3))
    assert newest({broker: {KEY: [stale, stale, moved][at]} for broker, at in enumerate(order, 1)}) == {KEY: moved}
    nobody = state(-1, 5, ()), state(-1, 5, (2,))
    reports = {broker: {KEY: [nobody[1], nobody[0], nobody[0]][at]} for broker, at in enumerate(order, 1)}
    assert newest(reports) == {KEY: nobody[0]}
    assert newest({}) == {}


def test_in_one_epoch_the_leader_is_believed_against_brokers_that_are_cut_off() -> None:
    assert newest({1: {KEY: FULL}, 3: {KEY: SHRUNK}}) == {KEY: SHRUNK}, "one that is cut off has the lower id"
    assert newest({1: {KEY: FULL}, 2: {KEY: FULL}, 3: {KEY: SHRUNK}}) == {KEY: SHRUNK}, "two are cut off"


def test_a_leader_of_an_earlier_epoch_is_not_believed() -> None:
    assert newest({1: {KEY: state(1, 4, (1, 2, 3))}, 2: {KEY: state(3, 5, (2, 3))}}) == {KEY: state(3, 5, (2, 3))}


def test_without_the_leaders_own_view_the_smallest_isr_is_believed_however_many_are_cut_off() -> None:
    assert newest({1: {KEY: FULL}, 2: {KEY: FULL}, 4: {KEY: SHRUNK}}) == {KEY: SHRUNK}
    assert newest({1: {KEY: FULL}, 2: {KEY: state(3, 5, (2, 3))}, 4: {KEY: state(3, 5, (2, 3))}}) == {
        KEY: state(3, 5, (2, 3))
    }
