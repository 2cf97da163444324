"""Who can have acknowledged a record at the very moment at which a leader ends, wakes or is deposed."""

from __future__ import annotations

from typing import Any

from delivery_verifier.contract.delays import delays
from delivery_verifier.contract.elections import Elections, elections
from delivery_verifier.contract.observer import OBSERVER_LAG_US as LAG
from delivery_verifier.model.history import LEAD_US, Injection, Observation

SECOND = 1_000_000


def seen(at_s: float, leader: int, epoch: int, isr: list[int]) -> Observation:
    fields: dict[str, Any] = {"leader": leader, "leader_epoch": epoch, "isr": isr}
    return Observation(at_us=int(at_s * SECOND), kind="partition", topic="t", partition=0, **fields)


def process(at_s: float, broker: int, state: str) -> Observation:
    return Observation(at_us=int(at_s * SECOND), kind="process", broker=broker, state=state)


def healed(at_s: float) -> Injection:
    """An injection that woke broker 1."""
    fields: dict[str, Any] = {"id": 1, "cycle": 0, "action": "pause", "brokers": [1], "hit": {}, "took_effect": True}
    return Injection(requested_at_us=0, effect_at_us=0, healed_at_us=int(at_s * SECOND), **fields)


def of(*observations: Observation, injections: tuple[Injection, ...] = ()) -> Elections:
    return elections(observations, injections)["t", 0]


def epochs_of(place: Elections, sent_s: float, settled_s: float) -> list[int]:
    return place.epochs_of(1000, int(sent_s * SECOND), int(settled_s * SECOND))


FROZEN = (process(5, 1, "frozen"), seen(10, 2, 1, [1, 2, 3]), process(15, 1, "running"))


def test_a_leader_is_silent_up_to_the_moment_at_which_it_may_have_been_woken() -> None:
    place = of(seen(1, 1, 0, [1, 2, 3]), *FROZEN, injections=(healed(15),))
    woken_s = 15 - LAG / SECOND
    assert epochs_of(place, 12, woken_s) == [1] and epochs_of(place, 12, woken_s + 0.001) == [0, 1]


def test_what_was_healed_when_a_leader_was_seen_to_stand_still_did_not_wake_it() -> None:
    place = of(seen(1, 1, 0, [1, 2, 3]), *FROZEN, injections=(healed(5), healed(15)))
    assert epochs_of(place, 6, 9.5) == [1]


def test_a_leader_that_was_seen_to_be_elected_and_gone_at_once_acknowledges_nothing_later() -> None:
    place = of(seen(1, 1, 0, [1, 2]), seen(10, 2, 1, [1, 2]), process(10, 2, "exited"))
    assert epochs_of(place, 10, 20) == [0, 1] and epochs_of(place, 10.001, 20) == [0]


def test_a_leader_that_nobody_saw_is_over_when_every_broker_that_it_can_be_is() -> None:
    gone = process(2, 1, "exited"), process(2, 2, "exited")
    place = of(seen(1, 1, 0, [1, 2, 3]), *gone, seen(10, 3, 3, [3]))
    assert epochs_of(place, 5, 6) == [1, 2]
    assert epochs_of(place, 100, 101) == [3]


def test_observations_of_partitions_between_two_of_a_process_delay_nothing_and_hide_no_delay() -> None:
    observed = [seen(1, 1, 0, [1, 2]), process(10, 1, "frozen"), seen(11, 2, 1, [2]), process(12, 1, "running")]
    assert delays(observed, []) == [(10 * SECOND - LEAD_US, 14 * SECOND + LAG)]
