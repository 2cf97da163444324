"""Tests of what the docker backend says that it lacks. It compares the composed cluster with that of a scenario."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from support.doors import Door
from support.evidence import RUN
from support.fake_engine import FakeEngine

from delivery_verifier import catalogue
from delivery_verifier.catalogue_run import begin
from delivery_verifier.cluster.backend import Lack, StartRequest
from delivery_verifier.cluster.backends import BACKENDS, backend_of, default_backend, default_name
from delivery_verifier.cluster.broker_settings import settings_of
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.docker import backend, composed
from delivery_verifier.cluster.docker.backend import BACKEND
from delivery_verifier.cluster.protocol import features
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import ClusterSpec
from delivery_verifier.planning import preflight
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.explanation import describe

SPEC = ClusterSpec(backend="docker")


@pytest.fixture
def at_the_door(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**door.environment, "KDV_BOOTSTRAP_SERVERS": "127.0.0.1:1"}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the composed brokers report: settings, features, ids. A test may change it."""
    answers = {"settings": settings_of(SPEC), "elr": 1, "brokers": [1, 2, 3]}

    def describe_configs(resources: list[Any], **_: object) -> dict[Any, Any]:
        assert len(resources) == 1, "librdkafka takes one broker per call"
        settings = {name: SimpleNamespace(value=value) for name, value in answers["settings"].items()}
        return {resource: SimpleNamespace(result=lambda timeout: settings) for resource in resources}

    def connection() -> Connection:
        return Connection({broker: Address("127.0.0.1", 1) for broker in answers["brokers"]})

    monkeypatch.setattr(composed, "connection", connection)
    monkeypatch.setattr(composed.topics, "admin", lambda _: SimpleNamespace(describe_configs=describe_configs))
    elr = {"eligible.leader.replicas.version": 1}
    monkeypatch.setattr(composed, "finalized_features", lambda address: elr if answers["elr"] else {})
    return answers


def reasons(lack: Lack | None) -> str:
    assert lack is not None and not lack.failed
    return lack.why


def test_without_the_stack_the_backend_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in backend.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert "KDV_DOOR_URL and KDV_DOOR_TOKEN and KDV_BOOTSTRAP_SERVERS not set" in reasons(BACKEND.lack())
    with pytest.raises(StepFailed, match="KDV_DOOR_URL is not set"):
        BACKEND.start(StartRequest(run_id="r", workspace="/nonexistent", deadline_s=1, spec=SPEC))


def test_a_door_that_does_not_answer_proves_no_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in backend.VARIABLES:
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    lack, misfit = BACKEND.lack(), BACKEND.misfit(SPEC)
    assert lack is not None and lack.failed and "the fault door does not answer" in lack.why
    assert misfit is not None and misfit.failed and "the fault door does not answer" in misfit.why


@pytest.mark.usefixtures("at_the_door")
def test_proxy_and_power_are_lacking_by_name_and_network_without_its_label(engine: FakeEngine) -> None:
    assert BACKEND.lack() is None and BACKEND.lack("network") is None
    assert "no proxy can stand before them" in reasons(BACKEND.lack("proxy"))
    assert "the power of a volume cannot be cut" in reasons(BACKEND.lack("power"))
    del engine.networks["tested_replication"]
    assert "kafka-1, kafka-2, kafka-3: no network that may be cut" in reasons(BACKEND.lack("network"))
    assert BACKEND.lack() is None
    engine.containers = {}
    assert "the fault door sees no container of a broker" in reasons(BACKEND.lack())


@pytest.mark.usefixtures("at_the_door")
@pytest.mark.parametrize(
    ("change", "spec", "why"),
    [
        ({}, SPEC, ""),
        ({}, ClusterSpec(session_timeout_ms=6000), "its broker.session.timeout.ms is 3000, not 6000"),
        ({}, ClusterSpec(heartbeat_interval_ms=100), "its broker.heartbeat.interval.ms is 500, not 100"),
        ({}, ClusterSpec(kafka_version="4.2.0"), "its image is version 4.3.1"),
        ({}, ClusterSpec(elr=False), "its feature eligible.leader.replicas.version is on"),
        ({"elr": 0}, SPEC, "its feature eligible.leader.replicas.version is off"),
        ({}, ClusterSpec(broker_settings={"x.y": True}), "its x.y is None, not true"),
        ({}, ClusterSpec(brokers=1), "it has 3 brokers, not 1"),
        ({"brokers": [1, 2]}, SPEC, "its brokers call themselves [1, 2], and its containers [1, 2, 3]"),
        ({"brokers": [1, 2, 4]}, SPEC, "its brokers call themselves [1, 2, 4], and its containers [1, 2, 3]"),
        (
            {"settings": settings_of(SPEC) | {"auto.leader.rebalance.enable": "true"}},
            SPEC,
            "its auto.leader.rebalance.enable is true, not false",
        ),
    ],
)
def test_every_difference_from_the_scenario_is_named(
    change: dict[str, Any], spec: ClusterSpec, why: str, report: dict[str, Any]
) -> None:
    report.update(change)
    misfit = BACKEND.misfit(spec)
    assert (misfit.why if misfit else "") == (f"the composed cluster is another: {why}" if why else "")


@pytest.mark.usefixtures("at_the_door", "report")
def test_a_scenario_that_asks_for_what_is_lacking_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_CLUSTER", "docker")
    host = msgspec.structs.replace(preflight.look(), unwritable=[])
    for spec, why in (
        (ClusterSpec(backend="docker", equipment=("proxy",)), "it needs proxy: composed brokers advertise"),
        (
            ClusterSpec(backend="docker", session_timeout_ms=6000),
            "is UNAVAILABLE on this host: the composed cluster is",
        ),
    ):
        with pytest.raises(preflight.Unavailable, match=why):
            preflight.require(msgspec.structs.replace(RUN, cluster=spec), host)
    texts = {name: begin.unavailable(entry) for name, entry in catalogue.ENTRIES.items()}
    assert "broker.session.timeout.ms is 3000, not 6000" in texts["acks_1.replication_cut"]
    assert texts["acks_1.isolated_leader"] == "" and "proxy: " in " ".join(texts.values())


def test_the_variable_names_the_backend_of_every_new_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KDV_CLUSTER", raising=False)
    assert default_name() == scenario_from_params({}, "r").cluster.backend == "embedded"
    monkeypatch.setenv("KDV_CLUSTER", "docker")
    scenario = scenario_from_params({}, "r")
    assert scenario.cluster.backend == "docker" and default_backend() is BACKENDS["docker"] is backend_of(SPEC)
    assert scenario_from_params({"scenario": "acks_1.isolated_leader"}, "r").cluster.backend == "docker"
    assert "cluster  the composed Apache Kafka 4.3.1: 3 brokers in containers; new topics" in describe(scenario)
    monkeypatch.setenv("KDV_CLUSTER", "dokcer")
    with pytest.raises(BadInput, match="KDV_CLUSTER is 'dokcer'"):
        default_name()


def test_only_topics_of_runs_whose_workspace_is_gone_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []

    def delete_topics(names: list[str], **_: object) -> dict[str, Any]:
        removed.extend(names)
        return {name: SimpleNamespace(result=lambda timeout: None) for name in names}

    names = ["kdv-00000000-a", "kdv-00000000-canary", "kdv-11111111-a", "kdv-orders", "orders", "xkdv-00000000-a"]
    listed = SimpleNamespace(topics=dict.fromkeys(names))
    client = SimpleNamespace(list_topics=lambda timeout: listed, delete_topics=delete_topics)
    monkeypatch.setattr(composed.topics, "admin", lambda _: client)
    (tmp_path / "11111111").mkdir()
    assert composed.remove_old_topics(Connection({}), tmp_path) == removed == names[:2]


def answer(*fields: tuple[int, bytes], error: int = 0) -> bytes:
    """An ApiVersionsResponse v3 with one API key and these tagged fields."""
    keys = b"\x02" + struct.pack(">hhh", 18, 0, 4) + b"\0"
    tags = bytes([len(fields)]) + b"".join(bytes([tag, len(data)]) + data for tag, data in fields)
    return struct.pack(">ih", 6, error) + keys + struct.pack(">i", 0) + tags


def feature(name: bytes, level: int) -> bytes:
    return bytes([len(name) + 1]) + name + struct.pack(">hh", level, 0) + b"\0"


def test_finalized_features_are_read_behind_other_tagged_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    supported = (0, b"\x02" + feature(b"kraft.version", 1))
    finalized = (2, b"\x03" + feature(b"metadata.version", 30) + feature(b"eligible.leader.replicas.version", 1))
    told: dict[str, Callable[[], bytes]] = {"answer": lambda: answer(supported, (1, struct.pack(">q", 7)), finalized)}
    monkeypatch.setattr(features, "call", lambda address, request, timeout_s: told["answer"]())
    address = Address("h", 1)
    assert features.finalized_features(address) == {"metadata.version": 30, "eligible.leader.replicas.version": 1}
    told["answer"] = lambda: answer(supported)
    assert features.finalized_features(address) == {}
    for broken in (answer(supported, error=35), answer(supported, finalized)[:-4]):
        told["answer"] = lambda data=broken: data  # type: ignore[misc]
        with pytest.raises(ConnectionError, match="gave no answer that can be read"):
            features.finalized_features(address)
