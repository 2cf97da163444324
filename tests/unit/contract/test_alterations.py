"""Tests of altered topics: an alteration weakens what comes after it and what it meets, and nothing of the past."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.evidence import EFFECT_AT, RECOVERED, SECOND

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract.disturbances import disturbances
from delivery_verifier.contract.permissions import permitting
from delivery_verifier.contract.rulings import alterations, contract, weakened
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import Disturbance, Injection, Observation

FLUSHED = Settings.of_profile(PROFILES["idempotent"])
SEEN = [Observation(at_us=1, kind="partition", topic="t", partition=0, leader=1, isr=[1, 2, 3])]


def injection(number: int, action: str, at_us: int, recovered_at_us: int | None, **more: Any) -> Injection:
    return Injection(
        id=number, cycle=0, action=action, hit={"t": [0]}, requested_at_us=at_us, effect_at_us=at_us,
        healed_at_us=recovered_at_us, recovered_at_us=recovered_at_us, took_effect=True, **more,
    )  # fmt: skip


def rarely_flushed(at_us: int, **more: Any) -> Injection:
    options = {"setting": "flush.messages", "value": 10_000}
    return injection(2, "alter_topic", at_us, at_us + SECOND, brokers=[], options=options, **more)


def permitted(*injections: Injection) -> bool:
    """Whether a loss is permitted to an arm that flushes every record, in the contract and in the permissions."""

    settings = replace(FLUSHED, flush_messages=1)
    found = disturbances(SEEN, injections)
    causes = permitting(settings, found).get(Anomaly.LOST)
    assert bool(causes) == (contract(settings, found)[Anomaly.LOST].ruling == "PERMITTED")
    return bool(causes)


def power_loss(recovered_at_us: int | None) -> Injection:
    return injection(1, "power_off", EFFECT_AT, recovered_at_us, brokers=[1, 2, 3])


def test_an_alteration_weakens_no_disturbance_that_was_over() -> None:
    assert not permitted(power_loss(RECOVERED))
    assert not permitted(power_loss(RECOVERED), rarely_flushed(RECOVERED + 60 * SECOND))


@pytest.mark.parametrize(
    ("recovered_at_us", "altered_at_us"),
    [
        (RECOVERED, EFFECT_AT - 60 * SECOND),
        (RECOVERED, EFFECT_AT + SECOND),
        (None, RECOVERED),
        (RECOVERED, RECOVERED + SECOND),
    ],
    ids=["before", "meanwhile", "never_recovered", "the_recovery_is_seen_late"],
)
def test_an_alteration_weakens_what_comes_later_and_what_it_meets(
    recovered_at_us: int | None, altered_at_us: int
) -> None:
    assert permitted(power_loss(recovered_at_us), rarely_flushed(altered_at_us))


def test_of_two_alterations_each_weakens_from_its_own_time_on() -> None:
    harmless = injection(
        3, "alter_topic", 2 * SECOND, 3 * SECOND, brokers=[],
        options={"setting": "min.insync.replicas", "value": 1},
    )  # fmt: skip
    assert not permitted(power_loss(RECOVERED), harmless, rarely_flushed(RECOVERED + 60 * SECOND))
    assert permitted(power_loss(RECOVERED), harmless, rarely_flushed(4 * SECOND))


def test_an_alteration_counts_from_its_first_microsecond_on_and_only_a_planned_one_if_asked() -> None:
    rarely = {"kind": "topic_altered", "setting": "flush.messages", "value": "9", "weakens_since_us": 5}
    altered = Disturbance(at_us=7, planned=False, **rarely)  # type: ignore[arg-type]
    changes = [Disturbance(kind="leader_change", at_us=at_us, planned=True) for at_us in (4, 5, 6)]
    settings = replace(FLUSHED, flush_messages=1)
    ((weaker, later),) = alterations(settings, [*changes, altered])
    assert weaker == replace(settings, flush_messages=9)
    assert later == [*changes[1:], altered]
    assert list(alterations(settings, [*changes, altered], planned=True)) == []


def test_disturbances_before_an_alteration_do_not_hide_it() -> None:
    change = Disturbance(kind="leader_change", at_us=1, planned=True)
    altered = Disturbance(kind="topic_altered", at_us=2, planned=True, setting="flush.messages", value="9")
    settings = replace(FLUSHED, flush_messages=1)
    assert weakened(settings, [change, altered, change]) == replace(settings, flush_messages=9)
    assert weakened(settings, [change]) == settings
