"""From when on a disturbance can have been under way: no record that was settled before it is explained by it."""

from __future__ import annotations

from typing import Any

import pytest

from delivery_verifier.contract.effect_windows import effect_windows
from delivery_verifier.contract.observer import OBSERVER_LAG_US as LAG
from delivery_verifier.model.history import LEAD_US as LEAD
from delivery_verifier.model.history import Disturbance, DisturbanceKind, Injection

SECOND = 1_000_000
SEEN = 100 * SECOND


def injection(action: str, effect_s: int, recovered_s: int | None = None) -> Injection:
    fields: dict[str, Any] = {"id": 1, "cycle": 0, "brokers": [1], "hit": {}, "requested_at_us": 0, "took_effect": True}
    recovered_us = None if recovered_s is None else recovered_s * SECOND
    return Injection(action=action, effect_at_us=effect_s * SECOND, recovered_at_us=recovered_us, **fields)


def begun_us(kind: DisturbanceKind, *injections: Injection) -> int:
    disturbance = Disturbance(kind=kind, at_us=SEEN, planned=True, topic="t", partitions=[0])
    (window,) = effect_windows([disturbance], [], injections)
    return window.begun_us


LOSSES: list[DisturbanceKind] = ["isr_power_loss", "coordinator_power_loss"]


def test_what_no_injection_caused_begins_as_long_before_it_was_seen_as_the_observer_may_be_late() -> None:
    assert begun_us("leader_change") == SEEN - LAG


@pytest.mark.parametrize("action", ["kill", "power_off"])
def test_a_change_of_the_leader_begins_with_the_first_injection_that_was_not_over(action: str) -> None:
    over, first, second = injection(action, 10, 20), injection(action, 80), injection("kill", 90)
    assert begun_us("leader_change", over, first, second) == 80 * SECOND - LEAD - LAG


@pytest.mark.parametrize("kind", LOSSES)
def test_a_loss_of_power_begins_with_the_first_cut_and_with_nothing_else(kind: DisturbanceKind) -> None:
    assert begun_us(kind, injection("kill", 80), injection("power_off", 90)) == 90 * SECOND - LEAD - LAG
    assert begun_us(kind, injection("kill", 80)) == SEEN - LAG
