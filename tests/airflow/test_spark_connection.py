"""Tests of the Spark connection in Airflow: the Spark master that it names is used. A connection that Airflow would
silently replace by YARN is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.bases.hook import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from delivery_verifier.local_airflow import settings
from delivery_verifier.orchestration.tasks.spark_connection import NoSparkConnection, is_server, require, server_url

VARIABLE = "AIRFLOW_CONN_SPARK_DEFAULT"


@pytest.mark.parametrize(
    ("connection", "master"),
    [
        ('{"conn_type":"spark","host":"local[2]","extra":{"deploy-mode":"client"}}', "local[2]"),
        ("spark://local%5B2%5D?deploy-mode=client", "local[2]"),
        ('{"conn_type":"spark","host":"spark://master","port":7077}', "spark://master:7077"),
        ("spark://master:7077", "spark://master:7077"),
        ('{"conn_type":"spark","host":"yarn"}', "yarn"),
    ],
)
def test_the_master_is_the_one_the_connection_names(
    monkeypatch: pytest.MonkeyPatch, connection: str, master: str
) -> None:
    monkeypatch.setenv(VARIABLE, connection)
    assert require() == master
    assert not is_server(master)


def test_the_connection_of_the_local_airflow_names_its_server_and_only_the_url_has_the_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KDV_HOME", str(tmp_path))
    monkeypatch.setenv(VARIABLE, settings.spark_connection(15002))
    assert require() == "sc://localhost:15002" and is_server(require())
    assert server_url() == f"sc://localhost:15002/;token={settings.spark_token()}"


@pytest.mark.parametrize(
    "malformed",
    [
        "spark://local[2]",
        '{"conn_type":"spark"}',
        '{"conn_type":',
        '{"conn_type":"spark","host":"banana"}',
        '{"conn_type":"spark","host":"local[0]"}',
        '{"conn_type":"spark","host":"local[2]","extra":{"deploy-mode":"cluster"}}',
        '{"conn_type":"spark_connect","host":"localhost"}',
        '{"conn_type":"spark_connect","port":15002}',
        '{"conn_type":"spark_connect","host":"local[2]/x","port":15002}',
    ],
)
def test_a_malformed_connection_is_refused_with_field_and_remedy(
    monkeypatch: pytest.MonkeyPatch, malformed: str
) -> None:
    monkeypatch.setenv(VARIABLE, malformed)
    with pytest.raises(NoSparkConnection, match=VARIABLE):
        require()


def test_a_missing_connection_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(conn_id: str) -> None:
        raise AirflowNotFoundException(f"The conn_id `{conn_id}` isn't defined")

    monkeypatch.setattr(BaseHook, "get_connection", missing)
    with pytest.raises(NoSparkConnection, match=r"spark_default.*isn't defined"):
        require()
