"""Tests of backends, the programs that run a cluster. The fake backend passes the checks for all backends. The keeper
answers only the requests of its protocol. An error names what is missing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from support import backend_contract
from support.evidence import RUN
from support.fake_backend import FakeBackend
from support.fake_cluster import FakeCluster

from delivery_verifier.cluster import backends, lease, topics
from delivery_verifier.cluster.backend import Backend, Lack, RunningCluster
from delivery_verifier.cluster.backends import BACKENDS, backend_of
from delivery_verifier.cluster.embedded.keeper import Keeper
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.keeper_client import keeper_at
from delivery_verifier.cluster.keeper_operations import OPERATIONS, KeeperOperations
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.command_line import main as cli
from delivery_verifier.faults.targets import Targets
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import ClusterSpec


@pytest.mark.parametrize("check", backend_contract.CHECKS, ids=lambda check: check.__name__)
def test_the_fake_keeps_the_contract_of_a_backend(check: Callable[[Cluster, str], None]) -> None:
    fake: RunningCluster = (running := FakeCluster())
    running.set_partition("topic", 0, leader=2)
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
    assert set(OPERATIONS) == {
        *("renew", "status", "start", "send", "isolate", "rejoin", "cut_off", "power_off", "watch", "adopt", "finish")
    }


def test_a_request_to_a_keeper_names_its_arguments_and_has_the_type_of_the_protocol(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, dict[str, object]]] = []

    def call(socket: Path, operation: str, **arguments: object) -> object:
        asked.append((operation, arguments))
        return {"1": {"controller": 7}}

    monkeypatch.setattr(lease, "call", call)
    assert keeper_at(Path("s")).cut_off() == {1: {"controller": 7}}
    with pytest.raises(msgspec.ValidationError):
        keeper_at(Path("s")).send(1, signal_name="SIGKILL")
    assert asked == [("cut_off", {}), ("send", {"node": 1, "signal_name": "SIGKILL"})]
    with pytest.raises(AttributeError):
        keeper_at(Path("s")).clean_up()  # type: ignore[attr-defined]


CHECKED = {"embedded": "kafka/shared_cluster/test_backend_contract.py", "docker": "compose/test_docker_backend.py"}
"""For each backend, the test module that applies the checks of support.backend_contract to it."""


def test_every_backend_goes_through_the_checks_of_the_contract() -> None:
    assert set(CHECKED) == set(BACKENDS)
    for module in CHECKED.values():
        assert "backend_contract" in (Path(__file__).parents[2] / module).read_text()


def test_an_unknown_backend_is_refused_and_names_those_that_there_are() -> None:
    with pytest.raises(BadInput, match=r"cluster\.backend is 'nowhere'; allowed: embedded"):
        backend_of(ClusterSpec(backend="nowhere"))


def test_a_scenario_whose_backend_cannot_run_here_is_unavailable_and_starts_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    absent: Backend = FakeBackend({None: Lack("no containers: install them")})
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
