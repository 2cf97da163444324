"""Tests of the rules of the contract: what each profile permits under each disturbance. Tests of the order of settings
are in test_strength.py, of claims in test_rulings.py."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, get_args

import pytest
from support.contract_cases import altered, disturbance, settings

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract import rulings as module
from delivery_verifier.contract.rules import PROMISES, RULES, ContractRule
from delivery_verifier.contract.rulings import contract
from delivery_verifier.contract.settings import Acks, Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.client import Client
from delivery_verifier.model.history import Disturbance, DisturbanceKind

KINDS: tuple[DisturbanceKind, ...] = get_args(DisturbanceKind)
COORDINATOR: DisturbanceKind = "unclean_coordinator_election"
POWER: DisturbanceKind = "coordinator_power_loss"
LATE_END: DisturbanceKind = "late_end"
QUIET = tuple(kind for kind in KINDS if kind not in ("isr_power_loss", "unclean_request", COORDINATOR, LATE_END))
"""All disturbances except those that can lose records, or tear transactions, under any settings."""
LOST, DUPLICATED, REORDERED, MISPLACED, RESENT = (
    Anomaly.LOST,
    Anomaly.DUPLICATED,
    Anomaly.REORDERED,
    Anomaly.MISPLACED,
    Anomaly.RESENT,
)
LOSSES = {LOST, MISPLACED, Anomaly.ABORTED_VISIBLE, Anomaly.TORN}
"""The anomalies that a transactional producer may show where records may be lost."""
PLAIN = Settings.of_profile(PROFILES["acks_all"])
SAFE = Settings.of_profile(PROFILES["safe"])
Changes = dict[str, Any]
MIN1: Changes = {"min_insync_replicas": 1}
UNCLEAN: Changes = {"unclean_leader_election": True}
ONE: Changes = {"max_in_flight": 1}
NO_RETRY: Changes = {"retries": 0}
FLUSHED: Changes = {"flush_messages": 1}
NO_ELR: Changes = {"elr": False}
NO_LOG_ELR: Changes = {"transaction_log_elr": False}
JAVA: Changes = {"client": "java"}
SKIPPED, REAPPLIED, GHOST, OVERTAKEN = Anomaly.SKIPPED, Anomaly.REAPPLIED, Anomaly.GHOST, Anomaly.OVERTAKEN
COMMIT_FIRST: Changes = {"discipline": "commit_first"}
IN_ONE_TRANSACTION: Changes = {"discipline": "transform_transactional", "isolation_level": "read_committed"}
AT_HANDOVER: Changes = {"discipline": "at_handover"}
QUIET_FOR_APPLICATIONS = tuple(kind for kind in QUIET if kind != "unclean_election")
"""All disturbances but those that may cut off a log below what consumers were given."""


def permitted(of: Settings, *kinds: DisturbanceKind) -> set[Anomaly]:
    rulings = contract(of, [disturbance(kind) for kind in kinds])
    assert set(rulings) == set(Anomaly)
    return {anomaly for anomaly, ruling in rulings.items() if ruling.ruling == "PERMITTED"} - {RESENT}


TABLE: list[tuple[str, Changes, tuple[DisturbanceKind, ...], set[Anomaly]]] = [
    ("acks_0", {}, (), {LOST, MISPLACED, REORDERED}),  # a lost connection is enough
    ("acks_0", NO_RETRY | ONE, ("leader_change",), {LOST, MISPLACED, REORDERED}),
    ("acks_0", JAVA | NO_RETRY | ONE, (), {LOST, MISPLACED, REORDERED}),
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
    ("acks_all", ONE | JAVA, QUIET, {DUPLICATED}),  # the Java client waits for the answer, whoever leads
    ("acks_all", NO_RETRY | JAVA, QUIET, {REORDERED}),  # a batch that is too large is split
    ("acks_all", NO_RETRY | ONE | JAVA, QUIET, set()),
    ("acks_all", MIN1, ("leader_change", "isr_shrink", "broker_crash"), {DUPLICATED, REORDERED}),
    ("acks_all", MIN1, ("unclean_election",), {DUPLICATED, REORDERED}),  # unclean elections are off, and nobody asked
    ("acks_all", MIN1, ("unclean_election", "unclean_request"), {LOST, MISPLACED, DUPLICATED, REORDERED}),
    ("safe", {}, ("unclean_request",), set()),  # asked for, but a clean leader was there
    ("safe", {}, ("unclean_election",), set()),
    ("safe", {}, ("unclean_election", "unclean_request"), {LOST, MISPLACED}),
    (
        "safe",
        {},
        ("power_loss", "leader_change", "isr_shrink", "broker_crash"),
        set(),
    ),  # one of the ISR keeps its power
    ("safe", {}, ("isr_power_loss",), set()),  # of fewer than min.insync.replicas: the eligible one leads
    ("safe", NO_ELR, ("isr_power_loss",), {LOST, MISPLACED}),
    ("safe", NO_ELR | FLUSHED, ("isr_power_loss",), set()),
    ("safe", MIN1, ("isr_power_loss",), {LOST, MISPLACED}),
    ("acks_1", FLUSHED, ("isr_power_loss",), {DUPLICATED, REORDERED}),
    ("safe", {}, ("isolation", "connection_loss", "client_crash", "application_resend", "topic_altered"), set()),
    ("acks_1", {}, ("isolation",), {DUPLICATED, REORDERED}),  # nobody else led meanwhile
    ("acks_all", UNCLEAN, ("leader_change",), {DUPLICATED, REORDERED}),
    ("acks_all", UNCLEAN, ("unclean_election",), {LOST, MISPLACED, DUPLICATED, REORDERED}),
    ("transactional", {}, QUIET, set()),
    ("transactional", UNCLEAN, ("unclean_election",), LOSSES),
    ("transactional", {}, ("unclean_election", "unclean_request"), LOSSES),
    ("transactional", NO_ELR, ("isr_power_loss",), LOSSES),
    ("transactional", MIN1, ("isr_power_loss",), LOSSES),
    ("transactional", {}, (COORDINATOR,), {Anomaly.ABORTED_VISIBLE, Anomaly.TORN}),
    ("transactional", UNCLEAN, (COORDINATOR,), {Anomaly.ABORTED_VISIBLE, Anomaly.TORN}),  # the topic lost nothing
    ("idempotent", UNCLEAN | MIN1, (COORDINATOR,), set()),
    ("transactional", FLUSHED, (POWER,), set()),  # of one replica: the other that confirmed it has the entry
    ("transactional", FLUSHED | NO_LOG_ELR, (POWER,), {Anomaly.ABORTED_VISIBLE, Anomaly.TORN}),
    ("idempotent", NO_ELR, (POWER,), set()),
    ("transactional", {}, (LATE_END,), {Anomaly.ABORTED_VISIBLE, Anomaly.TORN}),
    ("transactional", JAVA, (LATE_END,), set()),  # each transaction has an epoch of its own
    ("safe", {}, (LATE_END,), set()),
    ("idempotent", {}, QUIET, set()),
    ("safe", {}, QUIET, set()),
    ("idempotent", UNCLEAN, ("unclean_election",), {LOST, MISPLACED}),
    (
        "idempotent",
        MIN1,
        ("leader_change", "isr_shrink", "broker_crash", "broker_stop", "broker_freeze"),
        set(),
    ),
    ("safe", COMMIT_FIRST, (), set()),
    ("safe", COMMIT_FIRST, ("application_crash",), {SKIPPED}),
    ("safe", COMMIT_FIRST, ("application_freeze",), {OVERTAKEN}),
    ("safe", COMMIT_FIRST, ("rewind",), {REAPPLIED, OVERTAKEN}),
    ("safe", COMMIT_FIRST, ("unclean_election",), {SKIPPED, REAPPLIED, GHOST, OVERTAKEN}),
    ("safe", COMMIT_FIRST, ("isr_power_loss",), {SKIPPED, REAPPLIED, GHOST, OVERTAKEN}),
    ("safe", COMMIT_FIRST | {"auto_offset_reset": "latest"}, (), {SKIPPED}),
    ("safe", AT_HANDOVER, ("application_crash",), {SKIPPED, REAPPLIED}),
    ("safe", {"discipline": "commit_after"}, QUIET_FOR_APPLICATIONS, {REAPPLIED}),
    ("safe", {"discipline": "store_after"}, QUIET_FOR_APPLICATIONS, {REAPPLIED}),
    ("safe", {"discipline": "own"}, QUIET_FOR_APPLICATIONS, {REAPPLIED, OVERTAKEN}),
    ("safe", {"discipline": "own"}, ("application_crash", "rewind"), {REAPPLIED, OVERTAKEN}),
    ("safe", {"discipline": "database_apart"}, QUIET_FOR_APPLICATIONS, {REAPPLIED}),
    ("safe", {"discipline": "database_together"}, ("application_crash", "rewind"), set()),
    ("safe", {"discipline": "database_together"}, ("application_freeze",), {REAPPLIED}),
    ("safe", {"discipline": "database_compared"}, QUIET_FOR_APPLICATIONS, set()),
    ("safe", {"discipline": "database_compared"}, ("unclean_election",), {SKIPPED, REAPPLIED, GHOST, OVERTAKEN}),
    ("transactional", COMMIT_FIRST | {"isolation_level": "read_uncommitted"}, (), {GHOST}),
    ("transactional", COMMIT_FIRST | {"isolation_level": "read_committed"}, (), set()),
    ("safe", COMMIT_FIRST | {"isolation_level": "read_uncommitted"}, (), set()),
    ("safe", {"discipline": "transform"}, QUIET_FOR_APPLICATIONS, {REAPPLIED}),
    ("safe", {"discipline": "transform_first"}, ("application_crash",), {SKIPPED}),
    ("safe", IN_ONE_TRANSACTION, ("application_crash", "application_freeze"), set()),
    ("safe", IN_ONE_TRANSACTION, ("rewind",), {REAPPLIED}),
    ("safe", IN_ONE_TRANSACTION | {"isolation_level": "read_uncommitted"}, (), {REAPPLIED}),
    ("safe", IN_ONE_TRANSACTION | {"discipline": "transform_assigned"}, ("application_crash",), set()),
    ("safe", IN_ONE_TRANSACTION | {"discipline": "transform_assigned"}, ("application_freeze",), {REAPPLIED}),
    ("safe", {"discipline": "transform_assigned", "isolation_level": "read_uncommitted"}, (), {REAPPLIED}),
    ("safe", {"discipline": "transform_fenced"}, ("application_crash", "application_freeze"), set()),
    ("transactional", IN_ONE_TRANSACTION | {"isolation_level": "read_uncommitted"}, (), {REAPPLIED, GHOST}),
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
    of_all = contract(settings("transactional"), [disturbance("isr_power_loss", replicas=3)]).values()
    silent = {rule.id for rule in RULES} - {*used, *(ruling.rule for ruling in of_all)}
    assert not silent, "add a line to TABLE that only these rules permit"


@pytest.mark.parametrize("of_topic", [{}, {"replication_factor": 1}, NO_ELR])
@pytest.mark.parametrize(
    ("replicas", "of_log", "torn"),
    [
        (0, {}, False),
        (1, {}, False),
        (2, {}, True),
        (1, {"transaction_log_min_isr": 1}, True),
        (0, {"transaction_log_elr": False}, True),
    ],
)
def test_a_transaction_may_be_torn_once_all_that_confirmed_its_end_lost_their_power(
    replicas: int, of_log: Changes, torn: bool, of_topic: Changes
) -> None:
    of = settings("transactional", **FLUSHED, **of_log, **of_topic)
    rulings = contract(of, [disturbance(POWER, replicas=replicas)])
    assert {kind for kind, ruling in rulings.items() if ruling.because} == (
        {Anomaly.TORN, Anomaly.ABORTED_VISIBLE} if torn else set()
    )


def test_what_only_an_unplanned_disturbance_permits_says_so() -> None:
    unplanned = contract(settings("acks_1"), [disturbance("leader_change", planned=False)])[LOST]
    both = contract(settings("acks_1"), [disturbance("leader_change", False), disturbance("leader_change")])[LOST]
    assert (unplanned.only_unplanned, both.only_unplanned) == (True, False)
    assert unplanned.because == ("leader_change",)


def test_a_quiet_day_permission_owes_nothing_to_an_unplanned_disturbance() -> None:
    assert not contract(settings("acks_0"), [disturbance("leader_change", planned=False)])[LOST].only_unplanned


def test_a_planned_reason_wins_over_an_unplanned_one_of_another_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: tuple[DisturbanceKind, ...] = ("leader_change", "isr_shrink")
    loss = next(rule for rule in RULES if rule.id == "lost.acks_1")
    for order in (kinds, kinds[::-1]):
        monkeypatch.setattr(module, "RULES", [replace(loss, id=kind, kinds=(kind,)) for kind in order])
        seen = [disturbance("leader_change", planned=False), disturbance("isr_shrink")]
        ruling = contract(settings("acks_1"), seen)[LOST]
        assert (ruling.rule, ruling.only_unplanned) == ("isr_shrink", False)


def test_rules_have_unique_names_and_every_anomaly_has_a_promise() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert set(PROMISES) == set(Anomaly)
    assert all(rule.sentence and rule.source and rule.condition for rule in RULES)


POWER_3, POWER_1 = disturbance("isr_power_loss", replicas=3), disturbance("isr_power_loss", replicas=1)


@pytest.mark.parametrize(
    ("changes", "seen", "rule"),
    [
        ({}, POWER_3, "lost.power_of_all"),
        ({}, POWER_1, "lost.never"),  # the others are eligible, and keep what was acknowledged
        (NO_ELR, POWER_1, "lost.power_of_last"),
        (NO_ELR, POWER_3, "lost.power_of_all"),
        (MIN1, POWER_1, "lost.min_isr_1"),
        ({"min_insync_replicas": 3}, disturbance("isr_power_loss", replicas=2), "lost.never"),
        (FLUSHED, POWER_3, "lost.never"),
    ],
)
def test_power_takes_records_only_where_no_replica_that_may_lead_kept_it(
    changes: Changes, seen: Disturbance, rule: str
) -> None:
    assert contract(settings("safe", **changes), [seen])[LOST].rule == rule


def test_an_altered_topic_is_judged_by_the_weakest_that_held() -> None:
    safe = settings("safe")
    down, up = altered("min.insync.replicas", "1"), altered("min.insync.replicas", "2")
    assert contract(safe, [POWER_1])[LOST].ruling == "FORBIDDEN"
    found = contract(safe, [POWER_1, down, up])[LOST]
    assert (found.ruling, found.only_unplanned) == ("PERMITTED", False)
    assert found.sentence.endswith(module.ALTERED)
    assert contract(safe, [down])[LOST].ruling == "FORBIDDEN", "a weaker setting alone takes nothing"
    assert (
        contract(settings("safe", **MIN1), [altered("min.insync.replicas", "3"), POWER_1])[LOST].ruling == "PERMITTED"
    )


@pytest.mark.parametrize(
    ("alteration", "seen"),
    [
        (("min.insync.replicas", "1"), POWER_1),
        (("unclean.leader.election.enable", "true"), disturbance("unclean_election")),
    ],
)
def test_what_only_an_alteration_permits_that_nobody_proved_is_a_doubt(
    alteration: tuple[str, str], seen: Disturbance
) -> None:
    assert contract(settings("safe"), [seen, altered(*alteration, planned=False)])[LOST].only_unplanned
    assert not contract(settings("safe"), [seen, altered(*alteration)])[LOST].only_unplanned


def test_flushing_less_often_in_between_leaves_records_to_the_power() -> None:
    flushed = settings("safe", **FLUSHED)
    assert contract(flushed, [altered("flush.messages", "1000"), POWER_3])[LOST].ruling == "PERMITTED"
    assert contract(flushed, [altered("max.message.bytes", "1000"), POWER_3])[LOST].ruling == "FORBIDDEN"


@pytest.mark.parametrize("unplanned", ["unclean_election", "unclean_request"])
def test_a_permission_that_takes_two_disturbances_is_planned_only_if_both_were(unplanned: DisturbanceKind) -> None:
    kinds: tuple[DisturbanceKind, ...] = ("unclean_election", "unclean_request")
    seen = [disturbance(kind, kind != unplanned) for kind in kinds]
    assert contract(settings("safe"), seen)[LOST].only_unplanned
    assert not contract(settings("safe"), [disturbance(kind) for kind in kinds])[LOST].only_unplanned


# ---- At the edges: the first values from which a rule applies.


def permits(settings: Settings, anomaly: Anomaly, *observed: Disturbance) -> bool:
    return contract(settings, observed)[anomaly].ruling == "PERMITTED"


@pytest.mark.parametrize("least", [1, 2, 3])
def test_a_loss_of_power_of_exactly_min_insync_replicas_loses_and_of_one_fewer_does_not(least: int) -> None:
    settings = replace(SAFE, min_insync_replicas=least)
    assert permits(settings, Anomaly.LOST, disturbance("isr_power_loss", replicas=least))
    if least > 1:  # with min.insync.replicas=1 a rule of its own permits it
        assert not permits(settings, Anomaly.LOST, disturbance("isr_power_loss", replicas=least - 1))


def test_two_in_flight_are_enough_for_another_order() -> None:
    split = replace(PLAIN, client="java", retries=0)
    for of in (PLAIN, split):
        assert permits(replace(of, max_in_flight=2), Anomaly.REORDERED)
        assert not permits(replace(of, max_in_flight=1), Anomaly.REORDERED)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_that_needs_another_acks_than_all_says_that_it_cannot_apply_to_transactions(rule: ContractRule) -> None:
    booleans = (False, True)
    values: dict[str, tuple[Any, ...]] = {
        "enable_idempotence": booleans,
        "retries": (0, 1),
        "max_in_flight": (1, 2),
        "min_insync_replicas": (1, 2),
        "unclean_leader_election": booleans,
        "elr": booleans,
        "flush_messages": (1, 2),
        "client": get_args(Client),
        "transactional_id": ("", "t"),
        "discipline": (None, "at_handover", "commit_first", "transform_transactional", "database_together", "own"),
        "auto_offset_reset": ("earliest", "latest"),
        "isolation_level": ("read_uncommitted", "read_committed"),
    }
    combinations = (dict(zip(values, combination)) for combination in itertools.product(*values.values()))
    of_all = any(rule.holds(replace(PLAIN, **combination)) for combination in combinations)
    assert rule.transactional == of_all
    assert get_args(Acks)[-1] == PLAIN.acks == "all"
