"""Tests that every concept (e.g. an anomaly or an action) has all its words, and that every table that is derived from
concepts is complete. test_architecture tests the tables that stand in source code."""

from __future__ import annotations

from typing import get_args

import pytest

from delivery_verifier.contract.guarantees import FAULT_CLASSES, GUARANTEES, UNCLASSED
from delivery_verifier.contract.rules import PROMISES, RULES
from delivery_verifier.contract.strength import COPIES, LOSSES
from delivery_verifier.model.anomalies import KINDS, SECONDARY, TRANSACTIONAL, Anomaly, also_column, column, subset
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import DISTURBANCES, INJECTED, ON_TOPICS, DisturbanceKind
from delivery_verifier.model.scenario import Claim
from delivery_verifier.run_directory.tally import COUNTS


def test_a_subset_without_a_reason_is_no_subset() -> None:
    assert subset("these are lost", (Anomaly.LOST,)) == (Anomaly.LOST,)
    with pytest.raises(ValueError, match="gives no reason"):
        subset(" ", (Anomaly.LOST,))


def test_every_anomaly_has_all_its_words() -> None:
    assert list(KINDS) == list(Anomaly), "in order of precedence"
    for kind in KINDS.values():
        assert all([kind.definition, kind.name, kind.participle, kind.record_that_is])
        assert kind.share_of in COUNTS, "an anomaly is a share of a column of the counts"
    assert sorted(kind.telling for kind in KINDS.values()) == list(range(1, len(Anomaly) + 1))


def test_what_an_anomaly_is_permitted_with_is_what_its_rules_say() -> None:
    assert {rule.anomaly for rule in RULES} == {
        anomaly for anomaly, kind in KINDS.items() if kind.permitted_with != "nothing"
    }
    assert set(PROMISES) == set(Anomaly)
    assert set(TRANSACTIONAL) <= set(LOSSES) == {Anomaly.LOST, Anomaly.MISPLACED, *TRANSACTIONAL}
    assert not set(LOSSES) & set(COPIES)


def test_the_tally_have_a_column_for_every_anomaly_and_for_what_may_be_hidden() -> None:
    wanted = {*map(column, Anomaly), *map(also_column, SECONDARY)}
    assert wanted <= set(COUNTS)


def test_every_claim_has_its_words_and_every_one_but_the_contract_forbids_something() -> None:
    assert list(CLAIMS) == list(get_args(Claim))
    assert all(kind.meaning for kind in CLAIMS.values())
    assert {claim for claim, kind in CLAIMS.items() if not kind.forbids} == {"contract"}
    assert set(GUARANTEES) == set(CLAIMS) - {"contract"}


def test_every_kind_of_disturbance_has_its_words_and_a_class_of_fault_or_a_reason_for_none() -> None:
    assert list(DISTURBANCES) == list(get_args(DisturbanceKind))
    assert all(kind.meaning for kind in DISTURBANCES.values())
    classed = {kind for fault_class in FAULT_CLASSES for kind in fault_class.kinds}
    assert classed | set(UNCLASSED) == set(DISTURBANCES)
    assert not classed & set(UNCLASSED)
    assert len({fault_class.name for fault_class in FAULT_CLASSES}) == len(FAULT_CLASSES)


def test_every_action_counts_as_what_no_observer_sees_and_is_observed_as_what_one_does() -> None:
    counted = {kind for act in ACTS.values() for kind in act.counts_as}
    together = {"isr_power_loss", "coordinator_power_loss"}
    assert counted == INJECTED - together, "these follow from losses of power"
    assert not {kind for act in ACTS.values() for kind in act.observed_as} & INJECTED
    assert set(ON_TOPICS) >= {"leader_change", "topic_altered"}
    assert not ON_TOPICS & {"power_loss", "broker_crash"}
