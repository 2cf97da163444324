"""A connection of type `kafka` in Airflow's own database names a cluster, and Airflow's logs hide its secrets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.models.connection import Connection as StoredConnection
from airflow.sdk import DAG
from airflow.sdk._shared.secrets_masker import redact
from airflow.utils.session import create_session

from delivery_verifier.audit import perform
from delivery_verifier.audit.fields import FLAGS, TEXTS
from delivery_verifier.audit.request import AuditRequest
from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.security import airflow_connections, command_config
from delivery_verifier.cluster.security.names import UnsupportedSecurity
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.orchestration.tasks import (
    audit_delivery,
    gate,
    kafka_connection,
    note,
    verify_catalogue,
    verify_delivery,
)
from delivery_verifier.pipeline import direct
from delivery_verifier.suite import begin

CONN_ID, NAME = "kafka_of_tests", "airflow:kafka_of_tests"
KEY = "-----BEGIN PRIVATE KEY-----\nhush-of-the-key\n-----END PRIVATE KEY-----\n"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
EXTRA = {
    "bootstrap.servers": "a:9093",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{LOGIN} required username="u" password="hush-in-jaas";',
    "ssl.keystore.key": KEY,
    "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n",
    "ssl.keystore.type": "PEM",
    "group.id": "g",
}


@pytest.fixture
def stored(written_dag: DAG, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The connection in Airflow's database, which this process may read as Airflow's server does."""
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "server")
    airflow_connections.use(None)  # a task that ran in this process before may have asked Airflow
    with create_session() as session:
        session.add(StoredConnection(conn_id=CONN_ID, conn_type="kafka", extra=json.dumps(EXTRA)))
    yield
    airflow_connections.use(None)
    with create_session() as session:
        session.query(StoredConnection).filter(StoredConnection.conn_id == CONN_ID).delete()


def change(extra: object) -> None:
    with create_session() as session:
        session.query(StoredConnection).filter(StoredConnection.conn_id == CONN_ID).one().set_extra(json.dumps(extra))


def test_a_cluster_is_read_from_airflows_database_and_its_secrets_are_masked_from_then_on(stored: None) -> None:
    with pytest.raises(BadInput, match="define it in Airflow"):
        command_config.read(cluster=NAME)
    kafka_connection.provide()
    access = command_config.read(cluster=NAME)
    assert access.servers == (Address("a", 9093),) and access.left_out == ("group.id",)
    assert access.security["sasl.password"] == "hush-in-jaas" and access.security["ssl.key.pem"] == KEY
    for secret in ("hush-in-jaas", EXTRA["sasl.jaas.config"], KEY):
        assert "hush" not in str(redact(f"a log says {secret}")), secret
    with pytest.raises(BadInput, match=r"airflow:other.*define it in Airflow"):
        command_config.read(cluster="airflow:other")


def test_code_in_a_connection_is_refused_by_its_name(stored: None) -> None:
    kafka_connection.provide()
    change({**EXTRA, "error_cb": "os.system"})
    with pytest.raises(UnsupportedSecurity, match=r"airflow:kafka_of_tests: error_cb names code"):
        command_config.read(cluster=NAME)


def test_every_task_that_works_on_a_run_asks_airflow(stored: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "require_not_passed", lambda context, task: None)
    monkeypatch.setattr(note, "withdraw", lambda context: None)
    verify_delivery._begin(SimpleNamespace())  # type: ignore[arg-type]
    assert command_config.read(cluster=NAME).servers == (Address("a", 9093),)


def test_a_catalogue_run_asks_airflow_for_its_cluster(stored: None, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = list[object]()

    def planned(*_: object, **__: object) -> None:
        servers.extend(command_config.read(cluster=NAME).servers)
        raise KeyboardInterrupt

    fields = {"names": [], "tag": "", "expect_unavailable": "", "cluster": NAME, "beside": ""}
    monkeypatch.setattr(gate, "require_not_passed", lambda context, task: None)
    monkeypatch.setattr(verify_catalogue, "get_current_context", lambda: {"run_id": "c", "params": fields})
    monkeypatch.setattr(begin, "begin", planned)
    with pytest.raises(KeyboardInterrupt):
        verify_catalogue.begin_catalogue()
    assert servers == [Address("a", 9093)]


def test_the_tasks_of_an_audit_ask_airflow_and_only_the_name_travels(
    stored: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(gate, "require_not_passed", lambda context, task: None)
    (tmp_path / "acks.jsonl").write_text("")
    fields = dict.fromkeys(TEXTS, "") | dict.fromkeys(FLAGS, False)
    fields |= {"ledger": f"{tmp_path}/acks.jsonl", "topic": "orders", "cluster": NAME}
    run_dir, requests = tmp_path / "runs" / "audit-1", list[AuditRequest]()
    instance = SimpleNamespace(xcom_pull=lambda task_ids: str(run_dir))
    context = {"run_id": "audit-1", "params": fields, "ti": instance}
    monkeypatch.setattr(audit_delivery, "get_current_context", lambda: context)
    monkeypatch.setattr(perform, "perform", lambda request, *_: requests.append(request))
    monkeypatch.setattr(direct, "judge", lambda *_: None)
    assert audit_delivery.plan() == str(run_dir)
    airflow_connections.use(None)  # another process
    audit_delivery.audit()
    assert [request.access for request in requests] == [ClusterAccess(cluster=NAME)]
    assert "hush" not in repr(requests) and f"--cluster {NAME}" in requests[0].command
