"""Tests of the plans of the known bugs of clients: which client has the bug, which has not, and what reaches it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from delivery_verifier.catalogue import ENTRIES, build
from delivery_verifier.catalogue.arm_clients import ONLY_LIBRDKAFKA
from delivery_verifier.catalogue.scenarios import discoveries
from delivery_verifier.cluster.proxy.rules import BEGIN_BYTES
from delivery_verifier.cluster.proxy.server import AHEAD_BYTES
from delivery_verifier.contract import forecast
from delivery_verifier.contract.disturbances import disturbances_of_topic
from delivery_verifier.contract.rulings import contract
from delivery_verifier.contract.settings import Settings
from delivery_verifier.load.java.settings import properties, room
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.client import VersionedClient, parse
from delivery_verifier.model.partition_growth import first_partitions
from delivery_verifier.model.scenario import Bound, Scenario
from delivery_verifier.planning.build import scenario_from_params

EPOCH_BUMP, EOF_EVENTS = "idempotent.epoch_bump", "consumer.eof_events"
REUSED_BUFFER = "java.reused_buffer"
TRUNCATED_COMMIT, PARTITION_GROWTH = "consumer.truncated_commit", "consumer.partition_growth"
BACK = ("commit_after", "at_handover")
"""The applications that come back to a log that was cut off: the first commits without a leader epoch, the second with
it."""
NAMES = [entry.name for entry in discoveries.ENTRIES]


def planned(name: str, **more: object) -> Scenario:
    return scenario_from_params({"scenario": name, **more}, "r")


def verdicts(of: Scenario) -> dict[str, str]:
    """Maps the client of each arm with load, or of its application, to the one verdict that the arm must have. If all
    arms have the same client, the keys are their names."""
    clients = {arm.name: (arm.application or arm).versioned_client.text for arm in of.loaded}
    names = clients if len({*clients.values()}) > 1 or len(clients) == 1 else {name: name for name in clients}
    found = {names[arm.name]: arm.expectation.verdicts for arm in of.loaded}
    assert all(len(each) == 1 for each in found.values())
    return {client: each[0] for client, each in found.items()}


def test_an_idempotent_librdkafka_must_break_and_java_with_the_same_settings_must_hold() -> None:
    of = planned(EPOCH_BUMP)
    assert verdicts(of) == {"librdkafka": "VIOLATED", "java:4.3.1": "HELD"}
    bug, control = of.loaded
    assert bug.expectation.bounds == (Bound(count="DUPLICATED", op=">=", value=1),)
    assert bug.profile == control.profile
    assert bug.profile.producer["enable.idempotence"] is True


def test_java_4_1_1_must_break_if_chance_lets_it_and_4_1_2_must_hold() -> None:
    of = planned(REUSED_BUFFER)
    assert verdicts(of) == {"java:4.1.1": "VIOLATED", "java:4.1.2": "HELD"}
    bug, control = of.loaded
    assert bug.expectation.bounds == (Bound(count="MISROUTED", op=">=", value=1),) and bug.expectation.by_chance
    assert control.expectation.bounds == (Bound(count="resolved_present", op=">=", value=of.fault.cycles * 20),)
    assert bug.profile == control.profile and control.expectation.by_chance and of.load.block == 20
    assert of.fault.cycles == 8, "a client is named if every comparable cycle shows it, and these are at least four"
    assert all(step.options["clients"] == 2 for step in of.fault.steps if step.action != "release")


def test_records_time_out_in_the_second_request_that_is_stalled_and_not_in_the_first_nor_by_its_own_timeout() -> None:
    """Else the request is closed, and its memory is not read again."""
    of = planned(REUSED_BUFFER)
    every, leader = [step for step in of.fault.steps if step.action != "release"]
    arm, load = of.loaded[0], of.load
    own = properties(arm.profile.producer, arm.java_properties, load.payload_bytes, load.deadline_s)
    delivery_ms, request_ms, linger_ms = (
        int(own[name]) for name in ("delivery.timeout.ms", "request.timeout.ms", "linger.ms")
    )
    stalled_ms = int(leader.options["delay_ms"])
    assert own["max.in.flight.requests.per.connection"] == "1", "the second request begins when the first is answered"
    assert stalled_ms < delivery_ms - linger_ms < 2 * stalled_ms - 500 and stalled_ms < request_ms
    assert int(every.options["delay_ms"]) < delivery_ms - linger_ms, "the delay of all makes nothing time out"


def test_the_memory_of_the_java_producer_changes_hands_while_a_leader_is_stalled() -> None:
    """A batch of a block each, all of one size. The delay of all answers makes the client take more memory than what
    waits for the stalled leader, so that a batch for another leader finds memory that was given back."""
    of = planned(REUSED_BUFFER)
    every, _ = [step for step in of.fault.steps if step.action != "release"]
    arm, load = of.loaded[0], of.load
    assert load.rate is not None and load.block
    own = properties(arm.profile.producer, arm.java_properties, load.payload_bytes, load.deadline_s)
    batch_bytes, block_bytes = int(own["batch.size"]), load.block * load.payload_bytes
    assert block_bytes < batch_bytes < block_bytes + load.payload_bytes and own["compression.type"] == "none"
    blocks_per_s = load.rate / load.block
    taken = blocks_per_s * int(every.options["delay_ms"]) / 1000
    of_leader = blocks_per_s / of.cluster.brokers * int(own["delivery.timeout.ms"]) / 1000
    assert of_leader * 2 < min(
        taken, room(own, arm.profile.producer, load.payload_bytes, load.block, load.partitions) / load.block
    )
    request_bytes = load.partitions // of.cluster.brokers * batch_bytes
    assert request_bytes > 2 * (2 * AHEAD_BYTES + BEGIN_BYTES), "half of a request stays at the client"


def test_the_clients_that_a_user_names_take_the_place_of_those_of_the_scenario() -> None:
    assert verdicts(planned(EPOCH_BUMP, clients="librdkafka,java:4.4.0")) == {
        "librdkafka": "VIOLATED",
        "java:4.4.0": "HELD",
    }
    assert verdicts(planned(EPOCH_BUMP, clients="java:4.1.1")) == {"java:4.1.1": "HELD"}
    assert {arm.versioned_client.text for arm in planned("acks_1.frozen_followers").loaded} == {"librdkafka"}


@pytest.mark.parametrize("name", NAMES)
def test_what_an_arm_breaks_is_forbidden_by_its_contract_or_by_its_claim(name: str) -> None:
    """Were it permitted, the arm would be HELD with the bug."""
    of = planned(name)
    for arm in of.loaded:
        expected = forecast.expected_disturbances(of.fault, arm, of.load.replication_factor)
        seen = disturbances_of_topic(arm.topic_name, expected)
        rulings = contract(Settings.of_arm(of, arm), seen)
        for anomaly in (Anomaly[bound.count] for bound in arm.expectation.bounds if bound.count.isupper()):
            is_forbidden = rulings[anomaly].ruling == "FORBIDDEN" or anomaly in CLAIMS[arm.claim].forbids
            assert is_forbidden, (arm.name, anomaly)


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


def test_the_java_client_holds_under_the_claim_that_a_librdkafka_breaks_at_a_truncated_commit() -> None:
    of = planned(TRUNCATED_COMMIT)
    assert verdicts(of) == {"librdkafka": "VIOLATED", "java:4.3.1": "HELD"}
    assert [arm.name for arm in of.loaded] == [f"{name}{of}" for name in BACK for of in ("", "-java")]
    for bug, control in (of.loaded[:2], of.loaded[2:]):
        assert (bug.claim, bug.profile) == (control.claim, control.profile) and bug.claim == "at_least_once"
        skipped, lost = bug.expectation.bounds
        assert skipped == Bound(count="SKIPPED", op="=", value=of.load.block)
        assert lost == Bound(count="LOST", op="=", value=0), "what the election takes was acknowledged to nobody"


def test_what_an_unclean_election_takes_is_acknowledged_to_nobody_and_the_log_grows_past_the_commit() -> None:
    steps = ENTRIES[TRUNCATED_COMMIT].fault.steps
    actions = [(step.action, step.options.get("blocks", 1)) for step in steps]
    held, released = actions.index(("hold", 1)), actions.index(("release", 1))
    stopped, started = actions.index(("stop_application", 1)), actions.index(("restart_application", 1))
    assert actions[held:released] == [("hold", 1), ("send", 1)], "one block for the leader alone"
    assert ("send", 2) in actions[stopped:started], "two for its successor: one more than it lacks"


def test_a_group_with_latest_must_skip_what_is_written_to_a_new_partition_and_with_earliest_it_must_not() -> None:
    of = planned(PARTITION_GROWTH)
    assert verdicts(of) == {"latest": "VIOLATED", "earliest": "HELD"}
    bug, control = (arm.application for arm in of.loaded)
    assert bug and control
    differing = {name for name in bug.consumer if bug.consumer[name] != control.consumer[name]}
    assert differing == {"auto.offset.reset"}
    skipped, _ = of.loaded[0].expectation.bounds
    in_new = 2 * of.load.block * (of.load.partitions - first_partitions(of))
    warm_up = of.load.block * first_partitions(of)
    assert skipped == Bound(count="SKIPPED", op=">=", value=in_new)
    assert warm_up < in_new, "a member that comes late for the warm-up alone does not show the bug"
