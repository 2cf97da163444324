"""Tests that the rules, the page on the rules and the scenarios that test the rules agree."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from delivery_verifier.catalogue import ENTRIES, build
from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.contract import forecast
from delivery_verifier.contract.disturbances import disturbances_of_topic
from delivery_verifier.contract.rules import PROMISES, RULES
from delivery_verifier.contract.rules.rule import MEASURED
from delivery_verifier.contract.rulings import Ruling, contract
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.client import Client, versioned

WITHOUT_SCENARIO: dict[str, str] = {
    "reordered.requeued": "follows from duplicated.requeued, and has not been seen by itself",
    **dict.fromkeys(
        ("torn.coordinator", "aborted_visible.coordinator"),
        "no action asks for an unclean election in __transaction_state, and without being asked Kafka elects none",
    ),
    **dict.fromkeys(
        ("torn.power_of_coordinator", "aborted_visible.power_of_coordinator"),
        "no scenario that cuts the power has an arm that writes transactions",
    ),
    **dict.fromkeys(
        (
            "reapplied.truncated",
            "overtaken.rewind",
        ),
        "no scenario of the catalogue has such an application under such a fault yet",
    ),
    **dict.fromkeys(("reapplied.own", "overtaken.own"), "the catalogue has no application of the user's own"),
    "reordered.split": "is the Java client's alone, and a run exercises librdkafka",
}
"""The rules that no scenario of the catalogue tests, each with the reason."""

RULE_IDS = {rule.id for rule in RULES}
TESTED = {name for entry in ENTRIES.values() for name in entry.rules}


OF_LOSSES = {name.removeprefix("lost.") for name in RULE_IDS if name.startswith("lost.") and name != "lost.never"}


def of_a_loss(name: str) -> str:
    """Returns the rule of a loss from which the rule `name` follows, or `name` itself. A scenario that tests the rule
    of the loss also tests the rules that follow from it."""
    for kind in ("misplaced.", "aborted_visible.", "torn."):
        name = name.replace(kind, "lost.") if name.removeprefix(kind) in OF_LOSSES else name
    return name


def test_every_rule_is_put_to_the_test_by_a_scenario_or_has_a_reason_not_to_be() -> None:
    untested = {of_a_loss(name) for name in RULE_IDS} - TESTED - set(WITHOUT_SCENARIO)
    assert not untested, (
        f"name them in the `rules` of an entry, or give a reason in WITHOUT_SCENARIO: {sorted(untested)}"
    )


def test_no_rule_that_a_scenario_tests_is_still_explained() -> None:
    superfluous = {name for name in WITHOUT_SCENARIO if name in TESTED or name not in RULE_IDS}
    assert not superfluous, f"remove from WITHOUT_SCENARIO: {sorted(superfluous)}"


def test_every_rule_that_an_entry_names_exists() -> None:
    known = RULE_IDS | {promise.id for promise in PROMISES.values()}
    unknown = {f"{entry.name}: {name}" for entry in ENTRIES.values() for name in entry.rules if name not in known}
    assert not unknown


RESENDS = {"application_resend", "client_crash"}
"""The disturbances that make an application send records again. A producer that is started again resends all records
whose outcome is unknown."""
ARMS = [(entry, arm) for entry in ENTRIES.values() for arm in entry.arms]
IDS = [f"{entry.name}-{arm.name}" for entry, arm in ARMS]


def rulings(entry: Entry, plan: ArmPlan, client: Client = "librdkafka") -> dict[Anomaly, Ruling]:
    scenario = build(replace(entry, clients=()), "rehearsed")
    arm = replace(scenario.arm(plan.name), client=client)
    seen = disturbances_of_topic(arm.topic_name, forecast.expected_disturbances(scenario.fault, arm))
    return contract(Settings.of_arm(scenario, arm), seen)


def broken(entry: Entry, arm: ArmPlan, client: Client = "librdkafka") -> set[str]:
    """Returns the rules by which the settings of the arm permit an anomaly that its claim forbids, if the plan is
    carried out.

    The anomaly RESENT counts only if the plan makes the application send records again.
    """
    found, resends = rulings(entry, arm, client), any(RESENDS & {*step.act.counts_as} for step in entry.fault.steps)
    kinds = [kind for kind in CLAIMS[arm.claim].forbids if kind is not Anomaly.RESENT or resends]
    return {found[kind].rule for kind in kinds if found[kind].ruling == "PERMITTED"}


def drift_of(entry: Entry, arm: ArmPlan) -> str:
    """Returns what is wrong with the expectation that an arm is VIOLATED; empty if nothing is wrong, or if the arm has
    another expectation."""
    if arm.expectation.verdicts != ("VIOLATED",) or broken(entry, arm) & set(entry.rules) or entry.upstream:
        return ""
    return (
        f"{entry.name}: {arm.name} is to be VIOLATED, but what {arm.claim} forbids is permitted under this plan by "
        f"{broken(entry, arm) or 'nothing'}, and the entry names {entry.rules}: name the rule, or see "
        "contract/forecast.py for what the plan is taken to cause"
    )


@pytest.mark.parametrize(("entry", "arm"), ARMS, ids=IDS)
def test_an_arm_is_expected_to_break_only_by_a_rule_that_its_entry_names(entry: Entry, arm: ArmPlan) -> None:
    assert not drift_of(entry, arm)


@pytest.mark.parametrize(("entry", "arm"), ARMS, ids=IDS)
def test_the_java_client_is_expected_to_break_only_what_its_contract_permits(entry: Entry, arm: ArmPlan) -> None:
    """A rule of librdkafka alone gives no verdict about Java: then the arm says what Java must show."""
    expected = arm.expected_with(versioned("java", "")).verdicts
    if not arm.application and expected != ("HELD", "VIOLATED"):
        assert expected == ("HELD",) or broken(entry, arm, "java"), f"{entry.name}: say with_other of {arm.name}"


def test_a_rule_says_with_which_clients_it_was_measured() -> None:
    """With librdkafka: a scenario tests the rule, or its source says so. All runs before the clients had librdkafka."""
    measured = {rule.id for rule in RULES if "librdkafka" in rule.measured_with}
    assert measured == {rule.id for rule in RULES if rule.id in TESTED or MEASURED in rule.source}
    for rule in RULES:
        assert set(rule.measured_with) <= set(rule.clients)
        is_doubtful = "java" in rule.clients and "java" not in rule.measured_with
        assert rule.source_for("librdkafka") == rule.source
        if is_doubtful:
            wanted = "measured with librdkafka only)" if rule.id in measured else "(not measured)"
            assert rule.source_for("java").endswith(wanted) and wanted in rule.holds_for
    assert next(rule for rule in RULES if rule.id == "lost.unclean").holds_for == (
        "librdkafka and Java (measured with librdkafka only)"
    )


def test_a_verdict_on_java_says_which_rule_was_never_measured_with_it() -> None:
    entry = ENTRIES["acks_1.frozen_followers"]
    lost = rulings(entry, entry.arms[0], "java")[Anomaly.LOST]
    assert lost.rule == "lost.acks_1" and "measured with librdkafka" not in lost.source
    misplaced = rulings(entry, entry.arms[0], "java")[Anomaly.MISPLACED]
    assert misplaced.source == "follows from lost.acks_1 (not measured)"


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=lambda entry: entry.name)
def test_where_an_arm_is_to_break_another_holds_that_its_settings_promise_to(entry: Entry) -> None:
    held = [arm for arm in entry.arms if arm.expectation.verdicts == ("HELD",)]
    assert any(not broken(entry, arm) for arm in held) or not held, (
        f"{entry.name}: none of {[arm.name for arm in held]} is promised"
    )


def test_an_entry_that_names_another_rule_or_expects_too_much_is_found() -> None:
    entry = ENTRIES["acks_1.frozen_followers"]
    subject, control = entry.arms
    assert not drift_of(entry, subject)
    assert "name the rule" in drift_of(replace(entry, rules=("lost.unclean",)), subject)
    assert "by nothing" in drift_of(entry, replace(control, expectation=subject.expectation))
