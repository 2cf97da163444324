"""Tests that the docker backend passes the checks that every backend must pass (support.backend_contract).

They need running composed brokers: they run inside a container of tasks, where KDV_GATEWAY_URL and the like are set,
and are skipped where KDV_TEST_PROJECT is unset.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from support import backend_contract
from support.new_topics import create_topics
from support.patience import PATIENCE_S

from delivery_verifier.cluster import lease, topics
from delivery_verifier.cluster.backend import StartRequest
from delivery_verifier.cluster.docker.backend import BACKEND, UNAVAILABLE_HERE
from delivery_verifier.cluster.docker.cluster import DockerCluster
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.act import Capability
from delivery_verifier.model.scenario import ClusterSpec

pytestmark = pytest.mark.skipif(
    not os.environ.get("KDV_TEST_PROJECT"), reason="KDV_TEST_PROJECT names no composed brokers"
)
SPEC = ClusterSpec(backend="docker")


@pytest.fixture(scope="module", autouse=True)
def _own_lock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KDV_LOCK", str(tmp_path_factory.mktemp("host") / "lock"))
        yield


def begun(folder: Path, *capabilities: Capability, token: str = "") -> Cluster:
    """Starts a run's cluster in a workspace below `folder`."""
    (workspace := folder / (token or uuid.uuid4().hex[:8])).mkdir()
    spec = ClusterSpec(backend="docker", capabilities=capabilities)
    request = StartRequest(run_id=f"run-{workspace.name}", workspace=str(workspace), deadline_s=600, spec=spec)
    return Cluster(BACKEND.start(request))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = begun(tmp_path_factory.mktemp("ws"))
    with lease.renewed(cluster.socket):
        cluster.wait_up()
        yield cluster
        with suppress(lease.ClusterGone):  # the last test has ended it
            cluster.finish(keep_workspace=False)


@pytest.fixture(scope="module")
def topic(cluster: Cluster) -> Iterator[str]:
    name = f"contract-{uuid.uuid4().hex[:8]}"
    create_topics(cluster.connection.client_properties(), NewTopic(name, 1, 3))
    wait_until(lambda: cluster.isr_full([name]), "the topic to be led", PATIENCE_S)
    yield name
    client = topics.admin(cluster.connection)  # must live until the topic is deleted
    client.delete_topics([name])[name].result(PATIENCE_S)


def test_the_composed_cluster_is_the_one_that_scenarios_ask_for() -> None:
    assert (
        BACKEND.unavailable() is None and BACKEND.unsupported(SPEC) is None and BACKEND.unavailable("network") is None
    )
    assert {
        capability: getattr(BACKEND.unavailable(capability), "why", "") for capability in UNAVAILABLE_HERE
    } == UNAVAILABLE_HERE


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (ClusterSpec(session_timeout_ms=6000), "broker.session.timeout.ms is 3000, not 6000"),
        (ClusterSpec(broker_settings={"replica.lag.time.max.ms": 1000}), "replica.lag.time.max.ms is 30000, not 1000"),
        (ClusterSpec(elr=False), "eligible.leader.replicas.version is on"),
        (ClusterSpec(kafka_version="4.2.0"), "its image is version 4.3.1"),
        (ClusterSpec(brokers=1), "it has 3 brokers, not 1"),
    ],
)
def test_a_scenario_of_another_cluster_is_unavailable_with_the_difference(spec: ClusterSpec, why: str) -> None:
    unavailable = BACKEND.unsupported(spec)
    assert unavailable is not None and why in unavailable.why and not unavailable.failed


@pytest.mark.parametrize("check", backend_contract.CHECKS, ids=lambda check: check.__name__)
def test_the_docker_backend_keeps_the_contract(
    check: Callable[[Cluster, str], None], cluster: Cluster, topic: str
) -> None:
    check(cluster, topic)


def test_a_composed_cluster_that_is_stopped_leaves_nothing_and_old_topics_go_at_the_next_start(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.finish(keep_workspace=False)  # only one lease at a time; the fixture's end does no harm
    client = topics.admin(cluster.connection)
    names = ["kdv-00000000-gone", "kdv-11111111-there", "orders"]
    create_topics(cluster.connection.client_properties(), *(NewTopic(name, 1, 3) for name in names))
    (tmp_path / "11111111").mkdir()
    second = begun(tmp_path, "network")
    assert not {"kdv-00000000-gone"} & client.list_topics(timeout=PATIENCE_S).topics.keys()
    assert {"kdv-11111111-there", "orders"} <= client.list_topics(timeout=PATIENCE_S).topics.keys()
    client.delete_topics(names[1:])["orders"].result(PATIENCE_S)
    second.agent.apply("network", [1], {"links": ["controller", "replication"]})
    wait_until(
        lambda: second.agent.is_in_force("network", [1]).get(1, {}).get("controller", 0) > 1,
        "the cut to be seen",
        PATIENCE_S,
    )
    wait_until(lambda: 1 not in second.backend.requests.live_brokers(2), "the controller to fence broker 1", PATIENCE_S)
    second.agent.undo("network", [1])
    wait_until(lambda: 1 in second.backend.requests.live_brokers(2), "broker 1 to be back", PATIENCE_S)
    backend_contract.stop_leaves_nothing(DockerCluster(second.workspace))
