"""Tests of the migration of the local Airflow's database: once per version of Airflow, and again if it failed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from delivery_verifier.local_airflow import database, settings
from delivery_verifier.orchestration.client import AirflowError

AIRFLOW = """#!/bin/sh
echo migrating >&2
echo "$*" >>"$AIRFLOW_HOME/airflow.db"
exit ${CODE:-0}
"""
MIGRATED = "db migrate\n"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a stand-in for `airflow`, which appends its arguments to the database."""
    monkeypatch.setattr(os, "environ", {**os.environ, "KDV_HOME": str(tmp_path / "home")})
    settings.airflow_home().mkdir(parents=True)
    program = tmp_path / "airflow"
    program.write_text(AIRFLOW)
    program.chmod(stat.S_IRWXU)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin", "AIRFLOW_HOME": str(settings.airflow_home())}


def test_airflow_migrates_once_and_again_where_the_database_is_gone_or_airflow_is_another(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        database.migrate(environment)
        assert database.file().read_text() == MIGRATED
    database.file().unlink()
    database.migrate(environment)
    assert database.file().read_text() == MIGRATED
    monkeypatch.setattr(database, "version", lambda _: "another")
    database.migrate(environment)
    assert database.file().read_text() == MIGRATED * 2


def test_a_migration_that_fails_is_an_error_with_its_log_and_the_next_start_tries_again(
    environment: dict[str, str],
) -> None:
    for code in (3, 4):
        with pytest.raises(AirflowError, match=f"ended with {code}: migrating"):
            database.migrate({**environment, "CODE": str(code)})
    database.migrate(environment)
    assert database.file().read_text() == MIGRATED * 3
