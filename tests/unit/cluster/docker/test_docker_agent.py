"""Tests of the cluster agent of composed brokers. It does what a cluster agent does through the fault gateway, and ends
the run's cluster when the gateway dies, hangs or was started anew. So such a run has no verdict."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support.fake_engine import NETWORK, FakeEngine
from support.gateways import Gateway, GatewayProcess
from support.patience import PATIENCE_S

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.agent import start_agent
from delivery_verifier.cluster.backend import CapabilityMissing
from delivery_verifier.cluster.docker import agent as docker_agent
from delivery_verifier.cluster.docker.agent import Agent, DockerAgentSpec
from delivery_verifier.cluster.docker.cluster import DockerCluster, DockerLayout
from delivery_verifier.cluster.docker.gateway_client import GatewayRefused
from delivery_verifier.cluster.docker.means import network
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.model.act import Capability
from delivery_verifier.model.scenario import ClusterSpec

CONTAINERS = {100: "controller", 1: "kafka-1", 2: "kafka-2", 3: "kafka-3"}
RUN = "abcdefgh"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    (folder := tmp_path / RUN).mkdir()
    return folder


def agent_spec(workspace: Path, *capabilities: Capability, lease_s: float = 60.0) -> DockerAgentSpec:
    layout = DockerLayout(
        spec=ClusterSpec(backend="docker", capabilities=capabilities),
        containers=CONTAINERS,
        addresses=dict.fromkeys((1, 2, 3), ("127.0.0.1", 1)),
    )
    return DockerAgentSpec(run_id="run", workspace=str(workspace), deadline_s=3000, layout=layout, lease_s=lease_s)


@pytest.fixture
def keep(workspace: Path, gateway: Gateway) -> Callable[..., Agent]:
    return lambda *capabilities: Agent(agent_spec(workspace, *capabilities), gateway.client())


def recorded(agent: Agent) -> list[tuple[int, str, int | None]]:
    """The observer's record: node, state and exit code."""
    lines = (agent.workspace / "observations.jsonl").read_text().splitlines()
    return [(entry["broker"], entry["state"], entry.get("exit_code")) for entry in map(json.loads, lines)]


def test_signals_become_operations_of_the_gateway_and_are_observed(
    engine: FakeEngine, keep: Callable[..., Agent]
) -> None:
    agent = keep()
    agent.observe()
    assert agent.send(1, "SIGSTOP") > 0
    assert agent.status().nodes[1].state == "frozen"
    agent.send(1, "SIGSTOP")
    with pytest.raises(ValueError, match="broker 1 is frozen"):
        agent.send(1, "SIGTERM")
    agent.send(1, "SIGKILL")
    assert (agent.status().nodes[1].state, agent.status().nodes[1].exit_code) == ("exited", -9)
    with pytest.raises(ValueError, match="broker 1 is not running"):
        agent.send(1, "SIGCONT")
    agent.start(1)
    agent.send(1, "SIGCONT")
    with pytest.raises(ValueError, match="broker 2 is already running"):
        agent.start(2)
    agent.send(2, "SIGTERM")
    agent.observe()
    assert [name for name, _ in engine.changes] == ["pause kafka-1", "kill kafka-1", "start kafka-1", "kill kafka-2"]
    assert recorded(agent)[4:] == [
        (1, "frozen", None),
        (1, "exited", -9),
        (1, "running", None),
        (2, "exited", 143),
    ]
    assert agent.failure() == ""


def test_a_broker_that_the_kernel_has_not_frozen_in_time_is_frozen_by_another_attempt_whose_time_counts(
    engine: FakeEngine, keep: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the time of the first attempt counted, records that met no frozen broker would count as exposed to the
    fault."""
    agent, engine.unfrozen, times = keep(), 2, iter((10, 20, 30))
    monkeypatch.setattr(docker_agent, "now_us", lambda: next(times))
    assert agent.send(1, "SIGSTOP") == 30
    assert (engine.unfrozen, engine.state("kafka-1")) == (0, "paused")


def test_a_broker_that_cannot_be_frozen_is_an_error_with_the_reason_of_the_engine(
    engine: FakeEngine, keep: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, engine.unfrozen = keep(), 2
    with monkeypatch.context() as patch, pytest.raises(DeadlinePassed, match=r"pause of broker 1: .*unable to freeze"):
        patch.setattr(docker_agent, "FREEZES_WITHIN_S", 0.0)
        agent.send(1, "SIGSTOP")
    with monkeypatch.context() as patch, pytest.raises(GatewayRefused, match="unable to freeze"):
        patch.setattr(docker_agent, "NOT_FROZEN", "another reason")
        agent.send(1, "SIGSTOP")
    assert (engine.unfrozen, engine.state("kafka-1")) == (0, "running")


def test_a_broker_that_ended_and_began_again_between_two_looks_is_observed(
    engine: FakeEngine, keep: Callable[..., Agent]
) -> None:
    agent = keep()
    agent.observe()
    engine.containers["kafka-2"]["State"]["StartedAt"] = "later"
    agent.observe()
    assert recorded(agent)[4:] == [(2, "exited", None), (2, "running", None)]


def test_an_isolated_broker_is_off_its_network_and_counts_the_looks(
    engine: FakeEngine, keep: Callable[..., Agent]
) -> None:
    agent = keep("network")
    with pytest.raises(ValueError, match="docker cuts the links controller and replication together"):
        agent.apply("network", [1], {"links": ["replication"]})
    assert agent.is_in_force("network", [1, 2, 3]) == {} and engine.changes == []
    assert agent.apply("network", [1], {"links": ["controller", "replication"]}) > 0
    assert engine.state("kafka-1") == "running, cut off"
    first, second = agent.is_in_force("network", [1, 2, 3]), agent.is_in_force("network", [1, 2, 3])
    assert (first, second) == ({1: {"controller": 1, "replication": 1}}, {1: {"controller": 2, "replication": 2}})
    with pytest.raises(ValueError, match=r"brokers \[1\] are cut off already"):
        agent.apply("network", [1], {"links": ["controller", "replication"]})
    engine.containers["kafka-1"]["NetworkSettings"]["Networks"][NETWORK] = {}  # somebody else connected it
    assert agent.is_in_force("network", [1, 2, 3]) == {}
    agent.undo("network", [1])
    agent.apply("network", [2], {"links": ["controller", "replication"]})
    agent.undo("network", [1, 2])
    assert agent.is_in_force("network", [1, 2, 3]) == {} and engine.state("kafka-2") == "running"


def test_a_broker_that_the_others_still_see_long_after_the_cut_is_not_isolated(
    engine: FakeEngine, keep: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "FENCED_WITHIN_S", -3.0)  # its session is over at once
    agent, live, asked = keep("network"), {1, 2, 3}, list[int]()

    def live_brokers(broker: int) -> set[int]:
        asked.append(broker)
        if broker == 2:
            raise OSError("does not answer")
        return live

    monkeypatch.setattr(agent.requests, "live_brokers", live_brokers)
    agent.apply("network", [1], {"links": ["controller", "replication"]})
    assert agent.is_in_force("network", [1, 2, 3]) == {1: {"controller": 0, "replication": 0}}, (
        "it has another way to the controller"
    )
    live = {2, 3}
    assert all(agent.is_in_force("network", [1, 2, 3])[1].values())
    assert set(asked) == {2, 3}, "an isolated broker is no group log"
    engine.containers["kafka-3"]["State"]["Status"] = "paused"
    assert agent.is_in_force("network", [1, 2, 3]) == {1: {"controller": 0, "replication": 0}}, "nobody can tell"


def test_what_the_run_did_not_ask_for_is_refused(keep: Callable[..., Agent]) -> None:
    agent = keep()
    with pytest.raises(CapabilityMissing, match="network"):
        agent.apply("network", [1], {"links": ["controller", "replication"]})
    with pytest.raises(CapabilityMissing, match="power"):
        agent.apply("power", [1])
    with pytest.raises(ValueError, match="this backend has no means fire; it has: network, process"):
        agent.apply("fire", [1])


@pytest.mark.parametrize("change", ["gone", "another", "renamed"])
def test_other_containers_than_at_the_start_end_the_cluster(
    change: str, engine: FakeEngine, keep: Callable[..., Agent]
) -> None:
    agent = keep()
    agent.observe()
    assert agent.failure() == ""
    if change == "another":
        engine.add("kafka-4", 4)
    else:
        container = engine.containers.pop("kafka-3")
        if change == "renamed":
            engine.containers["kafka-3"] = container | {"Name": "/kafka-9"}
    agent.observe()
    assert "the containers of the cluster are others now" in agent.failure()


def test_the_end_of_an_agent_heals(engine: FakeEngine, keep: Callable[..., Agent]) -> None:
    agent = keep()
    agent.send(1, "SIGSTOP")
    with pytest.raises(GatewayRefused, match="run holds the lease"):
        keep()
    agent.end_cluster()
    assert engine.state("kafka-1") == "running"


def started(gateway: Gateway, workspace: Path, monkeypatch: pytest.MonkeyPatch, **more: float) -> Cluster:
    """Starts a cluster agent process of a short lease at the gateway, and freezes broker 1."""
    for name, value in gateway.environment.items():
        monkeypatch.setenv(name, value)
    spec = agent_spec(workspace, **more)
    start_agent(docker_agent.__name__, spec)
    cluster = Cluster(DockerCluster(workspace))
    cluster.agent.apply("process", [1], {"signal": "SIGSTOP"})
    assert cluster.states() == {1: "frozen", 2: "running", 3: "running"}
    return cluster


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["killed", "frozen", "started anew"])
def test_the_death_or_a_hang_of_the_gateway_ends_the_run_without_a_verdict(
    fate: str, engine: FakeEngine, own_gateway: GatewayProcess, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, gateway = started(own_gateway, workspace, monkeypatch), own_gateway
    with pytest.raises(lease.ClusterGone), lease.renewed(cluster.socket) as gone:  # as every step of a run does
        gateway.send(signal.SIGSTOP if fate == "frozen" else signal.SIGKILL)
        if fate == "started anew":
            gateway.start()
        wait_until(gone.is_set, "the step to learn of it", PATIENCE_S)
        raise RuntimeError("the step fails, whatever else it found")
    wait_until(lambda: not workspace.exists(), "the cluster agent to end", PATIENCE_S)
    with pytest.raises(lease.ClusterGone):
        DockerCluster(workspace)
    if fate == "frozen":
        gateway.send(signal.SIGCONT)
    elif fate == "killed":
        gateway.start()
    wait_until(lambda: engine.state("kafka-1") == "running", "the broker to be healed", PATIENCE_S)


@pytest.mark.slow
def test_brokers_are_healed_when_every_task_and_then_the_agent_are_killed(
    engine: FakeEngine,
    gateway: Gateway,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    pass_time: Callable[[float], None],
) -> None:
    """The cluster agent ends when no task renews its lease. The gateway heals even if the cluster agent is killed."""
    cluster = started(gateway, workspace, monkeypatch, lease_s=6.0)
    wait_until(lambda: engine.state("kafka-1") == "running", "the cluster agent to end the lease", PATIENCE_S)
    wait_until(lambda: not workspace.exists(), "the workspace to be removed", PATIENCE_S)
    workspace.mkdir()
    agent = Agent(agent_spec(workspace), gateway.client())  # lives in this process, and renews nothing more
    agent.send(2, "SIGKILL")
    assert engine.state("kafka-2") == "exited"
    pass_time(docker_agent.GATEWAY_LEASE_S)
    wait_until(lambda: engine.state("kafka-2") == "running", "the gateway's lease to run out", PATIENCE_S)
    agent.observe()
    assert "this lease does not run" in agent.failure()
    with pytest.raises(lease.ClusterGone):
        cluster.states()
