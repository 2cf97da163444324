"""Tests of where the database of the local Airflow comes from: a copy of the kept one, or Airflow's own migration."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from delivery_verifier.orchestration.local import database, settings
from delivery_verifier.orchestration.local.client import AirflowError

AIRFLOW = """#!/bin/sh
echo migrating >&2
echo "$0 $*" >>"$AIRFLOW_HOME/airflow.db"
exit ${CODE:-0}
"""


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a stand-in for `airflow`, which appends its arguments to the database. No database is kept."""
    monkeypatch.setenv("KDV_HOME", str(tmp_path / "home"))
    settings.airflow_home().mkdir(parents=True)
    monkeypatch.setattr(database, "prepared_file", lambda: tmp_path / "kept.db")
    program = tmp_path / "airflow"
    program.write_text(AIRFLOW)
    program.chmod(stat.S_IRWXU)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin", "AIRFLOW_HOME": str(settings.airflow_home())}


def test_a_new_database_is_the_kept_one(environment: dict[str, str]) -> None:
    database.prepared_file().write_text("kept")
    database.migrate(environment)
    assert database.file().read_text() == "kept"
    database.migrate(environment)
    assert database.file().read_text() == "kept", "this version of Airflow has migrated it"
    assert not [*settings.airflow_home().glob("*.part")]


@pytest.mark.parametrize("before", [None, "of an older version: "])
def test_without_a_kept_database_or_with_one_of_an_older_version_airflow_migrates(
    environment: dict[str, str], before: str | None
) -> None:
    if before is not None:
        database.prepared_file().write_text("kept")
        database.file().write_text(before)
    database.migrate(environment)
    assert database.file().read_text().removeprefix(before or "").endswith("airflow db migrate\n")


def test_a_migration_that_fails_is_an_error_with_its_log_and_the_next_start_tries_again(
    environment: dict[str, str],
) -> None:
    for code in (3, 4):
        with pytest.raises(AirflowError, match=f"ended with {code}: migrating"):
            database.migrate({**environment, "CODE": str(code)})
    database.migrate(environment)


def test_what_setup_keeps_is_made_in_a_home_of_its_own(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, homes = database.file(), list[Path]()

    def migrate(_: dict[str, str]) -> None:
        homes.append(database.file())
        database.file().write_text(f"new {len(homes)}" if not database.prepared_file().exists() else "a copy")

    monkeypatch.setattr(database, "migrate", migrate)
    for _ in range(2):
        database.prepare()
    assert database.prepared_file().read_text() == "new 2", "a new environment may have other migrations"
    assert own not in homes and not [home for home in (own, *homes) if home.exists()]
