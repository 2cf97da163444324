"""Tests that the embedded backend passes the checks that every backend must pass (support.backend_contract)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from support import backend_contract
from support.kept_clusters import Kept
from support.new_topics import create_topics
from support.patience import PATIENCE_S

from delivery_verifier.cluster.embedded.cluster import EmbeddedCluster
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.waiting import wait_until


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> str:
    name = f"contract-{uuid.uuid4().hex[:8]}"
    create_topics(cluster.connection.client_properties(), NewTopic(name, 1, 3))
    wait_until(lambda: cluster.isr_full([name]), "the topic to be led", PATIENCE_S)
    return name


@pytest.mark.parametrize("check", backend_contract.CHECKS, ids=lambda check: check.__name__)
def test_the_embedded_backend_keeps_the_contract(
    check: Callable[[Cluster, str], None], cluster: Cluster, topic: str
) -> None:
    check(cluster, topic)


def test_the_features_of_a_broker_say_that_elr_is_on(cluster: Cluster) -> None:
    features = cluster.requests.finalized_features(1)
    assert features["eligible.leader.replicas.version"] == 1 and features["metadata.version"] > 0


def test_an_embedded_cluster_that_is_stopped_leaves_nothing(
    keep: Callable[..., Kept], _own_host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_LOCK", str(_own_host / "other lock"))  # beside the cluster of this folder
    kept = keep().answers()
    backend_contract.stop_leaves_nothing(EmbeddedCluster(kept.workspace))
    kept.is_gone()
