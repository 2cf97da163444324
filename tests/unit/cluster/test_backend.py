"""Tests of backends, the programs that run a cluster. The fake backend passes the checks for all backends. The keeper
answers only the requests of its protocol. An error names what is missing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import backend_contract
from support.evidence import RUN
from support.fake_backend import FakeBackend
from support.fake_cluster import FakeCluster
from support.observing_backend import ObservingBackend, ObservingCluster
from support.patience import PATIENCE_S

from delivery_verifier.catalogue import FAULTS
from delivery_verifier.cluster import backends, lease, topics
from delivery_verifier.cluster.backend import (
    Breakable,
    BreakableCluster,
    Lack,
    Observed,
    ObservedCluster,
    Owned,
    OwnedCluster,
)
from delivery_verifier.cluster.backends import BACKENDS, backend_of
from delivery_verifier.cluster.embedded.keeper import Keeper
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.keeper_client import keeper_at
from delivery_verifier.cluster.keeper_operations import OPERATIONS, KeeperOperations
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.cluster.watcher import Watcher, WatcherSpec
from delivery_verifier.command_line import main as cli
from delivery_verifier.faults.action import ActionContext
from delivery_verifier.faults.actions import ACTIONS, heal
from delivery_verifier.faults.targets import Targets
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import ClusterSpec


@pytest.mark.parametrize("check", backend_contract.CHECKS, ids=lambda check: check.__name__)
def test_the_fake_keeps_the_contract_of_a_backend(check: Callable[[Cluster, str], None]) -> None:
    (fake := FakeCluster()).set_partition("topic", 0, leader=2)
    check(Cluster(fake), "topic")


def test_a_fake_that_is_stopped_leaves_nothing() -> None:
    backend_contract.stop_leaves_nothing(FakeCluster())


@pytest.mark.parametrize("request_name", [name for name in vars(BrokerRequests) if not name.startswith("_")])
def test_the_fake_answers_every_request_to_a_broker(request_name: str) -> None:
    answered, sent = (inspect.signature(getattr(owner, request_name)) for owner in (FakeCluster, BrokerRequests))
    needed = [name for name, parameter in sent.parameters.items() if parameter.default is parameter.empty]
    assert [*answered.parameters] == needed


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_keeper_takes_the_arguments_that_the_protocol_names(operation: str) -> None:
    served, declared = (inspect.signature(getattr(owner, operation)) for owner in (Keeper, KeeperOperations))
    assert served == declared


def test_the_operations_of_a_keeper_are_those_of_the_protocol() -> None:
    assert set(OPERATIONS) == {*("renew", "status", "apply", "undo", "is_in_force", "watch", "adopt", "finish")}


def test_a_request_to_a_keeper_names_its_arguments_and_has_the_type_of_the_protocol(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, dict[str, object]]] = []

    def call(socket: Path, operation: str, **arguments: object) -> object:
        asked.append((operation, arguments))
        return {"1": {"controller": 7}}

    monkeypatch.setattr(lease, "call", call)
    assert keeper_at(Path("s")).is_in_force("network", nodes=[1]) == {1: {"controller": 7}}
    with pytest.raises(msgspec.ValidationError):
        keeper_at(Path("s")).apply("process", [1], {"signal": "SIGKILL"})
    assert asked == [
        ("is_in_force", {"means": "network", "nodes": [1]}),
        ("apply", {"means": "process", "nodes": [1], "options": {"signal": "SIGKILL"}}),
    ]
    with pytest.raises(AttributeError):
        keeper_at(Path("s")).clean_up()  # type: ignore[attr-defined]


CHECKED = {
    "embedded": "kafka/shared_cluster/test_backend_contract.py",
    "docker": "compose/test_docker_backend.py",
    "external": "kafka/own_cluster/test_external_backend.py",
}
"""For each backend, the test module that applies the checks of support.backend_contract to it."""


PARTS = {"OBSERVED": Observed, "OWNED": Owned, "BREAKABLE": Breakable}


def test_every_backend_goes_through_the_checks_of_what_it_is() -> None:
    assert set(CHECKED) == set(BACKENDS)
    for name, module in CHECKED.items():
        text = (Path(__file__).parents[2] / module).read_text()
        parts = [part for part, kind in PARTS.items() if isinstance(BACKENDS[name], kind)]
        assert (
            "backend_contract.CHECKS" in text
            if len(parts) == len(PARTS)
            else all(f"backend_contract.{part}" in text for part in parts)
        )


def test_a_backend_is_what_it_implements_and_no_more() -> None:
    kinds = (ObservedCluster, OwnedCluster, BreakableCluster)
    assert [isinstance(FakeCluster(), kind) for kind in kinds] == [True, True, True]
    assert [isinstance(ObservingCluster, kind) for kind in PARTS.values()] == [False, False, False]
    assert [isinstance(ObservingBackend(), kind) for kind in PARTS.values()] == [True, False, False]


class OnlyObserved:
    """The brokers of a fake, of which nobody may do more than to look at them."""

    def __init__(self, fake: FakeCluster) -> None:
        self.brokers, self.connection, self.requests = fake.brokers, fake.connection, fake.requests


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    """A cluster that is only observed. Its agent answers, and tells no node."""
    monkeypatch.setattr(lease, "call", lambda *_, **more: {"nodes": {}, "pid": 1})
    (fake := FakeCluster()).set_partition("topic", 0, leader=2)
    cluster = Cluster(OnlyObserved(fake), tmp_path)
    cluster.fake = fake  # type: ignore[attr-defined]
    return cluster


@pytest.mark.parametrize("check", backend_contract.OBSERVED, ids=lambda check: check.__name__)
def test_what_is_only_observed_keeps_the_contract_of_that(check: Callable[[Cluster, str], None], watched: Any) -> None:
    check(watched, "topic")
    assert watched.owned is watched.breakable is None


def test_a_broker_that_is_only_observed_runs_as_long_as_it_answers_and_is_never_healed(watched: Any) -> None:
    watched.fake.process_states[3] = "exited"
    assert watched.states() == {1: "running", 2: "running", 3: "silent"}
    assert not watched.isr_full(["topic"]) and "broker 3 silent" in watched.out_of_sync(["topic"])
    with pytest.raises(DeadlinePassed):
        watched.wait_up(deadline_s=0.0)
    assert heal(watched).facts == {} and watched.fake.process_states[3] == "exited" and not watched.fake.requested
    with pytest.raises(ValueError, match="a cluster that the run may break"):
        ACTIONS["sync"].do(ActionContext(watched, [1]))


@pytest.mark.parametrize("fault", [name for name, plan in FAULTS.items() if plan.name != "none"])
def test_a_backend_that_only_observes_is_unfit_for_what_breaks_brokers(fault: str) -> None:
    misfit = ObservingBackend().misfit(ClusterSpec(backend="observing"), FAULTS[fault])
    breaks = any(step.act.means for step in FAULTS[fault].steps)
    assert (misfit is not None) == breaks
    assert misfit is None or f"the fault {fault} does" in misfit.why


def test_the_agent_of_what_is_only_observed_asks_every_broker_and_breaks_none(tmp_path: Path) -> None:
    (fake := FakeCluster()).set_partition("topic", 0, leader=2)
    spec = WatcherSpec(run_id="r", workspace=str(tmp_path), deadline_s=60, backend="nowhere")
    agent = Watcher(spec, OnlyObserved(fake))
    agent.observer._requests = fake  # type: ignore[assignment]
    agent.watch(["topic"])
    agent.observer.start()
    observations = tmp_path / "observations.jsonl"
    wait_until(lambda: observations.exists() and b'"heartbeat"' in observations.read_bytes(), "a look", PATIENCE_S)
    agent.observer.stop()
    assert b'"process"' not in observations.read_bytes(), "nobody knows the processes"
    assert agent.status().nodes == {} and agent.failure() == ""
    with pytest.raises(ValueError, match="only observes its cluster: it has no means process"):
        agent._carry_out("apply", {"means": "process", "nodes": [1], "options": {"signal": "SIGKILL"}})
    with pytest.raises(ValueError, match="unknown operation 'power_off'"):
        agent._carry_out("power_off", {"nodes": [1]})
    agent.clean_up()
    assert set(fake.process_states.values()) == {"running"} and not fake.requested


def test_an_unknown_backend_is_refused_and_names_those_that_there_are() -> None:
    with pytest.raises(BadInput, match=r"cluster\.backend is 'nowhere'; allowed: embedded"):
        backend_of(ClusterSpec(backend="nowhere"))


def test_a_scenario_whose_backend_cannot_run_here_is_unavailable_and_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    absent: Observed = FakeBackend({None: Lack("no containers: install them")})
    monkeypatch.setitem(BACKENDS, "absent", absent)
    monkeypatch.setenv("KDV_HOME", str(tmp_path))
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    scenario = msgspec.structs.replace(RUN, cluster=msgspec.structs.replace(RUN.cluster, backend="absent"))
    monkeypatch.setattr("delivery_verifier.run.steps.plan.scenario_from_params", lambda params, name: scenario)
    assert cli.main(["run", "--direct"]) == 69
    assert "it needs the backend absent: no containers: install them" in capsys.readouterr().err
    assert not list((tmp_path / "runs").glob("*")) and backends.default_backend().lack() is None


def test_replicas_and_followers_are_taken_from_the_ids_of_the_brokers() -> None:
    brokers = [7, 11, 40]
    assert {broker for replicas in topics.assignment(RUN, brokers) for broker in replicas} == set(brokers)
    fake = FakeCluster(brokers)
    fake.set_partition(RUN.subjects[0].topic_name, 0, leader=11)
    assert Targets(Cluster(fake), RUN, 0).resolve("followers") == [40, 7]
