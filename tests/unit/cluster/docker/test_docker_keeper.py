"""Tests of the keeper of composed brokers. It does what a keeper does through the fault door, and ends the run's
cluster when the door dies, hangs or was started anew. So such a run has no verdict."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support.doors import Door, DoorProcess
from support.fake_engine import NETWORK, FakeEngine
from support.patience import PATIENCE_S

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.backend import CapabilityMissing
from delivery_verifier.cluster.docker import keeper as docker_keeper
from delivery_verifier.cluster.docker.cluster import DockerCluster, DockerLayout
from delivery_verifier.cluster.docker.door_client import DoorRefused
from delivery_verifier.cluster.docker.keeper import DockerKeeperSpec, Keeper
from delivery_verifier.cluster.docker.means import network
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.keeper import start_keeper
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


def keeper_spec(workspace: Path, *equipment: Capability, lease_s: float = 60.0) -> DockerKeeperSpec:
    layout = DockerLayout(
        spec=ClusterSpec(backend="docker", equipment=equipment),
        containers=CONTAINERS,
        addresses=dict.fromkeys((1, 2, 3), ("127.0.0.1", 1)),
    )
    return DockerKeeperSpec(run_id="run", workspace=str(workspace), deadline_s=3000, layout=layout, lease_s=lease_s)


@pytest.fixture
def keep(workspace: Path, door: Door) -> Callable[..., Keeper]:
    return lambda *equipment: Keeper(keeper_spec(workspace, *equipment), door.client())


def recorded(keeper: Keeper) -> list[tuple[int, str, int | None]]:
    """The observer's record: node, state and exit code."""
    lines = (keeper.workspace / "observations.jsonl").read_text().splitlines()
    return [(entry["broker"], entry["state"], entry.get("exit_code")) for entry in map(json.loads, lines)]


def test_signals_become_operations_of_the_door_and_are_observed(
    engine: FakeEngine, keep: Callable[..., Keeper]
) -> None:
    keeper = keep()
    keeper.observe()
    assert keeper.send(1, "SIGSTOP") > 0
    assert keeper.status().nodes[1].state == "frozen"
    keeper.send(1, "SIGSTOP")
    with pytest.raises(ValueError, match="broker 1 is frozen"):
        keeper.send(1, "SIGTERM")
    keeper.send(1, "SIGKILL")
    assert (keeper.status().nodes[1].state, keeper.status().nodes[1].exit_code) == ("exited", -9)
    with pytest.raises(ValueError, match="broker 1 is not running"):
        keeper.send(1, "SIGCONT")
    keeper.start(1)
    keeper.send(1, "SIGCONT")
    with pytest.raises(ValueError, match="broker 2 is already running"):
        keeper.start(2)
    keeper.send(2, "SIGTERM")
    keeper.observe()
    assert [name for name, _ in engine.changes] == ["pause kafka-1", "kill kafka-1", "start kafka-1", "kill kafka-2"]
    assert recorded(keeper)[4:] == [
        (1, "frozen", None),
        (1, "exited", -9),
        (1, "running", None),
        (2, "exited", 143),
    ]
    assert keeper.failure() == ""


def test_a_broker_that_the_kernel_has_not_frozen_in_time_is_frozen_by_another_attempt_whose_time_counts(
    engine: FakeEngine, keep: Callable[..., Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the time of the first attempt counted, records that met no frozen broker would count as exposed to the
    fault."""
    keeper, engine.unfrozen, times = keep(), 2, iter((10, 20, 30))
    monkeypatch.setattr(docker_keeper, "now_us", lambda: next(times))
    assert keeper.send(1, "SIGSTOP") == 30
    assert (engine.unfrozen, engine.state("kafka-1")) == (0, "paused")


def test_a_broker_that_cannot_be_frozen_is_an_error_with_the_reason_of_the_engine(
    engine: FakeEngine, keep: Callable[..., Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, engine.unfrozen = keep(), 2
    with monkeypatch.context() as patch, pytest.raises(DeadlinePassed, match=r"pause of broker 1: .*unable to freeze"):
        patch.setattr(docker_keeper, "FREEZES_WITHIN_S", 0.0)
        keeper.send(1, "SIGSTOP")
    with monkeypatch.context() as patch, pytest.raises(DoorRefused, match="unable to freeze"):
        patch.setattr(docker_keeper, "NOT_FROZEN", "another reason")
        keeper.send(1, "SIGSTOP")
    assert (engine.unfrozen, engine.state("kafka-1")) == (0, "running")


def test_a_broker_that_ended_and_began_again_between_two_looks_is_observed(
    engine: FakeEngine, keep: Callable[..., Keeper]
) -> None:
    keeper = keep()
    keeper.observe()
    engine.containers["kafka-2"]["State"]["StartedAt"] = "later"
    keeper.observe()
    assert recorded(keeper)[4:] == [(2, "exited", None), (2, "running", None)]


def test_an_isolated_broker_is_off_its_network_and_counts_the_looks(
    engine: FakeEngine, keep: Callable[..., Keeper]
) -> None:
    keeper = keep("network")
    with pytest.raises(ValueError, match="docker cuts the links controller and replication together"):
        keeper.apply("network", [1], {"links": ["replication"]})
    assert keeper.is_in_force("network", [1, 2, 3]) == {} and engine.changes == []
    assert keeper.apply("network", [1], {"links": ["controller", "replication"]}) > 0
    assert engine.state("kafka-1") == "running, cut off"
    first, second = keeper.is_in_force("network", [1, 2, 3]), keeper.is_in_force("network", [1, 2, 3])
    assert (first, second) == ({1: {"controller": 1, "replication": 1}}, {1: {"controller": 2, "replication": 2}})
    with pytest.raises(ValueError, match=r"brokers \[1\] are cut off already"):
        keeper.apply("network", [1], {"links": ["controller", "replication"]})
    engine.containers["kafka-1"]["NetworkSettings"]["Networks"][NETWORK] = {}  # somebody else connected it
    assert keeper.is_in_force("network", [1, 2, 3]) == {}
    keeper.undo("network", [1])
    keeper.apply("network", [2], {"links": ["controller", "replication"]})
    keeper.undo("network", [1, 2])
    assert keeper.is_in_force("network", [1, 2, 3]) == {} and engine.state("kafka-2") == "running"


def test_a_broker_that_the_others_still_see_long_after_the_cut_is_not_isolated(
    engine: FakeEngine, keep: Callable[..., Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "FENCED_WITHIN_S", -3.0)  # its session is over at once
    keeper, live, asked = keep("network"), {1, 2, 3}, list[int]()

    def live_brokers(broker: int) -> set[int]:
        asked.append(broker)
        if broker == 2:
            raise OSError("does not answer")
        return live

    monkeypatch.setattr(keeper.requests, "live_brokers", live_brokers)
    keeper.apply("network", [1], {"links": ["controller", "replication"]})
    assert keeper.is_in_force("network", [1, 2, 3]) == {1: {"controller": 0, "replication": 0}}, (
        "it has another way to the controller"
    )
    live = {2, 3}
    assert all(keeper.is_in_force("network", [1, 2, 3])[1].values())
    assert set(asked) == {2, 3}, "an isolated broker is no witness"
    engine.containers["kafka-3"]["State"]["Status"] = "paused"
    assert keeper.is_in_force("network", [1, 2, 3]) == {1: {"controller": 0, "replication": 0}}, "nobody can tell"


def test_what_the_run_did_not_ask_for_is_refused(keep: Callable[..., Keeper]) -> None:
    keeper = keep()
    with pytest.raises(CapabilityMissing, match="network"):
        keeper.apply("network", [1], {"links": ["controller", "replication"]})
    with pytest.raises(CapabilityMissing, match="power"):
        keeper.apply("power", [1])
    with pytest.raises(ValueError, match="this backend has no means fire; it has: network, process"):
        keeper.apply("fire", [1])


@pytest.mark.parametrize("change", ["gone", "another", "renamed"])
def test_other_containers_than_at_the_start_end_the_cluster(
    change: str, engine: FakeEngine, keep: Callable[..., Keeper]
) -> None:
    keeper = keep()
    keeper.observe()
    assert keeper.failure() == ""
    if change == "another":
        engine.add("kafka-4", 4)
    else:
        container = engine.containers.pop("kafka-3")
        if change == "renamed":
            engine.containers["kafka-3"] = container | {"Name": "/kafka-9"}
    keeper.observe()
    assert "the containers of the cluster are others now" in keeper.failure()


def test_the_end_of_a_keeper_heals(engine: FakeEngine, keep: Callable[..., Keeper]) -> None:
    keeper = keep()
    keeper.send(1, "SIGSTOP")
    with pytest.raises(DoorRefused, match="run holds the lease"):
        keep()
    keeper.end_cluster()
    assert engine.state("kafka-1") == "running"


def started(door: Door, workspace: Path, monkeypatch: pytest.MonkeyPatch, **more: float) -> Cluster:
    """Starts a keeper process of a short lease at the door, and freezes broker 1."""
    for name, value in door.environment.items():
        monkeypatch.setenv(name, value)
    spec = keeper_spec(workspace, **more)
    start_keeper(docker_keeper.__name__, spec)
    cluster = Cluster(DockerCluster(workspace))
    cluster.agent.apply("process", [1], {"signal": "SIGSTOP"})
    assert cluster.states() == {1: "frozen", 2: "running", 3: "running"}
    return cluster


@pytest.mark.slow
@pytest.mark.parametrize("fate", ["killed", "frozen", "started anew"])
def test_the_death_or_a_hang_of_the_door_ends_the_run_without_a_verdict(
    fate: str, engine: FakeEngine, own_door: DoorProcess, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, door = started(own_door, workspace, monkeypatch), own_door
    with pytest.raises(lease.ClusterGone), lease.renewed(cluster.socket) as gone:  # as every step of a run does
        door.send(signal.SIGSTOP if fate == "frozen" else signal.SIGKILL)
        if fate == "started anew":
            door.start()
        wait_until(gone.is_set, "the step to learn of it", PATIENCE_S)
        raise RuntimeError("the step fails, whatever else it found")
    wait_until(lambda: not workspace.exists(), "the keeper to end", PATIENCE_S)
    with pytest.raises(lease.ClusterGone):
        DockerCluster(workspace)
    if fate == "frozen":
        door.send(signal.SIGCONT)
    elif fate == "killed":
        door.start()
    wait_until(lambda: engine.state("kafka-1") == "running", "the broker to be healed", PATIENCE_S)


@pytest.mark.slow
def test_brokers_are_healed_when_every_task_and_then_the_keeper_are_killed(
    engine: FakeEngine,
    door: Door,
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    pass_time: Callable[[float], None],
) -> None:
    """The keeper ends when no task renews its lease. The door heals even if the keeper is killed."""
    cluster = started(door, workspace, monkeypatch, lease_s=6.0)
    wait_until(lambda: engine.state("kafka-1") == "running", "the keeper to end the lease", PATIENCE_S)
    wait_until(lambda: not workspace.exists(), "the workspace to be removed", PATIENCE_S)
    workspace.mkdir()
    keeper = Keeper(keeper_spec(workspace), door.client())  # lives in this process, and renews nothing more
    keeper.send(2, "SIGKILL")
    assert engine.state("kafka-2") == "exited"
    pass_time(docker_keeper.DOOR_LEASE_S)
    wait_until(lambda: engine.state("kafka-2") == "running", "the door's lease to run out", PATIENCE_S)
    keeper.observe()
    assert "this lease does not run" in keeper.failure()
    with pytest.raises(lease.ClusterGone):
        cluster.states()
