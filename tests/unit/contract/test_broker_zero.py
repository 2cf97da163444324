"""Broker 0 leads, is deposed and is silent like any other: an id is no flag, and only -1 says that nobody leads."""

from __future__ import annotations

from delivery_verifier.contract.deposed import last_answers, seen_partitions
from delivery_verifier.contract.elections import Elections, elections
from delivery_verifier.model.history import Observation

SECOND = 1_000_000
KEY = ("t", 0)


def seen(at_s: int, leader: int, epoch: int, isr: list[int]) -> Observation:
    fields = {"leader": leader, "leader_epoch": epoch, "isr": isr}
    return Observation(at_us=at_s * SECOND, kind="partition", topic="t", partition=0, **fields)  # type: ignore[arg-type]


def process(at_s: int, broker: int, state: str) -> Observation:
    return Observation(at_us=at_s * SECOND, kind="process", broker=broker, state=state)


def of(*observations: Observation) -> Elections:
    return elections(observations, [])[KEY]


def epochs_of(place: Elections, sent_s: float, settled_s: float) -> list[int]:
    return place.epochs_of(1000, int(sent_s * SECOND), int(settled_s * SECOND))


def test_a_partition_whose_first_leader_is_broker_0_has_an_epoch_from_then_on() -> None:
    place = of(seen(1, 0, 0, [0, 1]), seen(10, 1, 1, [0, 1]))
    assert epochs_of(place, 1, 2) == [0] and place.seen == ((1, 10 * SECOND),)


def test_broker_0_that_was_seen_late_in_its_epoch_is_its_leader() -> None:
    place = of(
        seen(1, 1, 0, [0, 1]), seen(2, -1, 1, []), seen(3, 0, 1, [0]), process(4, 0, "frozen"), seen(9, 2, 2, [0, 2])
    )
    assert epochs_of(place, 5, 6) == [0], "it stood still in its epoch"


def test_it_is_known_when_broker_0_has_stopped_though_nobody_saw_a_process() -> None:
    observations = [seen(1, 0, 0, [0, 1]), seen(5, 1, 1, [1]), seen(7, 1, 1, [0, 1])]
    ends = last_answers(observations, seen_partitions(observations))
    assert ends == {("t", 0, 5 * SECOND): 7 * SECOND}, "it follows its successor"
