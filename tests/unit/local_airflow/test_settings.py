"""Tests of the environment of the local Airflow: which Spark its connection names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from delivery_verifier.local_airflow import settings

OWN = '{"conn_type":"spark","host":"spark://master","port":7077}'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_HOME", str(tmp_path))
    monkeypatch.setenv(settings.SPARK_VARIABLE, OWN)


def test_a_connection_of_the_user_is_kept() -> None:
    assert settings.environment(8080)[settings.SPARK_VARIABLE] == OWN


def test_the_server_of_its_own_is_named_with_its_token_and_reached_without_a_proxy() -> None:
    environment = settings.environment(8080, spark_port=15002)
    connection = json.loads(environment[settings.SPARK_VARIABLE])
    assert connection == {
        "conn_type": "spark_connect",
        "host": "localhost",
        "port": 15002,
        "password": settings.spark_token(),
    }
    assert environment["no_grpc_proxy"] == connection["host"]
    assert len(settings.spark_token()) >= 32
