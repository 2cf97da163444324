"""Tests of the plans of the known bugs of clients: which client has the bug, which has not, and what reaches it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from delivery_verifier.catalogue import ENTRIES, build
from delivery_verifier.catalogue.arm_clients import ONLY_LIBRDKAFKA
from delivery_verifier.catalogue.scenarios import discoveries
from delivery_verifier.contract import forecast
from delivery_verifier.contract.disturbances import disturbances_of_topic
from delivery_verifier.contract.rulings import contract
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.client import VersionedClient, parse
from delivery_verifier.model.scenario import Bound, Scenario
from delivery_verifier.planning.build import scenario_from_params

EPOCH_BUMP, EOF_EVENTS = "idempotent.epoch_bump", "consumer.eof_events"
NAMES = [entry.name for entry in discoveries.ENTRIES]


def planned(name: str, **more: object) -> Scenario:
    return scenario_from_params({"scenario": name, **more}, "r")


def verdicts(of: Scenario) -> dict[str, str]:
    """Maps the client of each arm with load, or of its application, to the one verdict that the arm must have."""
    found = {(arm.application or arm).versioned_client.text: arm.expectation.verdicts for arm in of.loaded}
    assert all(len(each) == 1 for each in found.values())
    return {client: each[0] for client, each in found.items()}


def test_an_idempotent_librdkafka_must_break_and_java_with_the_same_settings_must_hold() -> None:
    of = planned(EPOCH_BUMP)
    assert verdicts(of) == {"librdkafka": "VIOLATED", "java:4.3.1": "HELD"}
    bug, control = of.loaded
    assert bug.expectation.bounds == (Bound(count="DUPLICATED", op=">=", value=1),)
    assert bug.profile == control.profile
    assert bug.profile.producer["enable.idempotence"] is True


def test_the_clients_that_a_user_names_take_the_place_of_those_of_the_scenario() -> None:
    assert verdicts(planned(EPOCH_BUMP, clients="librdkafka,java:4.4.0")) == {
        "librdkafka": "VIOLATED",
        "java:4.4.0": "HELD",
    }
    assert verdicts(planned(EPOCH_BUMP, clients="java:4.1.1")) == {"java:4.1.1": "HELD"}
    assert verdicts(planned("acks_1.frozen_followers")) == {"librdkafka": "HELD"}


@pytest.mark.parametrize("name", NAMES)
def test_what_an_arm_breaks_is_forbidden_by_its_contract(name: str) -> None:
    """Were it permitted, the arm would be HELD with the bug."""
    of = planned(name)
    for arm in of.loaded:
        seen = disturbances_of_topic(arm.topic_name, forecast.expected_disturbances(of.fault, arm))
        rulings = contract(Settings.of_arm(of, arm), seen)
        for bound in arm.expectation.bounds:
            assert rulings[Anomaly[bound.count]].ruling == "FORBIDDEN", (arm.name, bound)


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_of_a_bug_names_the_bug_the_client_that_has_it_and_one_that_has_not(name: str) -> None:
    entry = ENTRIES[name]
    assert entry.upstream and entry.upstream.reference and entry.upstream.as_of
    if not any(arm.application for arm in entry.arms):
        assert entry.clients and entry.clients != ONLY_LIBRDKAFKA, "the default says that the user named no client"
    assert {*verdicts(planned(name)).values()} == {"HELD", "VIOLATED"}


def test_only_a_scenario_of_a_bug_may_break_what_the_contract_forbids() -> None:
    assert {entry.name for entry in ENTRIES.values() if entry.upstream} == {*NAMES}


def test_every_client_of_which_something_else_is_expected_can_be_named() -> None:
    for entry in ENTRIES.values():
        for arm in entry.arms:
            assert all(len(parse(text, "with_other")) == 1 for text in arm.with_other), entry.name


def test_no_session_ends_while_a_leader_is_frozen() -> None:
    """Else another leader would take its place, and the clients would not wait for this one."""
    frozen = [entry for entry in discoveries.ENTRIES if any(step.action == "pause" for step in entry.fault.steps)]
    assert frozen
    for entry in frozen:
        assert build(entry, "r").cluster.session_timeout_ms > 1000 * entry.fault.duration_s


def test_only_the_client_of_the_members_differs_where_the_bug_is_one_of_consumers() -> None:
    of = planned(EOF_EVENTS)
    assert verdicts(of) == {"librdkafka:2.13.0": "VIOLATED", "librdkafka:2.13.2": "HELD"}
    bug, control = of.loaded
    assert bug.versioned_client == control.versioned_client == VersionedClient()
    assert bug.application and control.application and bug.application.consumer["enable.partition.eof"] is True
    assert replace(bug.application, client_version="") == replace(control.application, client_version="")
    assert bug.profile == control.profile
    of_stop, of_both, _ = bug.expectation.bounds
    assert of_stop == Bound(count="SKIPPED", op=">=", value=of.load.partitions)
    assert of_both == Bound(count="SKIPPED", op="<=", value=2 * of.load.partitions), (
        "the run stops its members once more"
    )


def test_every_record_that_may_be_skipped_is_written_while_no_member_runs() -> None:
    actions = [step.action for step in ENTRIES[EOF_EVENTS].fault.steps]
    assert actions == ["wait", "stop_application", "send", "restart_application"]
