"""Tests of disturbances of partitions: a broker with the id 0, topics that are just created, epochs."""

from __future__ import annotations

from msgspec.structs import replace
from support.observations import KILL as OF_BROKER_1
from support.observations import at as seen

from delivery_verifier.contract.disturbances import disturbances
from delivery_verifier.model.history import Disturbance, Injection, Observation

KILL = replace(OF_BROKER_1, brokers=[0])


def found(*observations: Observation, injections: tuple[Injection, ...] = ()) -> list[Disturbance]:
    return disturbances(observations, injections)


def test_a_topic_that_is_being_created_hides_no_change_of_another() -> None:
    before, after = seen(1, 1, 0, [1, 2]), seen(3, 2, 1, [1, 2])
    changes = found(before, seen(2, -1, 0, [], partition=1), after)
    assert [(it.kind, it.partitions) for it in changes] == [("leader_change", [0])]


def test_a_change_names_the_new_leader_if_there_is_one() -> None:
    changes = found(seen(1, 1, 0, [1, 0]), seen(2, 0, 1, [1, 0]), seen(3, -1, 2, [1, 0]), seen(4, 1, 3, [1, 0]))
    assert [it.brokers for it in changes] == [[0], [], [1]]


def test_broker_0_is_a_leader_like_any_other() -> None:
    start, unclean = seen(1, 0, 0, [0, 1]), seen(3, 0, 2, [0])
    assert [it.kind for it in found(start, seen(2, 1, 1, [0, 1]))] == ["leader_change"]
    others = found(seen(1, 1, 0, [1, 2]), unclean)
    assert [it.kind for it in others] == ["leader_change", "unclean_election", "isr_shrink"]
    leaderless = found(start, seen(2, -1, 1, [0, 1]), seen(3, 0, 2, [0, 1]))
    assert [it.kind for it in leaderless] == ["leader_change", "leader_change"], "broker 0 led, and leads again"
    assert len(found(start, seen(2, -1, 1, [0, 1]), seen(2, -1, 1, [0, 1]))) == 2, "the last leader stays known"


def test_a_new_epoch_under_broker_0_is_explained_where_the_target_holds_a_replica() -> None:
    epochs = seen(1, 0, 0, [0]), seen(101, 0, 1, [0])
    assert [it.planned for it in found(*epochs, injections=(KILL,))] == [True]
    apart = replace(KILL, brokers=[9], led=False)
    assert [it.planned for it in found(*epochs, injections=(apart,))] == [False]
    follower = seen(1, 1, 0, [1, 0]), seen(101, 1, 1, [1, 0])
    assert [it.planned for it in found(*follower, injections=(replace(KILL, led=False),))] == [True]


def test_broker_0_is_remembered_as_the_last_leader() -> None:
    changes = found(seen(1, 1, 0, [1, 0]), seen(2, 0, 1, [1, 0]), seen(3, 0, 1, [1, 0]))
    assert [it.kind for it in changes] == ["leader_change"]
