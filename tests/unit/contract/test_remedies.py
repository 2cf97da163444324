"""Tests of the remedies: a change is proposed only if the contract forbids what happened, under every history."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from delivery_verifier.catalogue import FAULTS, PROFILES
from delivery_verifier.contract.forecast import expected_disturbances
from delivery_verifier.contract.remedies import loosenings, remedies
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
