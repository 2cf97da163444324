"""The process of the local Spark server: what it is given of the environment of the local Airflow."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from delivery_verifier.local_airflow import logs, spark_server


def test_the_server_gets_no_connection_of_a_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA", "kafka://user:hunter2@host:9092")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    given = dict[str, Any]()
    monkeypatch.setattr(logs, "log_file", lambda name: tmp_path / name)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **more: given.update(more))
    spark_server.start(1)
    assert "hunter2" not in str(given["env"]) and given["env"]["AIRFLOW_HOME"] == str(tmp_path)
