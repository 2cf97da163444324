"""What a verdict says of a cluster that somebody else runs: of its known settings, and of those that are assumed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
from support.evidence import SUBJECT, a_scenario, evidence_of, with_arm

from delivery_verifier import catalogue
from delivery_verifier.model.external_cluster import ClusterAccess, ExternalCluster
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.verdict import external
from delivery_verifier.verdict.limits import limits

CLUSTER = ExternalCluster(access=ClusterAccess(bootstrap_server="b:1"), cluster_id="an-id", brokers=(1, 2, 3))


def on_it(application: str = "", assumed: Mapping[str, str] | None = None) -> Scenario:
    """A run without a fault on this cluster, whose subject has `application`."""
    run = a_scenario("idempotent", fault="none")
    foreign = msgspec.structs.replace(CLUSTER, assumed=dict(assumed or {}))
    run = msgspec.structs.replace(run, cluster=msgspec.structs.replace(run.cluster, external=foreign))
    return with_arm(run, SUBJECT, application=catalogue.APPLICATIONS[application]) if application else run


@pytest.mark.parametrize(("value", "is_weaker"), [("1 (not known)", True), ("2", False)])
def test_only_what_is_not_known_counts_as_the_weaker_value(value: str, is_weaker: bool) -> None:
    said = " ".join(limits(evidence_of(on_it(assumed={"transaction.state.log.min.isr": value}))))
    assert f"Assumed of the cluster: transaction.state.log.min.isr: {value}." in said
    assert ("counts as the weaker value" in said) is is_weaker


@pytest.mark.parametrize(("application", "writes"), [("transform_transactional", True), ("commit_after", False)])
def test_transactional_ids_stay_where_the_application_of_one_arm_writes_transactions(
    application: str, writes: bool
) -> None:
    said = " ".join(limits(evidence_of(on_it(application))))
    assert ("transactional.ids of the run stay registered" in said) is writes


def test_a_group_log_without_positions_was_not_compacted() -> None:
    assert list(external.doubts(evidence_of(on_it("commit_first"), group_log=None))) == []
