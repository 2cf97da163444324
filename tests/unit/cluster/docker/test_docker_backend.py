"""Tests of what the docker backend says that it lacks. It compares the composed cluster with that of a scenario."""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from support.broker_answers import answered
from support.evidence import RUN
from support.fake_engine import ADVERTISED, FakeEngine
from support.gateways import Gateway

from delivery_verifier import catalogue
from delivery_verifier.catalogue.parts import AT_ONCE, step
from delivery_verifier.cluster.backend import StartRequest, Unavailability
from delivery_verifier.cluster.backends import BACKENDS, backend_of, default_backend, default_name
from delivery_verifier.cluster.broker_settings import settings_of
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.docker import backend, composed
from delivery_verifier.cluster.docker.backend import BACKEND
from delivery_verifier.cluster.docker.leases import LeasedEngine
from delivery_verifier.cluster.protocol import requests
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import ClusterSpec
from delivery_verifier.pipeline.steps import plan
from delivery_verifier.planning import preflight
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.explanation import describe
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.suite import begin, selection

SPEC = ClusterSpec(backend="docker")
COMPOSE_FILE = Path(__file__).resolve().parents[4] / "docker-compose.yml"


@pytest.fixture
def no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway heals only when it is asked to."""

    async def watch(leased: LeasedEngine) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(LeasedEngine, "watch", watch)


@pytest.fixture
def at_the_gateway(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**gateway.environment, "KDV_BOOTSTRAP_SERVERS": "127.0.0.1:1"}.items():
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
        up = answers["brokers"]() if callable(answers["brokers"]) else answers["brokers"]
        return Connection({broker: Address("127.0.0.1", 1) for broker in up})

    monkeypatch.setattr(composed, "connection", connection)
    monkeypatch.setattr(composed.topics, "admin", lambda _: SimpleNamespace(describe_configs=describe_configs))
    elr = {"eligible.leader.replicas.version": 1}
    monkeypatch.setattr(composed.BrokerRequests, "finalized_features", lambda *_: elr if answers["elr"] else {})
    return answers


def reasons(unavailable: Unavailability | None) -> str:
    assert unavailable is not None and not unavailable.failed
    return unavailable.why


def test_without_the_stack_the_backend_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in backend.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert "KDV_GATEWAY_URL and KDV_GATEWAY_TOKEN and KDV_BOOTSTRAP_SERVERS not set" in reasons(BACKEND.unavailable())
    with pytest.raises(StepFailed, match="KDV_GATEWAY_URL is not set"):
        BACKEND.start(StartRequest(run_id="r", workspace="/nonexistent", deadline_s=1, spec=SPEC))


def test_a_gateway_that_does_not_answer_proves_no_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in backend.VARIABLES:
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    unavailable, unsupported = BACKEND.unavailable(), BACKEND.unsupported(SPEC)
    assert unavailable is not None and unavailable.failed and "the fault gateway does not answer" in unavailable.why
    assert unsupported is not None and unsupported.failed and "the fault gateway does not answer" in unsupported.why


@pytest.mark.usefixtures("at_the_gateway")
def test_proxy_and_power_are_lacking_by_name_and_network_without_its_label(engine: FakeEngine) -> None:
    assert BACKEND.unavailable() is None and BACKEND.unavailable("network") is None
    assert "no proxy can stand before them" in reasons(BACKEND.unavailable("proxy"))
    assert "the power of a volume cannot be cut" in reasons(BACKEND.unavailable("power"))
    del engine.networks["tested_replication"]
    assert "kafka-1, kafka-2, kafka-3: no network that may be cut" in reasons(BACKEND.unavailable("network"))
    assert BACKEND.unavailable() is None
    engine.containers = {}
    assert "the fault gateway sees no container of a broker" in reasons(BACKEND.unavailable())


@pytest.mark.usefixtures("at_the_gateway")
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
    unsupported = BACKEND.unsupported(spec)
    assert (unsupported.why if unsupported else "") == (f"the composed cluster is another: {why}" if why else "")


@pytest.mark.usefixtures("at_the_gateway", "report")
@pytest.mark.parametrize(
    ("image", "why"),
    [
        ("mirror.example:5000/kafka:4.3.1@sha256:00ff", ""),
        ("mirror.example:5000/kafka:4.2.0@sha256:00ff", "its image is version 4.2.0"),
        ("apache/kafka@sha256:00ff", "its image is version unknown (apache/kafka@sha256:00ff has no tag)"),
        ("mirror.example:5000/kafka", "its image is version unknown (mirror.example:5000/kafka has no tag)"),
    ],
)
def test_the_version_is_the_tag_of_the_image_with_or_without_a_digest(image: str, why: str, engine: FakeEngine) -> None:
    for broker in (1, 2, 3):
        engine.containers[f"kafka-{broker}"]["Config"]["Image"] = image
    unsupported = BACKEND.unsupported(SPEC)
    assert (unsupported.why if unsupported else "") == (f"the composed cluster is another: {why}" if why else "")


@pytest.mark.usefixtures("at_the_gateway")
def test_a_run_notes_the_content_of_the_brokers_image(
    engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_CLUSTER", "docker")
    monkeypatch.setenv("KDV_RUNS", str(tmp_path))
    monkeypatch.setattr(plan.lease, "require_free_host", lambda: None)
    monkeypatch.setattr(plan.preflight, "require", lambda scenario: None)
    engine.containers["kafka-3"]["Image"] = "sha256:4312"
    versions = RunDirectory(plan.plan_from_params({"fault": "none"}, "noted")).read_scenario().versions
    assert versions["kafka-image"] == "sha256:4311, sha256:4312" and versions["kafka"] == "4.3.1"


@pytest.mark.usefixtures("no_watch", "at_the_gateway")
def test_what_is_down_between_runs_is_healed_before_the_comparison(engine: FakeEngine, report: dict[str, Any]) -> None:
    engine.containers["kafka-2"]["State"]["Status"] = "exited"
    engine.containers["kafka-3"]["State"]["Status"] = "paused"
    report["brokers"] = lambda: [broker for broker in (1, 2, 3) if engine.state(f"kafka-{broker}") == "running"]
    assert BACKEND.unsupported(SPEC) is None
    assert [name for name, _ in engine.changes] == ["start kafka-2", "unpause kafka-3"]


@pytest.mark.usefixtures("no_watch", "at_the_gateway")
@pytest.mark.parametrize("held", [False, True])
def test_a_broker_that_stays_down_is_a_failure_and_no_other_cluster(
    held: bool, engine: FakeEngine, gateway: Gateway, report: dict[str, Any]
) -> None:
    if held:
        gateway.client().begin("another run", 60)
    else:
        engine.broken = {"start"}
    engine.containers["kafka-2"]["State"]["Status"] = "exited"
    report["brokers"] = [1, 3]
    unsupported = BACKEND.unsupported(SPEC)
    assert (
        unsupported is not None
        and unsupported.failed
        and "kafka-2 not up: look at docker compose ps" in unsupported.why
    )
    assert engine.changes == []
    with pytest.raises(preflight.Unfit, match=r"cannot be run now: .*kafka-2 not up") as raised:
        preflight.require(msgspec.structs.replace(RUN, cluster=SPEC))
    assert not isinstance(raised.value, preflight.Unavailable)


@pytest.mark.usefixtures("at_the_gateway", "report")
@pytest.mark.parametrize(
    ("links", "why"),
    [
        ({}, ""),
        ({"links": "replication, controller"}, ""),
        ({"links": "replication"}, "together, not replication"),
        ({"links": "client,controller,replication"}, "together, not client and controller and replication"),
    ],
)
def test_a_plan_that_cuts_links_which_no_container_can_lose_alone_is_unavailable(
    links: dict[str, str], why: str
) -> None:
    own = FaultPlan(name="own", summary="s", duration_s=1, steps=(step(AT_ONCE, "isolate", "leader", **links),))
    unsupported = BACKEND.unsupported(SPEC, own)
    assert why in unsupported.why and not unsupported.failed if unsupported else not why
    if why:
        with pytest.raises(preflight.Unavailable, match=why):
            preflight.require(msgspec.structs.replace(RUN, cluster=SPEC, fault=own))


@pytest.mark.usefixtures("at_the_gateway")
def test_a_broker_that_the_others_also_reach_on_another_network_cannot_be_cut_off(engine: FakeEngine) -> None:
    container = engine.containers["kafka-1"]
    environment, networks = container["Config"]["Env"], container["NetworkSettings"]["Networks"]
    listeners = f"KAFKA_ADVERTISED_LISTENERS={ADVERTISED.format('kafka-1')}"
    for key in ("Aliases", "DNSNames"):
        networks["tested_kafka"] = {key: ["kafka-1.replication"]}
        assert "kafka-1: its name kafka-1.replication leads to the network tested_kafka" in reasons(
            BACKEND.unavailable("network")
        )
    networks["tested_kafka"] = {"Aliases": ["kafka-1"]}
    assert BACKEND.unavailable("network") is None
    environment[environment.index(listeners)] = "KAFKA_ADVERTISED_LISTENERS=CLIENT://kafka-1:9092,REPL://kafka-1:9093"
    assert "kafka-1: its listener REPL advertises kafka-1, not kafka-1.replication" in reasons(
        BACKEND.unavailable("network")
    )
    assert BACKEND.unavailable() is None


@pytest.mark.slow
@pytest.mark.usefixtures("at_the_gateway", "report")
def test_the_composition_expects_to_be_unavailable_what_its_catalogue_cannot_run_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KDV_CLUSTER", "docker")
    text = re.search(r"\$\{KDV_EXPECT_UNAVAILABLE:-([^}]*)\}", COMPOSE_FILE.read_text())
    assert text is not None
    words = selection.expectable(text[1])
    all_unavailable = {name: begin._lacks(entry) for name, entry in catalogue.ENTRIES.items()}

    def unexpected(expected: tuple[str, ...]) -> list[str]:
        return [
            name
            for name, entry in catalogue.ENTRIES.items()
            if all_unavailable[name] and not selection.expects(expected, entry, all_unavailable[name])
        ]

    assert unexpected(words) == []
    assert not any(unavailable.failed for each in all_unavailable.values() for unavailable in each.values())
    superfluous = [word for word in words if not unexpected(tuple(other for other in words if other != word))]
    assert superfluous == []


@pytest.mark.slow
@pytest.mark.usefixtures("at_the_gateway", "report")
def test_a_scenario_that_asks_for_what_is_lacking_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_CLUSTER", "docker")
    host = msgspec.structs.replace(preflight.look(), unwritable=[])
    for spec, why in (
        (ClusterSpec(backend="docker", capabilities=("proxy",)), "it needs proxy: composed brokers advertise"),
        (
            ClusterSpec(backend="docker", session_timeout_ms=6000),
            "is UNAVAILABLE on this host: the composed cluster is",
        ),
    ):
        with pytest.raises(preflight.Unavailable, match=why):
            preflight.require(msgspec.structs.replace(RUN, cluster=spec), host)
    texts = {name: begin.unavailable(entry) for name, entry in catalogue.ENTRIES.items()}
    assert "broker.session.timeout.ms is 3000, not 6000" in texts["acks_1.replication_cut"]
    assert "together, not replication" in texts["acks_1.replication_cut"]
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
    answered(monkeypatch, lambda _: told["answer"]())
    brokers = requests.BrokerRequests(Connection({1: Address("h", 1)}))
    assert brokers.finalized_features(1) == {"metadata.version": 30, "eligible.leader.replicas.version": 1}
    told["answer"] = lambda: answer(supported)
    assert brokers.finalized_features(1) == {}
    for broken in (answer(supported, error=35), answer(supported, finalized)[:-4]):
        told["answer"] = lambda data=broken: data  # type: ignore[misc]
        with pytest.raises(ConnectionError, match="gave no answer that can be read"):
            brokers.finalized_features(1)
