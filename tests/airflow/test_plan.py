"""Tests of the task plan for runs that did not come through the form, e.g. from `airflow dags trigger`: bad input is
refused before anything else is asked or started, with all errors at once."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.check.cluster_check import Unreachable
from delivery_verifier.cluster.security import spark_options
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.orchestration.tasks import form, spark_connection, verify_delivery
from delivery_verifier.planning import preflight

DEFAULTS = {name: param.value for name, param in form.params().items()}
BAD = {
    "producer_config": "key.serializer=x\nack=1\nssl.key.password=hunter22\n",
    "topic_overrides": "min.isr=1",
    "records": -5,
}


class Instance:
    """A stand-in for Airflow's task instance of a run whose gate has not run."""

    dag_id, try_number = "verify_delivery", 1

    def get_task_states(self, **_: object) -> dict[str, dict[str, str]]:
        return {}


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the task asks of the host. The host is in use."""
    questions: list[str] = []

    def busy() -> None:
        questions.append("lease")
        raise lease.HostBusy("another run")

    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(lease, "require_free_host", busy)
    monkeypatch.setattr(spark_connection, "location", lambda: questions.append("spark"))
    monkeypatch.setattr(preflight, "require", lambda _: questions.append("host"))
    return questions


def _plan(monkeypatch: pytest.MonkeyPatch, **fields: object) -> None:
    context: dict[str, Any] = {"run_id": "r", "params": {**DEFAULTS, **fields}, "ti": Instance()}
    context["dag_run"] = SimpleNamespace(conf={}, clear_number=0)
    monkeypatch.setattr(verify_delivery, "get_current_context", lambda: context)
    verify_delivery.plan()


def test_bad_input_is_refused_first_with_all_errors(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(BadInput, match=r"^5 errors:") as refused:
        _plan(monkeypatch, **BAD)
    for part in ("records is -5", "profile is 'safe'", "has values for ssl.key.password", "ack is no", "min.isr is no"):
        assert part in str(refused.value), part
    assert asked == [] and not (tmp_path / "runs").exists()
    assert "hunter22" not in str(refused.value) + caplog.text


def test_good_input_is_told_what_the_host_lacks(asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(lease.HostBusy):
        _plan(monkeypatch)
    assert asked == ["lease"]


@pytest.mark.parametrize(
    ("spark", "is_refused"),
    [
        ('{"conn_type":"spark","host":"local[2]"}', False),
        ('{"conn_type":"spark_connect","host":"localhost","port":15002}', False),
        ('{"conn_type":"spark_connect","host":"far","port":15002}', True),
        ('{"conn_type":"spark","host":"spark://far","port":7077}', True),
        ('{"conn_type":"spark","host":"yarn","extra":{"deploy-mode":"cluster"}}', True),
    ],
)
def test_a_spark_that_could_not_read_the_secrets_of_a_cluster_is_refused_before_that_cluster_is_asked(
    spark: str, is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "staging.properties").write_text(
        "bootstrap.servers=127.0.0.1:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.username=u\nsasl.password=hush-7\n"
    )
    (tmp_path / "staging.properties").chmod(0o600)
    monkeypatch.setenv("KDV_CONNECTIONS", str(tmp_path))
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", spark)
    monkeypatch.setattr(lease, "require_free_host", lambda: None)
    with pytest.raises(spark_options.SecretsOutOfReach if is_refused else Unreachable) as refused:
        _plan(monkeypatch, cluster="staging", fault="none", rate=500)
    assert (spark_options.MOUNT if is_refused else "127.0.0.1:1") in str(refused.value)
    assert "hush-7" not in str(refused.value) and not (tmp_path / "runs").exists()
