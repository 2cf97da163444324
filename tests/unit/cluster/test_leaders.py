"""Leaders: who is asked how far its log reached, and whether it knows that it is deposed, and what is made of the
answers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery_verifier.cluster.leaders import Due, EpochStarts, Leaders, ask, epoch_starts
from delivery_verifier.cluster.protocol.requests import EpochEnd, EpochQuestion, Partition, PartitionState
from delivery_verifier.model.history import TRANSACTION_STATE, Observation

KEY: Partition = ("t", 0)


class Leader:
    """A broker that answers from its leader epoch caches, as Kafka's LeaderEpochFileCache.endOffsetFor does."""

    def __init__(self, *caches: tuple[Partition, EpochStarts]) -> None:
        self.caches = dict(caches)
        self.asked = 0
        self.led: set[Partition] = set()

    def epoch_ends(self, broker: int, questions: Mapping[Partition, EpochQuestion]) -> dict[Partition, EpochEnd]:
        self.asked += 1
        assert self.asked < 100, "the questions never end"
        answers = {}
        for key, question in questions.items():
            cache = self.caches.get(key, {})
            if question.led == max(cache, default=-1):  # else: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH
                answers[key] = self._end(cache, question.epoch)
        return answers

    def not_leading(self, broker: int, led: Mapping[Partition, int]) -> set[Partition]:
        return {*led} - self.led

    @staticmethod
    def _end(cache: EpochStarts, epoch: int) -> EpochEnd:
        higher = [other for other in cache if other > epoch]
        if epoch < 0 or not higher:
            return EpochEnd(-1, -1)
        known = max((other for other in cache if other <= epoch), default=epoch)
        return EpochEnd(known, cache[min(higher)])


def state(leader: int, epoch: int) -> PartitionState:
    return PartitionState(leader, epoch, (1, 2, 3), (1, 2, 3), (), 0)


def growing(steps: list[tuple[int, int]]) -> EpochStarts:
    """Returns a cache: each step raises the epoch and the offset by at least one. The log starts at offset 0."""
    cache, epoch, offset = EpochStarts(), -1, 0
    for more_epochs, more_offsets in steps:
        epoch += more_epochs
        cache[epoch] = offset
        offset += more_offsets
    return cache


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 1000)), min_size=1, max_size=12).map(growing))
def test_the_answers_of_a_leader_are_its_leader_epoch_cache(cache: EpochStarts) -> None:
    led = max(cache)
    found = epoch_starts(Leader((KEY, cache)), 1, {KEY: led}) if led else {KEY: cache}
    assert found == {KEY: cache} and list(found[KEY]) == sorted(cache)


def test_many_partitions_are_asked_together() -> None:
    other: Partition = ("u", 3)
    leader = Leader((KEY, {0: 0, 1: 952}), (other, {0: 0, 2: 7, 5: 9}))
    assert epoch_starts(leader, 1, {KEY: 1, other: 5}) == {KEY: {0: 0, 1: 952}, other: {0: 0, 2: 7, 5: 9}}
    assert leader.asked == 2


def test_a_log_that_was_empty_at_the_election_begins_with_the_epoch_of_its_leader() -> None:
    assert epoch_starts(Leader((KEY, {3: 0})), 1, {KEY: 3}) == {KEY: {3: 0}}


@pytest.mark.parametrize("led", [1, 3])
def test_a_broker_that_leads_in_another_epoch_says_nothing(led: int) -> None:
    assert epoch_starts(Leader((KEY, {0: 0, 2: 10})), 1, {KEY: led}) == {}


def test_a_broker_that_is_deposed_between_two_questions_says_nothing() -> None:
    class Deposed(Leader):
        def epoch_ends(self, broker: int, questions: Mapping[Partition, EpochQuestion]) -> dict[Partition, EpochEnd]:
            return {} if self.asked else super().epoch_ends(broker, questions)

    assert epoch_starts(Deposed((KEY, {0: 0, 1: 5, 2: 10})), 1, {KEY: 2}) == {}


@pytest.mark.parametrize("answer", [EpochEnd(-1, -1), EpochEnd(2, 5)])
def test_an_answer_that_no_leader_gives_is_no_answer(answer: EpochEnd) -> None:
    class Odd(Leader):
        def epoch_ends(self, broker: int, questions: Mapping[Partition, EpochQuestion]) -> dict[Partition, EpochEnd]:
            return dict.fromkeys(questions, answer)

    assert epoch_starts(Odd(), 1, {KEY: 2}) == {}


def elected(leaders: Leaders, broker: int) -> dict[Partition, int]:
    return dict(leaders.due(broker).elected)


def deposed(leaders: Leaders, broker: int) -> dict[Partition, int]:
    return dict(leaders.due(broker).deposed)


def said(kind: str, broker: int, epoch: int) -> Observation:
    return Observation(at_us=1, kind=kind, topic="t", partition=0, broker=broker, leader_epoch=epoch)  # type: ignore[arg-type]


def test_only_a_leader_that_was_elected_while_watched_is_asked_and_only_until_it_answers() -> None:
    leaders = Leaders()
    leaders.note(KEY, state(1, 4))
    assert not any(leaders.due(1)), "it led when the watch began"
    leaders.note(KEY, state(2, 5))
    assert (elected(leaders, 1), elected(leaders, 2)) == ({}, {KEY: 5})
    leaders.note(KEY, state(-1, 6))
    assert (elected(leaders, 2), elected(leaders, -1)) == ({}, {KEY: 6})
    leaders.note(KEY, state(3, 7))
    assert (elected(leaders, 2), elected(leaders, 3)) == ({}, {KEY: 7})
    leaders.answered(said("epochs", 2, 5))  # late: it was asked before it was deposed
    assert elected(leaders, 3) == {KEY: 7}
    leaders.answered(said("epochs", 3, 7))
    leaders.note(KEY, state(3, 7))
    assert elected(leaders, 3) == {}


def test_the_leader_of_a_new_epoch_is_asked_even_if_it_led_before() -> None:
    leaders = Leaders()
    leaders.note(KEY, state(1, 0))
    leaders.note(KEY, state(1, 1))
    assert (elected(leaders, 1), deposed(leaders, 1)) == ({KEY: 1}, {})


def test_a_former_leader_is_asked_until_it_knows_that_it_is_deposed() -> None:
    leaders = Leaders()
    leaders.note(KEY, state(1, 0))
    leaders.note(KEY, state(2, 1))
    assert (deposed(leaders, 1), deposed(leaders, 2), deposed(leaders, 3)) == ({KEY: 1}, {}, {})
    leaders.note(KEY, state(3, 2))
    assert (deposed(leaders, 1), deposed(leaders, 2)) == ({KEY: 1}, {KEY: 2})
    leaders.answered(said("deposed", 1, 1))
    assert (deposed(leaders, 1), deposed(leaders, 2)) == ({}, {KEY: 2})


def test_a_former_leader_that_leads_again_is_not_asked_and_its_late_answer_settles_nothing() -> None:
    leaders = Leaders()
    for leader, epoch in ((1, 0), (2, 1), (1, 2)):
        leaders.note(KEY, state(leader, epoch))
    assert (deposed(leaders, 1), deposed(leaders, 2)) == ({}, {KEY: 2})
    leaders.note(KEY, state(3, 3))
    leaders.answered(said("deposed", 1, 1))  # it was asked before it led again
    assert deposed(leaders, 1) == {KEY: 3}


def test_of_an_epoch_that_nobody_saw_every_replica_may_have_been_the_leader() -> None:
    leaders = Leaders()
    leaders.note(KEY, state(1, 0))
    leaders.note(KEY, state(2, 2))
    assert [deposed(leaders, broker) for broker in (1, 2, 3)] == [{KEY: 2}, {}, {KEY: 2}]


def test_a_new_isr_in_the_same_epoch_asks_nobody() -> None:
    leaders = Leaders()
    leaders.note(KEY, state(1, 0))
    leaders.note(KEY, PartitionState(1, 0, (1, 2, 3), (1,), (), 0))
    assert not any(any(leaders.due(broker)) for broker in (1, 2, 3))


def test_a_partition_that_is_being_created_and_the_transaction_coordinators_are_not_asked() -> None:
    leaders = Leaders()
    leaders.note(KEY, state(-1, 0))
    leaders.note(KEY, state(1, 1))
    leaders.note((TRANSACTION_STATE, 0), state(1, 0))
    leaders.note((TRANSACTION_STATE, 0), state(2, 1))
    assert not any(any(leaders.due(broker)) for broker in (1, 2))


def test_the_answers_are_observations() -> None:
    broker, other = Leader((KEY, {0: 0, 1: 952})), ("u", 3)
    first, second = ask(broker, 2, Due({KEY: 1}, {other: 4}))
    assert (first.kind, first.topic, first.partition, first.leader, first.leader_epoch) == ("epochs", "t", 0, 2, 1)
    assert (first.epochs, first.epoch_starts) == ([0, 1], [0, 952])
    assert (second.kind, second.topic, second.partition) == ("deposed", "u", 3)
    assert (second.broker, second.leader_epoch) == (2, 4)
    broker.led = {other}
    assert ask(broker, 2, Due({}, {other: 4})) == []
