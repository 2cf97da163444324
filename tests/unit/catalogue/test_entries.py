"""Tests of the catalogue's entries. Each entry builds a scenario, states an expectation for each arm, and names only
rules that exist."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from delivery_verifier.catalogue import ENTRIES, build
from delivery_verifier.catalogue.entry import Entry
from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.contract.rules import PROMISES, RULES
from delivery_verifier.model.data import dumps
from delivery_verifier.model.scenario import ClusterSpec
from delivery_verifier.model.scenario_checks import check, loads
from delivery_verifier.planning.consistency import check_settings

KNOWN_RULES = {rule.id for rule in RULES} | {promise.id for promise in PROMISES.values()}


def faults_of(entry: Entry) -> list[str]:
    """Returns what is wrong with the expectations and texts of an entry; empty if nothing is wrong."""
    found = [f"unknown rule {rule}" for rule in entry.rules if rule not in KNOWN_RULES]
    broken = {arm.claim for arm in entry.arms if arm.role == "subject" and arm.expectation.verdicts == ("VIOLATED",)}
    held = {arm.claim for arm in entry.arms if arm.role == "control" and arm.expectation.verdicts == ("HELD",)}
    if entry.deterministic and not broken and not entry.why_held:
        found.append("no subject is expected to break, and nothing says why")
    if entry.deterministic and not held:
        found.append("no control is expected to hold")
    if entry.deterministic and not broken <= held:
        found.append("no control is expected to hold under the claim that a subject breaks")
    if not (entry.title and entry.promise and entry.source and entry.rules):
        found.append("title, promise, source and rules must be said")
    return found


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_builds_a_scenario_that_can_run(name: str) -> None:
    scenario = build(ENTRIES[name], "a-run")
    check(scenario)
    assert loads(dumps(scenario)) == scenario
    for arm in scenario.arms:
        check_settings(arm.profile, scenario.cluster.kafka_version, scenario.load.payload_bytes)


@pytest.mark.parametrize("name", ENTRIES)
def test_no_session_is_so_short_that_a_loss_of_power_of_a_whole_isr_passes_for_a_late_look(name: str) -> None:
    """A broker that kept its power and is in the ISR within the observer's lag counts as having been in it before. An
    ISR changes only once a broker's session has ended."""
    scenario = build(ENTRIES[name], "a-run")
    if any("power_loss" in step.act.counts_as for step in scenario.fault.steps):
        assert scenario.cluster.session_timeout_ms * 1000 > OBSERVER_LAG_US
    assert ClusterSpec().session_timeout_ms * 1000 > OBSERVER_LAG_US, "what every run of a user's own has"


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_says_what_breaks_what_holds_and_by_which_rules(name: str) -> None:
    assert faults_of(ENTRIES[name]) == []


def test_an_entry_without_a_control_or_with_an_unknown_rule_is_found() -> None:
    entry = ENTRIES["acks_1.frozen_followers"]
    subject, control = entry.arms
    assert faults_of(replace(entry, arms=(subject,))) != []
    assert faults_of(replace(entry, arms=(subject, replace(control, claim="ordered")))) != []
    assert faults_of(replace(entry, arms=(control,))) != []
    assert faults_of(replace(entry, rules=("lost.acks_2",))) == ["unknown rule lost.acks_2"]
    assert faults_of(replace(entry, promise="")) != []
