"""Tests of where the database of the local Airflow comes from: a copy of the prepared one, or Airflow's migration."""

from __future__ import annotations

import os
import stat
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from delivery_verifier.host import folders
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
    """The environment of a stand-in for `airflow`, which appends its arguments to the database. No file is prepared."""
    monkeypatch.setattr(os, "environ", {**os.environ, "KDV_HOME": str(tmp_path / "home")})
    settings.airflow_home().mkdir(parents=True)
    (tmp_path / "prefix").mkdir()
    monkeypatch.setattr(database.sys, "prefix", str(tmp_path / "prefix"))
    program = tmp_path / "airflow"
    program.write_text(AIRFLOW)
    program.chmod(stat.S_IRWXU)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin", "AIRFLOW_HOME": str(settings.airflow_home())}


def test_a_new_database_is_a_copy_of_the_prepared_one(environment: dict[str, str]) -> None:
    database.prepared_file().write_text("prepared")
    database.migrate(environment)
    assert database.file().read_text() == "prepared"
    database.migrate(environment)
    assert database.file().read_text() == "prepared", "this version of Airflow has migrated it"
    assert not [*settings.airflow_home().glob("*.part")]


@pytest.mark.parametrize("before", ["airflow.db", "airflow.db-wal", "airflow.db-journal", "a link"])
def test_where_a_file_of_a_database_is_left_airflow_migrates(
    environment: dict[str, str], before: str, tmp_path: Path
) -> None:
    if before == "a link":
        database.file().symlink_to(tmp_path / "elsewhere.db")
    else:
        (settings.airflow_home() / before).write_text("")
    database.prepared_file().write_text("prepared")
    database.migrate(environment)
    assert database.file().read_text() == MIGRATED
    assert database.file().is_symlink() == (before == "a link")


def test_where_none_is_prepared_airflow_migrates(environment: dict[str, str]) -> None:
    database.migrate(environment)
    assert database.file().read_text() == MIGRATED


def test_a_migration_that_fails_is_an_error_with_its_log_and_the_next_start_tries_again(
    environment: dict[str, str],
) -> None:
    for code in (3, 4):
        with pytest.raises(AirflowError, match=f"ended with {code}: migrating"):
            database.migrate({**environment, "CODE": str(code)})
    database.migrate(environment)


@pytest.fixture
def home_of_a_user(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user, whose settings for runs are wrong. `airflow` is the stand-in, in any environment."""
    wrong = {"KDV_RUNS": "relative", "KDV_NOTIFY_SLACK": "https://nowhere"}
    monkeypatch.setattr(os, "environ", {**os.environ, **wrong})
    made = settings.environment
    monkeypatch.setattr(settings, "environment", lambda port: {**made(port), "PATH": environment["PATH"]})
    return settings.airflow_home()


def test_setup_prepares_a_database_in_a_home_of_its_own(home_of_a_user: Path) -> None:
    older = Path(sys.prefix) / "airflow-3.0.0.db"
    older.write_text("older")
    assert database.main() == 0
    assert database.prepared_file() == Path(sys.prefix) / f"airflow-{version('apache-airflow-core')}.db"
    assert database.prepared_file().read_text() == MIGRATED and not older.exists()
    assert not [*home_of_a_user.iterdir()] and not folders.home().exists(), "the temporary home is gone"


def test_where_nothing_can_be_prepared_the_message_is_one_of_the_program(
    home_of_a_user: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = settings.environment
    monkeypatch.setattr(settings, "environment", lambda port: {**made(port), "CODE": "5"})
    assert database.main() == 1 and not database.prepared_file().exists()
    assert "airflow db migrate ended with 5: migrating" in capsys.readouterr().err
