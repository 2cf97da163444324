"""Tests of rulings: what a claim forbids beyond the contract, and what several permissions are together."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import get_args

import pytest
from msgspec import structs
from support.contract_cases import disturbance, settings

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract.rulings import (
    _add_reasons,
    claim_tolerances,
    contract,
    effective,
    guarantees,
    refuses_late,
)
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.history import Disturbance, DisturbanceKind
from delivery_verifier.model.scenario import Claim

PLAIN = Settings.of_profile(PROFILES["acks_all"])
SAFE = Settings.of_profile(PROFILES["safe"])
KINDS: tuple[DisturbanceKind, ...] = get_args(DisturbanceKind)
LOST, DUPLICATED, RESENT = Anomaly.LOST, Anomaly.DUPLICATED, Anomaly.RESENT


CLAIM_NAMES: tuple[Claim, ...] = get_args(Claim)


@pytest.mark.parametrize(("claim", "name"), list(itertools.product(CLAIM_NAMES, PROFILES)))
def test_a_claim_tightens_the_contract_and_never_loosens_it(claim: Claim, name: str) -> None:
    seen = [disturbance(kind) for kind in KINDS]
    plain, tightened = contract(settings(name), seen), effective(settings(name), claim, seen)
    for anomaly in Anomaly:
        wanted = "FORBIDDEN" if anomaly in CLAIMS[claim].forbids else plain[anomaly].ruling
        assert tightened[anomaly].ruling == wanted
        by_claim = plain[anomaly].ruling == "PERMITTED" and wanted == "FORBIDDEN"
        assert tightened[anomaly].ruled_by == ("claim" if by_claim else "contract")


def test_resent_convicts_only_under_exactly_once() -> None:
    assert [claim for claim in CLAIM_NAMES if RESENT in claim_tolerances(claim)] == ["exactly_once"]


def test_a_ruling_tolerates_nothing_where_forbidden_and_anything_where_permitted() -> None:
    rulings = contract(settings("acks_0"), [])
    assert rulings[LOST].tolerance is None
    assert rulings[DUPLICATED].tolerance == 0


def test_settings_guarantee_what_no_ruling_permits_and_resends_are_no_matter_of_settings() -> None:
    assert guarantees(contract(SAFE, [])) == dict.fromkeys(
        ("at_least_once", "at_most_once", "exactly_once", "ordered"), True
    )
    weak = guarantees(contract(replace(PLAIN, acks="1", retries=0), [disturbance("leader_change")]))
    assert not weak["at_least_once"] and not weak["exactly_once"]


@pytest.mark.parametrize(
    ("settings", "observed", "refused"),
    [
        (SAFE, [], True),
        (SAFE, [disturbance("leader_change")], True),
        (SAFE, [disturbance("leader_change"), disturbance("client_crash")], False),
        (PLAIN, [], False),
        (PLAIN, [disturbance("client_crash")], False),
    ],
)
def test_brokers_refuse_what_is_late_of_an_idempotent_producer_that_lives(
    settings: Settings, observed: list[Disturbance], refused: bool
) -> None:
    assert refuses_late(settings, observed) is refused


def test_a_claim_forbids_what_the_contract_permits_and_says_so() -> None:
    weak = replace(PLAIN, acks="0")
    ruling = effective(weak, "at_least_once", [])[Anomaly.LOST]
    assert (ruling.ruling, ruling.ruled_by, ruling.rule) == ("FORBIDDEN", "claim", "claim.at_least_once")
    assert (ruling.tolerance, ruling.because, ruling.only_unplanned) == (0, (), False)
    assert effective(weak, "at_most_once", [])[Anomaly.LOST].ruled_by == "contract"
    assert contract(weak, [])[Anomaly.LOST].tolerance is None


def test_of_two_permissions_the_planned_counts_and_reasons_of_the_same_kind_are_added() -> None:
    weak = replace(PLAIN, acks="1", flush_messages=9, min_insync_replicas=1)
    change, loss = disturbance("leader_change"), disturbance("isr_power_loss", replicas=1)
    assert contract(weak, [change, loss])[Anomaly.LOST].because == ("leader_change", "isr_power_loss")
    for planned, unplanned in ((change, replace_planned(loss)), (loss, replace_planned(change))):
        ruling = contract(weak, [planned, unplanned])[Anomaly.LOST]
        assert ruling.because == (planned.kind,) and not ruling.only_unplanned
    both = contract(weak, [replace_planned(change), replace_planned(loss)])[Anomaly.LOST]
    assert both.only_unplanned and both.because == ("leader_change", "isr_power_loss")
    none_needed = contract(replace(weak, acks="0"), [change])[Anomaly.LOST]
    assert none_needed.because == () and not none_needed.only_unplanned


def replace_planned(disturbance: Disturbance) -> Disturbance:
    return structs.replace(disturbance, planned=False)


def test_a_claim_tolerates_no_record_of_what_it_forbids() -> None:
    assert claim_tolerances("at_least_once")[Anomaly.LOST] == 0
    assert set(claim_tolerances("exactly_once").values()) == {0} and claim_tolerances("contract") == {}


def test_what_one_rule_permits_without_any_disturbance_needs_none_of_another() -> None:
    always = contract(replace(PLAIN, acks="0"), [])[Anomaly.LOST]
    after = contract(replace(PLAIN, acks="1"), [disturbance("leader_change")])[Anomaly.LOST]
    assert not always.because and after.because == ("leader_change",)
    for ruling, other in ((always, after), (after, always)):
        assert _add_reasons(ruling, other) == structs.replace(ruling, because=())
    assert _add_reasons(after, after) == after
    unplanned = structs.replace(after, only_unplanned=True, because=("unclean_election",))
    assert _add_reasons(after, unplanned) == after and _add_reasons(unplanned, after) == unplanned
