"""A connection of Airflow names a cluster: it is read as Airflow keeps it, and none of its code is ever loaded."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support import observing_backend

from delivery_verifier.cluster import agent, watcher
from delivery_verifier.cluster.backend import StartRequest
from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.security import airflow_connections, command_config, names
from delivery_verifier.cluster.security.airflow_connections import AirflowConnection
from delivery_verifier.cluster.security.names import UnsupportedSecurity
from delivery_verifier.cluster.security.reading import Access
from delivery_verifier.host.redaction import redact
from delivery_verifier.maintenance import redaction
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import ClusterSpec

VARIABLE, NAME = "AIRFLOW_CONN_KAFKA_STAGING", "airflow:kafka_staging"
SECURITY = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "u",
    "sasl.password": 'hush"-7 \xe4',
}
EXTRA = {"bootstrap.servers": "a:9093", **SECURITY, "group.id": "g", "socket.timeout.ms": 10000, "log.queue": True}


@pytest.fixture(autouse=True)
def no_other_source(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    yield
    airflow_connections.use(None)
    airflow_connections.take_over(Path("/nowhere"))


def connection(monkeypatch: pytest.MonkeyPatch, extra: object, conn_type: str = "kafka") -> None:
    monkeypatch.setenv(VARIABLE, json.dumps({"conn_type": conn_type, "extra": extra}))


@pytest.mark.parametrize("written", [EXTRA, json.dumps(EXTRA)], ids=["as data", "as a text"])
def test_the_extra_of_a_connection_has_librdkafkas_names(monkeypatch: pytest.MonkeyPatch, written: object) -> None:
    connection(monkeypatch, written)
    access = command_config.read(cluster=NAME)
    assert access.servers == (Address("a", 9093),) and access.security == SECURITY
    assert access.left_out == ("group.id", "log.queue", "socket.timeout.ms")
    assert command_config.read("b:1", cluster=NAME).servers == (Address("b", 1),)


@pytest.mark.parametrize(
    "uri",
    [
        "kafka://?bootstrap.servers=a%3A9093&security.protocol=SSL",
        "kafka://?__extra__=%7B%22bootstrap.servers%22%3A%22a%3A9093%22%2C%22security.protocol%22%3A%22SSL%22%7D",
    ],
)
def test_a_uri_is_read_as_airflow_writes_it(monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    monkeypatch.setenv(VARIABLE, uri)
    access = command_config.read(cluster=NAME)
    assert access.servers == (Address("a", 9093),) and access.security == {"security.protocol": "SSL"}


@pytest.mark.parametrize("name", ["error_cb", "oauth_cb", "stats_cb", "throttle_cb", "log_cb", "rebalance_cb"])
def test_a_name_that_stands_for_code_is_refused_and_never_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    (tmp_path / "trap_of_a_test.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    connection(monkeypatch, {**EXTRA, name: "trap_of_a_test.hush"})
    with pytest.raises(UnsupportedSecurity, match=f"{NAME}: {name} names code, which is never loaded") as refusal:
        command_config.read(cluster=NAME)
    assert "trap_of_a_test" not in sys.modules and "hush" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"conn_type":"kafka","extra":"{hush"}', "extra is no JSON object"),
        ('{"conn_type":"kafka","extra":["hush"]}', "extra is no JSON object"),
        ('{"conn_type":"kafka","extra":{"bootstrap.servers":["hush"]}}', "bootstrap.servers is no text and no number"),
        ('{"conn_type":"kafka","extra":{"sasl.password":"hush"}}', "bootstrap.servers is missing"),
        ('{"conn_type":"kafka"}', "bootstrap.servers is missing"),
        ('{"conn_type":"aws","extra":{"bootstrap.servers":"hush:1"}}', "is 'aws'; allowed: kafka"),
        ('{"hush', f"{VARIABLE} cannot be read"),
        ("kafka://[hush", f"{VARIABLE} cannot be read"),
    ],
)
def test_what_is_no_connection_of_kafka_is_refused_without_its_values(
    monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(BadInput, match=said) as refusal:
        command_config.read(cluster=NAME)
    assert "hush" not in str(refusal.value) and refusal.value.__cause__ is None


def test_a_connection_that_is_nowhere_and_a_name_that_cannot_be_are_refused() -> None:
    with pytest.raises(BadInput, match=rf"--cluster is '{NAME}'; allowed: a connection.*Airflow, or set {VARIABLE}"):
        command_config.read(cluster=NAME)
    for cluster in ("airflow:", "airflow:../x", "airflow:a/b", f"airflow:{'x' * 99}"):
        with pytest.raises(BadInput, match=r"allowed: airflow:CONN_ID"):
            command_config.read(cluster=cluster)


def test_airflow_is_asked_first_and_other_processes_of_the_run_find_what_it_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connection(monkeypatch, {"bootstrap.servers": "of-the-environment:1"})
    asked = list[str]()

    def source(conn_id: str) -> AirflowConnection | None:
        asked.append(conn_id)
        return AirflowConnection("kafka", EXTRA) if conn_id == "kafka_staging" else None

    airflow_connections.use(source)
    told = command_config.read(cluster=NAME)
    assert told.servers == (Address("a", 9093),) and asked == ["kafka_staging"]
    airflow_connections.hand_over(tmp_path)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    airflow_connections.use(None)  # another process: it knows only the workspace
    monkeypatch.delenv(VARIABLE)
    airflow_connections.take_over(tmp_path)
    assert command_config.read(cluster=NAME) == told
    airflow_connections.use(None)
    airflow_connections.hand_over(tmp_path / "none")  # nothing was told, so nothing is written


def test_the_agent_of_a_run_finds_in_the_workspace_what_airflow_has_told_the_task(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    airflow_connections.use(lambda conn_id: AirflowConnection("kafka", EXTRA))
    asked, agents = command_config.read(cluster=NAME), list[watcher.WatcherSpec]()

    def begun(module: str, spec: watcher.WatcherSpec) -> None:
        assert [file.name for file in tmp_path.iterdir()] == ["airflow-kafka_staging.properties"]
        agents.append(spec)

    monkeypatch.setattr(watcher, "start_agent", begun)
    request = StartRequest(run_id="r", workspace=str(tmp_path), deadline_s=1.0, spec=ClusterSpec())
    watcher.start(observing_backend.BACKEND, request)
    airflow_connections.use(None)
    (tmp_path / "spec.json").write_bytes(msgspec.json.encode(agents[0]))
    monkeypatch.setattr(sys, "argv", ["watcher", str(tmp_path / "spec.json")])
    found = list[Access]()
    monkeypatch.setattr(agent, "keep", lambda spec, new: found.append(command_config.read(cluster=NAME)))
    watcher.main()
    assert found == [asked]
    assert "hush" not in (tmp_path / "spec.json").read_text()


def test_the_secrets_of_connections_are_known_to_the_redaction_and_shown_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hush-in-jaas";'
    secret = {name: f"hush of {name}" for name in names.SECRETS} | {"sasl.jaas.config": jaas}
    connection(monkeypatch, json.dumps({**EXTRA, **secret}))
    known = redaction.known_secrets()
    assert {*secret.values(), "hush-in-jaas"} <= {*known}
    assert "hush" not in redact(" ".join(secret.values()), known, by_pattern=False)[0]
    assert "hush" not in repr(AirflowConnection("kafka", {**EXTRA, **secret}))
    monkeypatch.setenv(VARIABLE, "{")
    assert not {*secret.values()} & {*redaction.known_secrets()}
