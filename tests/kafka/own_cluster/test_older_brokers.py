"""A cluster of an older release: the check says what it does not keep, and the contract gets the weaker value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.secured_cluster import SecuredCluster, secured_cluster

from delivery_verifier import catalogue
from delivery_verifier.cluster.check import cluster_check, rights
from delivery_verifier.cluster.security.reading import Access
from delivery_verifier.model.scenario import Load
from delivery_verifier.planning import cluster_needs, cluster_plan

RUN = catalogue.scenario(
    "r",
    profile=catalogue.PROFILES["safe"],
    fault=catalogue.FAULTS["none"],
    load=Load(replication_factor=1),
    records=1000,
)


@pytest.fixture(scope="module")
def older(_own_host: Path) -> Iterator[SecuredCluster]:
    with secured_cluster(_own_host / "older", brokers=(7,), version="4.0.2") as cluster:
        yield cluster


def test_eligible_replicas_that_the_cluster_does_not_keep_are_not_assumed(
    older: SecuredCluster, access: Callable[[dict[str, str]], Access]
) -> None:
    needed = cluster_needs.needs(RUN).rights
    everything = (*needed, rights.SEE_SETTINGS)
    checked = cluster_check.check(
        access(older.properties("operator")), everything, lambda brokers: cluster_needs.sample_topics(RUN, brokers)
    )
    plan = cluster_plan.judge(RUN, checked)
    assert plan.exit_code == 0, cluster_plan.text(plan)
    assert checked.software[7].release == "4.0"
    assert plan.assumed == {
        "eligible leader replicas": "none (eligible.leader.replicas.version is off)",
        "ends of transactions": "transaction.version is 2",
        "transaction.state.log.min.isr": "1",
    }
    assert not cluster_plan.observed(RUN, checked).cluster.elr
