"""Tests of the remedies: a change is proposed only if the contract forbids what happened, under every history."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from delivery_verifier.catalogue import FAULTS, PROFILES
from delivery_verifier.contract.forecast import expected_disturbances
from delivery_verifier.contract.remedies import Changes, loosenings, remedies
from delivery_verifier.contract.rulings import contract
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import Disturbance
from delivery_verifier.planning.build import scenario_from_params

LOST = [Anomaly.LOST]


def of(profile: str) -> Settings:
    return Settings.of_profile(PROFILES[profile])


def caused(fault: str) -> list[Disturbance]:
    """The disturbances that a fault of the catalogue causes."""
    plan = scenario_from_params({"profile": "safe", "fault": "kill_leader", "records": 2000}, "r")
    return expected_disturbances(FAULTS[fault], plan.subjects[0])


def test_the_losses_of_acks_1_are_prevented_by_acks_all() -> None:
    changes = [remedy.changes for remedy in remedies(of("acks_1"), LOST, [caused("pause_leader")])]
    assert changes == [("acks=all",), ("acks=all and enable.idempotence=true",)]


def test_a_pair_is_tried_only_if_no_single_change_is_enough() -> None:
    wanted = [Anomaly.LOST, Anomaly.DUPLICATED]
    weak = replace(of("acks_1"), unclean_leader_election=True)
    history = [Disturbance(kind=kind, at_us=0, planned=True) for kind in ("leader_change", "unclean_election")]  # type: ignore[arg-type]
    found = remedies(weak, wanted, [history])
    assert ("acks=all and enable.idempotence=true", "unclean.leader.election.enable=false") in [
        remedy.changes for remedy in found
    ]
    assert all(len(remedy.changes) == 2 for remedy in found)


def test_what_no_setting_prevents_has_no_remedy() -> None:
    assert remedies(of("safe"), [Anomaly.RESENT], [[]]) == []
    assert remedies(of("acks_1"), [], [[]]) == remedies(of("acks_1"), LOST, []) == []


def test_a_change_must_hold_under_every_history() -> None:
    power = Disturbance(kind="isr_power_loss", at_us=0, planned=True, replicas=3)
    both = remedies(of("acks_1"), LOST, [caused("pause_leader"), [*caused("pause_leader"), power]])
    assert all("flush.messages=1" in remedy.changes for remedy in both)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_remedy_forbids_and_every_loosening_permits_what_it_says(profile: str) -> None:
    settings = of(profile)
    for fault, anomaly in product(FAULTS, (Anomaly.LOST, Anomaly.DUPLICATED, Anomaly.REORDERED)):
        history = caused(fault)
        for remedy in remedies(settings, [anomaly], [history]):
            assert contract(remedy.settings, history)[anomaly].ruling == "FORBIDDEN"
        for loosening in loosenings(settings, [anomaly], [history]):
            assert contract(settings, history)[anomaly].ruling == "FORBIDDEN"
            assert contract(loosening.settings, history)[anomaly].ruling == "PERMITTED"


def test_settings_that_a_client_refuses_are_never_proposed() -> None:
    for remedy in remedies(replace(of("acks_all"), max_in_flight=100), [Anomaly.DUPLICATED], [caused("kill_leader")]):
        assert not remedy.settings.enable_idempotence or remedy.settings.max_in_flight <= 5
    changed = [loose.settings for loose in loosenings(of("transactional"), LOST, [caused("kill_leader")])]
    assert all(settings.enable_idempotence for settings in changed), "transactions need idempotence"


# ---- At the edges: settings that a client or topic just accepts, several histories, and changes that change nothing.


SAFE = Settings.of_profile(PROFILES["safe"])
NEW_LEADER = [Disturbance(kind="leader_change", at_us=0, planned=True)]
POWER = [Disturbance(kind="isr_power_loss", at_us=0, planned=True, replicas=1)]


def names(settings: Settings, *histories: list[Disturbance], more: Changes | None = None) -> list[str]:
    """Returns the texts of the single changes after which the contract forbids a loss."""
    return [" and ".join(remedy.changes) for remedy in remedies(settings, LOST, histories, more)]


def loosened(settings: Settings, *histories: list[Disturbance]) -> list[str]:
    """Returns the texts of the changes after which the contract permits a loss."""
    return [loosening.change for loosening in loosenings(settings, LOST, histories)]


def test_a_loosening_is_named_with_the_sentence_that_permits() -> None:
    (nobody, leader) = loosenings(SAFE, LOST, [NEW_LEADER])
    assert (nobody.change, leader.change) == ("acks=0", "acks=1")
    assert leader.permits[Anomaly.LOST].startswith("With acks=1 the leader alone confirms")
    assert leader.settings == replace(SAFE, acks="1", enable_idempotence=False)


def test_a_loosening_permits_under_every_history_what_was_forbidden_under_every_history() -> None:
    assert loosened(SAFE, POWER) == ["acks=0", "min.insync.replicas=1"]
    assert loosened(SAFE, NEW_LEADER, POWER) == loosened(SAFE, POWER, NEW_LEADER) == ["acks=0"]
    assert loosened(replace(SAFE, min_insync_replicas=1), NEW_LEADER, POWER) == [], "POWER loses without any change"
    assert loosened(SAFE) == []


def test_a_topic_accepts_as_many_replicas_in_sync_as_it_has() -> None:
    one = replace(SAFE, min_insync_replicas=1)
    assert "min.insync.replicas=2" in names(replace(one, replication_factor=2), POWER)
    assert "min.insync.replicas=2" not in names(replace(one, replication_factor=1), POWER)


@pytest.mark.parametrize(
    ("fields", "accepted"),
    [
        ({"max_in_flight": 4}, True),
        ({"max_in_flight": 6}, False),
        ({"retries": 1}, True),
        ({"retries": 0}, False),
        ({"acks": "1"}, False),
    ],
)
def test_an_idempotent_producer_has_retries_all_acks_and_five_in_flight_at_most(
    fields: dict[str, int | str], accepted: bool
) -> None:
    assert ("this" in names(SAFE, [], more={"this": fields})) == accepted


def test_what_changes_nothing_or_only_the_cluster_is_no_remedy() -> None:
    changes = names(SAFE, [])
    assert "max.in.flight.requests.per.connection=1" in changes
    assert not {"acks=all", "min.insync.replicas=2", "no eligible leader replicas"} & set(changes)
