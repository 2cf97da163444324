"""Tests of the order of settings by strength, and of what holds between clients and under random settings."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from typing import Any, get_args

import pytest
from support.contract_cases import altered, disturbance, settings

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract import strength
from delivery_verifier.contract.rules import RULES
from delivery_verifier.contract.rulings import contract
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.application import DISCIPLINES
from delivery_verifier.model.history import Disturbance, DisturbanceKind

KINDS: tuple[DisturbanceKind, ...] = get_args(DisturbanceKind)
LOST, DUPLICATED, REORDERED, MISPLACED = Anomaly.LOST, Anomaly.DUPLICATED, Anomaly.REORDERED, Anomaly.MISPLACED
PLAIN = Settings.of_profile(PROFILES["acks_all"])
Changes = dict[str, Any]
ONE: Changes = {"max_in_flight": 1}


def random_settings(dice: random.Random) -> Settings:
    return Settings(
        acks=dice.choice(("0", "1", "all")),
        enable_idempotence=dice.choice((True, False)),
        retries=dice.choice((0, 1, 2147483647)),
        max_in_flight=dice.choice((1, 5, 1_000_000)),
        delivery_timeout_ms=dice.choice((0, 1000, 120_000)),
        request_timeout_ms=dice.choice((1000, 30_000)),
        socket_timeout_ms=dice.choice((1000, 60_000)),
        transactional_id="",
        replication_factor=dice.choice((1, 2, 3)),
        min_insync_replicas=dice.choice((1, 2, 3)),
        unclean_leader_election=dice.choice((True, False)),
        elr=dice.choice((True, False)),
        flush_messages=dice.choice((1, 2, 9223372036854775807)),
        isolation_level=dice.choice(("read_uncommitted", "read_committed")),
        client=dice.choice(("librdkafka", "java")),
        discipline=dice.choice((None, *DISCIPLINES)),
        auto_offset_reset=dice.choice(("earliest", "latest")),
    )


ALTERATIONS = [
    altered("min.insync.replicas", "1"),
    altered("min.insync.replicas", "3"),
    altered("flush.messages", "1000"),
    altered("unclean.leader.election.enable", "true"),
    altered("max.message.bytes", "1000"),
]


def random_disturbances(dice: random.Random) -> list[Disturbance]:
    kinds = [
        disturbance(kind, dice.random() < 0.8) for kind in KINDS if kind != "topic_altered" and dice.random() < 0.5
    ]
    power = [disturbance("isr_power_loss", replicas=dice.randint(1, 3))] if dice.random() < 0.5 else []
    return [*kinds, *power, *(it for it in ALTERATIONS if dice.random() < 0.2)]


def permits(of: Settings, anomaly: Anomaly, seen: list[Disturbance]) -> bool:
    return contract(of, seen)[anomaly].ruling == "PERMITTED"


def mixed(dice: random.Random, anomaly: Anomaly) -> tuple[Settings, Settings]:
    """Returns two random settings, the stronger ones first. For each field that the strength orders name, the first
    settings have the better of two random values."""
    weaker, other = random_settings(dice), random_settings(dice)
    stronger = weaker
    for order in strength.orders_for(anomaly):
        taken = replace(stronger, **{order.field: getattr(other, order.field)})
        orders = [each for each in strength.orders_for(anomaly) if each.field == order.field]
        is_stronger = all(each.strength(taken) >= each.strength(stronger) for each in orders)
        stronger = taken if is_stronger else stronger
    for name in strength.WITHOUT_EFFECT:
        stronger = replace(stronger, **{name: getattr(other, name)})
    return stronger, weaker


def at_least_as_strong(anomaly: Anomaly, settings: Settings, other: Settings) -> bool:
    """Returns whether `settings` are at least as strong as `other` for `anomaly`. If so, the contract must forbid the
    anomaly for `settings` whenever it forbids it for `other` under the same disturbances. False also if the two cannot
    be compared, or if each is stronger in a different field."""
    orders = strength.orders_for(anomaly)
    may_differ = {*strength.WITHOUT_EFFECT, *(order.field for order in orders)}
    must_be_equal = [field.name for field in fields(Settings) if field.name not in may_differ]
    if any(getattr(settings, name) != getattr(other, name) for name in must_be_equal):
        return False
    return all(order.strength(settings) >= order.strength(other) for order in orders)


@pytest.mark.parametrize("anomaly", Anomaly)
def test_settings_that_are_at_least_as_strong_never_permit_what_the_weaker_forbid(anomaly: Anomaly) -> None:
    dice, compared = random.Random(20261121), 0
    for _ in range(1000):
        (stronger, weaker), seen = mixed(dice, anomaly), random_disturbances(dice)
        assert at_least_as_strong(anomaly, stronger, weaker)
        assert permits(stronger, anomaly, seen) <= permits(weaker, anomaly, seen)
        compared += stronger != weaker
    assert compared > 900


@pytest.mark.slow
@pytest.mark.parametrize("order", strength.STRENGTH_ORDERS, ids=lambda order: f"{order.anomalies[0]}-{order.shown}")
def test_each_order_is_needed_or_says_that_it_makes_no_difference(order: strength.Order) -> None:
    """For each order there must be a case in which only the weaker value of its setting permits an anomaly. Otherwise
    the order would be superfluous."""
    dice = random.Random(5)
    for _ in range(3000):
        one, other, seen = random_settings(dice), random_settings(dice), random_disturbances(dice)
        if order.field == "isolation_level":  # the view matters only where transactions are written
            one = replace(one, transactional_id="t")
        weaker = replace(one, **{order.field: getattr(other, order.field)})
        if order.strength(one) > order.strength(weaker):
            found = {it: (permits(one, it, seen), permits(weaker, it, seen)) for it in order.anomalies}
            if (False, True) in found.values():
                return
    assert order.field == "replication_factor", "it permits the same under the same disturbances, as it says"


def test_an_order_that_the_contract_does_not_respect_is_found() -> None:
    """Shows that the check of the orders can fail: it fails if the order of `acks` is reversed."""
    strong, weak = settings("acks_1"), settings("acks_0")
    assert at_least_as_strong(LOST, strong, weak)
    assert not at_least_as_strong(LOST, weak, strong)
    assert permits(weak, LOST, []) > permits(strong, LOST, [])
    assert not at_least_as_strong(LOST, replace(strong, transactional_id="t"), weak), "no order speaks of it"


def test_every_field_of_the_settings_has_an_order_or_a_reason_to_have_none() -> None:
    named = {*(order.field for order in strength.STRENGTH_ORDERS), *strength.WITHOUT_EFFECT}
    of_cluster = {
        "transaction_log_min_isr",
        "transaction_log_elr",
        "transaction_version_2",
    }  # all arms of a run have the same
    assert set(Settings.__slots__) - named == {"transactional_id", "client", "client_version"} | of_cluster, (
        "not comparable"
    )


def test_acks_0_is_the_stronger_against_copies_and_promises_no_order() -> None:
    """With acks=0 what was sent on a connection that broke may arrive late, but not twice."""
    plain = settings("acks_1", **ONE)
    forgetful = replace(plain, acks="0")
    assert at_least_as_strong(DUPLICATED, forgetful, plain)
    assert not at_least_as_strong(REORDERED, forgetful, plain)
    assert at_least_as_strong(REORDERED, plain, forgetful)
    assert permits(plain, DUPLICATED, []) and not permits(forgetful, DUPLICATED, [])
    assert permits(forgetful, REORDERED, []) and not permits(plain, REORDERED, [])


@pytest.mark.slow
def test_the_client_decides_on_copies_and_their_order_alone_and_java_never_writes_twice_where_librdkafka_does_not() -> (
    None
):
    dice, differing = random.Random(13), set[Anomaly]()
    for _ in range(3000):
        base, seen = random_settings(dice), random_disturbances(dice)
        librdkafka, java = (contract(replace(base, client=client), seen) for client in ("librdkafka", "java"))
        differing |= {it for it in Anomaly if librdkafka[it].ruling != java[it].ruling}
        assert librdkafka[DUPLICATED].ruling == "PERMITTED" or java[DUPLICATED].ruling == "FORBIDDEN"
        if base.max_in_flight == 1 and base.acks != "0":
            assert java[REORDERED].ruling == "FORBIDDEN"
    assert differing == {*strength.COPIES, Anomaly.REAPPLIED}, "REAPPLIED: only librdkafka reads unstable offsets"


def test_where_the_clients_differ_the_rule_says_what_java_does_and_that_it_speaks_of_librdkafka() -> None:
    dice, differing = random.Random(17), set[str]()
    for _ in range(3000):
        base = random_settings(dice)
        base = replace(base, transactional_id=dice.choice(("", "kdv")))
        both = [replace(base, client="librdkafka"), replace(base, client="java")]
        differing |= {rule.id for rule in RULES if len({rule.holds(it) for it in both}) == 2}
    assert differing == {rule.id for rule in RULES if rule.java}
    for rule in RULES:
        if rule.java:
            assert "librdkafka" in rule.sentence or "Java client" in rule.sentence, rule.id
            assert "Java client" in rule.java, rule.id


@pytest.mark.parametrize(("setting", "forgiven"), [("min.insync.replicas", True), ("max.message.bytes", False)])
def test_requests_that_an_altered_min_isr_refuses_may_be_overtaken_with_one_in_flight(
    setting: str, forgiven: bool
) -> None:
    one, seen = settings("acks_all", **ONE), [altered(setting, "3"), altered(setting, "2")]
    assert permits(one, REORDERED, seen) is forgiven
    assert not permits(replace(one, client="java"), REORDERED, seen)
    assert not permits(settings("idempotent", **ONE), REORDERED, seen)
    unproven = contract(one, [altered(setting, "3", planned=False)])[REORDERED]
    assert unproven.only_unplanned is forgiven


def test_fields_without_effect_have_none() -> None:
    dice = random.Random(3)
    for _ in range(1000):
        one, other, seen = random_settings(dice), random_settings(dice), random_disturbances(dice)
        same = replace(one, **{name: getattr(other, name) for name in strength.WITHOUT_EFFECT})
        assert contract(one, seen) == contract(same, seen)


@pytest.mark.slow
def test_more_disturbances_never_permit_less() -> None:
    dice = random.Random(7)
    for _ in range(1000):
        base, seen = random_settings(dice), random_disturbances(dice)
        assert all(permits(base, it, seen[1:]) <= permits(base, it, seen) for it in Anomaly)


def test_corruption_and_phantoms_are_never_permitted_and_misplaced_wherever_lost_is() -> None:
    dice = random.Random(11)
    for _ in range(1000):
        rulings = contract(random_settings(dice), random_disturbances(dice))
        found = {anomaly for anomaly, ruling in rulings.items() if ruling.ruling == "PERMITTED"}
        assert not found & {Anomaly.CORRUPTED, Anomaly.PHANTOM}
        assert (LOST in found) == (MISPLACED in found)


# ---- At the edges: values that are just as strong.


def test_an_application_of_ones_own_is_weaker_in_order_than_one_that_commits_first() -> None:
    own, early = replace(PLAIN, discipline="own"), replace(PLAIN, discipline="commit_first")
    assert at_least_as_strong(Anomaly.OVERTAKEN, early, own)
    assert not at_least_as_strong(Anomaly.OVERTAKEN, own, early), "nobody checks it"


@pytest.mark.parametrize("field", ["retries", "max_in_flight"])
def test_two_retries_or_three_in_flight_are_as_strong_as_one_fewer(field: str) -> None:
    fewer, more = (replace(PLAIN, **{field: number}) for number in {"retries": (1, 2), "max_in_flight": (2, 3)}[field])
    for stronger, weaker in ((fewer, more), (more, fewer)):
        assert at_least_as_strong(Anomaly.DUPLICATED, stronger, weaker)
