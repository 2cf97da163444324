"""The contract: profiles against disturbances, the order of settings, and claims."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any, get_args

import pytest

from delivery_verifier import contract as module
from delivery_verifier.anomalies import Anomaly
from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract import CLAIMS, claim_tolerances, contract, effective
from delivery_verifier.injection import Disturbance, DisturbanceKind
from delivery_verifier.rules import PROMISES, RULES
from delivery_verifier.scenario import Claim
from delivery_verifier.settings import Settings

KINDS: tuple[DisturbanceKind, ...] = get_args(DisturbanceKind)
LOST, DUPLICATED, REORDERED, MISPLACED, RESENT = (
    Anomaly.LOST, Anomaly.DUPLICATED, Anomaly.REORDERED, Anomaly.MISPLACED, Anomaly.RESENT,
)  # fmt: skip
Changes = dict[str, Any]
MIN1: Changes = {"min_insync_replicas": 1}
UNCLEAN: Changes = {"unclean_leader_election": True}
ONE: Changes = {"max_in_flight": 1}
NO_RETRY: Changes = {"retries": 0}


def settings(name: str, **changes: Any) -> Settings:
    base = Settings.of(PROFILES[name])
    return Settings(**({field: getattr(base, field) for field in Settings.__slots__} | changes))


def disturbance(kind: DisturbanceKind, planned: bool = True) -> Disturbance:
    return Disturbance(kind=kind, at_us=1, planned=planned)


def permitted(of: Settings, *kinds: DisturbanceKind) -> set[Anomaly]:
    rulings = contract(of, [disturbance(kind) for kind in kinds])
    assert set(rulings) == set(Anomaly)
    return {anomaly for anomaly, ruling in rulings.items() if ruling.ruling == "PERMITTED"} - {RESENT}


TABLE: list[tuple[str, Changes, tuple[DisturbanceKind, ...], set[Anomaly]]] = [
    ("acks_0", {}, (), {LOST, MISPLACED}),
    ("acks_0", {}, ("leader_change",), {LOST, MISPLACED}),
    ("acks_1", {}, (), {DUPLICATED, REORDERED}),  # a retry needs no broker event: a lost connection is enough
    ("acks_1", {}, ("isr_shrink",), {DUPLICATED, REORDERED}),
    ("acks_1", {}, ("broker_freeze",), {DUPLICATED, REORDERED}),
    ("acks_1", {}, ("leader_change",), {LOST, MISPLACED, DUPLICATED, REORDERED}),
    ("acks_1", {}, ("broker_stop", "leader_change"), {LOST, MISPLACED, DUPLICATED, REORDERED}),
    ("acks_1", NO_RETRY, ("leader_change",), {LOST, MISPLACED, DUPLICATED, REORDERED}),
    ("acks_all", {}, (), {DUPLICATED, REORDERED}),
    ("acks_all", {}, ("broker_freeze",), {DUPLICATED, REORDERED}),
    ("acks_all", {}, ("leader_change", "broker_crash", "isr_shrink"), {DUPLICATED, REORDERED}),
    ("acks_all", {}, ("unclean_election",), {DUPLICATED, REORDERED}),
    ("acks_all", NO_RETRY, ("broker_crash", "isr_shrink"), set()),
    ("acks_all", NO_RETRY, ("leader_change", "broker_crash", "isr_shrink"), {DUPLICATED, REORDERED}),
    ("acks_all", ONE, ("leader_change",), {DUPLICATED, REORDERED}),
    ("acks_all", ONE, ("broker_freeze",), {DUPLICATED}),
    ("acks_all", MIN1, ("leader_change", "isr_shrink", "broker_crash"), {DUPLICATED, REORDERED}),
    ("acks_all", MIN1, ("unclean_election",), {LOST, MISPLACED, DUPLICATED, REORDERED}),
    ("acks_all", UNCLEAN, ("leader_change",), {DUPLICATED, REORDERED}),
    ("acks_all", UNCLEAN, ("unclean_election",), {LOST, MISPLACED, DUPLICATED, REORDERED}),
    ("idempotent", {}, KINDS, set()),
    ("safe", {}, KINDS, set()),
    ("idempotent", UNCLEAN, ("unclean_election",), {LOST, MISPLACED}),
    (
        "idempotent",
        MIN1,
        ("leader_change", "isr_shrink", "broker_crash", "broker_stop", "broker_freeze"),
        set(),
    ),
]


@pytest.mark.parametrize(("name", "changes", "kinds", "expected"), TABLE)
def test_settings_and_disturbances_permit_exactly(
    name: str, changes: Changes, kinds: tuple[DisturbanceKind, ...], expected: set[Anomaly]
) -> None:
    assert permitted(settings(name, **changes), *kinds) == expected


def test_an_application_resend_is_permitted_by_every_contract() -> None:
    assert contract(settings("safe"), [])[RESENT].ruling == "PERMITTED"


def test_every_rule_is_the_one_that_permits_in_some_line_of_the_table() -> None:
    used = {
        ruling.rule
        for name, changes, kinds, _ in TABLE
        for ruling in contract(settings(name, **changes), [disturbance(kind) for kind in kinds]).values()
    }
    assert {rule.id for rule in RULES} <= used


def test_what_only_an_unplanned_disturbance_permits_says_so() -> None:
    unplanned = contract(settings("acks_1"), [disturbance("leader_change", planned=False)])[LOST]
    both = contract(settings("acks_1"), [disturbance("leader_change", False), disturbance("leader_change")])[
        LOST
    ]
    assert (unplanned.only_unplanned, both.only_unplanned) == (True, False)
    assert unplanned.because == ("leader_change",)


def test_a_quiet_day_permission_owes_nothing_to_an_unplanned_disturbance() -> None:
    assert not contract(settings("acks_0"), [disturbance("leader_change", planned=False)])[
        LOST
    ].only_unplanned


def test_a_planned_reason_wins_over_an_unplanned_one_of_another_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: tuple[DisturbanceKind, ...] = ("leader_change", "isr_shrink")
    loss = next(rule for rule in RULES if rule.id == "lost.acks_1")
    for order in (kinds, kinds[::-1]):
        monkeypatch.setattr(module, "RULES", [replace(loss, id=kind, kinds=(kind,)) for kind in order])
        seen = [disturbance("leader_change", planned=False), disturbance("isr_shrink")]
        ruling = contract(settings("acks_1"), seen)[LOST]
        assert (ruling.rule, ruling.only_unplanned) == ("isr_shrink", False)


def random_settings(dice: random.Random) -> Settings:
    return Settings(
        acks=dice.choice(("0", "1", "all")),
        enable_idempotence=False,
        retries=dice.choice((0, 1, 2147483647)),
        max_in_flight=dice.choice((1, 5)),
        min_insync_replicas=dice.choice((1, 2, 3)),
        unclean_leader_election=dice.choice((True, False)),
    )


def variant(of: Settings, **changes: Any) -> Settings:
    return Settings(**({field: getattr(of, field) for field in Settings.__slots__} | changes))


def random_kinds(dice: random.Random) -> tuple[DisturbanceKind, ...]:
    return tuple(kind for kind in KINDS if dice.random() < 0.5)


LOSSES, COPIES = {LOST, MISPLACED}, {DUPLICATED, REORDERED}
ORDER: list[tuple[str, Changes, Changes, set[Anomaly]]] = [
    ("acks=all loses no more than acks=1", {"acks": "all"}, {"acks": "1"}, LOSSES),
    ("acks=1 loses no more than acks=0", {"acks": "1"}, {"acks": "0"}, LOSSES),
    ("min.insync.replicas=2 loses no more than 1", {"min_insync_replicas": 2}, MIN1, LOSSES),
    ("no unclean election loses no more", {"unclean_leader_election": False}, UNCLEAN, LOSSES),
    (
        "idempotence permits nothing more",
        {"acks": "all", "enable_idempotence": True, "retries": 5},
        {"acks": "all", "retries": 5},
        LOSSES | COPIES,
    ),
    ("no retries duplicate and reorder no more", NO_RETRY, {"retries": 5}, COPIES),
    ("one in flight permits nothing more than five", ONE, {"max_in_flight": 5}, LOSSES | COPIES),
]


@pytest.mark.parametrize(
    ("stronger", "weaker", "about"), [line[1:] for line in ORDER], ids=[line[0] for line in ORDER]
)
def test_the_stronger_setting_permits_no_more_on_random_combinations(
    stronger: Changes, weaker: Changes, about: set[Anomaly]
) -> None:
    dice = random.Random(20261121)
    for _ in range(1000):
        base, kinds = random_settings(dice), random_kinds(dice)
        assert (
            permitted(variant(base, **stronger), *kinds) & about
            <= permitted(variant(base, **weaker), *kinds) & about
        )


def test_more_disturbances_never_permit_less() -> None:
    dice = random.Random(7)
    for _ in range(1000):
        base, kinds = random_settings(dice), random_kinds(dice)
        assert permitted(base, *kinds[1:]) <= permitted(base, *kinds)


def test_corruption_and_phantoms_are_never_permitted_and_misplaced_wherever_lost_is() -> None:
    dice = random.Random(11)
    for _ in range(1000):
        found = permitted(random_settings(dice), *random_kinds(dice))
        assert not found & {Anomaly.CORRUPTED, Anomaly.PHANTOM}
        assert (LOST in found) == (MISPLACED in found)


CLAIM_NAMES: tuple[Claim, ...] = get_args(Claim)


@pytest.mark.parametrize(("claim", "name"), list(itertools.product(CLAIM_NAMES, PROFILES)))
def test_a_claim_tightens_the_contract_and_never_loosens_it(claim: Claim, name: str) -> None:
    seen = [disturbance(kind) for kind in KINDS]
    plain, tightened = contract(settings(name), seen), effective(settings(name), claim, seen)
    for anomaly in Anomaly:
        wanted = "FORBIDDEN" if anomaly in CLAIMS[claim] else plain[anomaly].ruling
        assert tightened[anomaly].ruling == wanted
        by_claim = plain[anomaly].ruling == "PERMITTED" and wanted == "FORBIDDEN"
        assert tightened[anomaly].ruled_by == ("claim" if by_claim else "contract")


def test_resent_convicts_only_under_exactly_once() -> None:
    assert [claim for claim in CLAIM_NAMES if RESENT in claim_tolerances(claim)] == ["exactly_once"]


def test_a_ruling_tolerates_nothing_where_forbidden_and_anything_where_permitted() -> None:
    rulings = contract(settings("acks_0"), [])
    assert rulings[LOST].tolerance is None
    assert rulings[DUPLICATED].tolerance == 0


def test_rules_have_unique_names_and_every_anomaly_has_a_promise() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert set(PROMISES) == set(Anomaly)
    assert all(rule.sentence and rule.source and rule.condition for rule in RULES)
