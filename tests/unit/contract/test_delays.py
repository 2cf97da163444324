"""Delays: when requests may have been held up, by what the observer saw and by injections that no observer sees."""

from __future__ import annotations

from typing import Any

import pytest

from delivery_verifier.contract.delays import delays
from delivery_verifier.contract.observer import OBSERVER_LAG_US as LAG
from delivery_verifier.model.history import LEAD_US as LEAD
from delivery_verifier.model.history import Injection, Observation

S = 1_000_000


def injection(action: str, **more: Any) -> Injection:
    fields: dict[str, Any] = {"id": 1, "cycle": 0, "brokers": [1], "hit": {}, "requested_at_us": 9 * S}
    return Injection(
        action=action, **fields | {"effect_at_us": 10 * S, "healed_at_us": 14 * S, "took_effect": True} | more
    )


def process(at_us: int, broker: int, state: str) -> Observation:
    return Observation(at_us=at_us, kind="process", broker=broker, state=state)


@pytest.mark.parametrize("action", ["isolate", "hold", "delay", "stall", "delay_end", "of a newer version"])
def test_what_holds_up_connections_holds_up_requests_for_as_long_again(action: str) -> None:
    assert delays([], [injection(action)]) == [(10 * S - LEAD, 18 * S + LAG)]
    assert delays([], [injection(action, healed_at_us=None, took_effect=False)]) == [(10 * S - LEAD, None)]


@pytest.mark.parametrize("action", ["kill", "stop", "power_off", "drop", "close", "kill_producer", "alter_topic"])
def test_what_ends_a_process_or_a_connection_or_elects_a_leader_holds_up_nothing(action: str) -> None:
    assert delays([], [injection(action)]) == []


def test_a_frozen_broker_holds_up_requests_whoever_froze_it() -> None:
    seen = [process(10 * S, 1, "frozen"), process(11 * S, 2, "frozen"), process(12 * S, 1, "running")]
    assert delays([process(1, 1, "running"), *seen], []) == [
        (10 * S - LEAD, 14 * S + LAG),
        (11 * S - LEAD, None),
    ]
    assert delays([*seen, process(13 * S, 2, "exited")], [])[1] == (11 * S - LEAD, 15 * S + LAG)
    assert delays([process(10 * S, 1, "frozen"), process(11 * S, 1, "frozen"), process(12 * S, 1, "running")], []) == [
        (10 * S - LEAD, 14 * S + LAG)
    ]
