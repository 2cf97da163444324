"""The database of the local Airflow: a file in its home, which Airflow itself makes and migrates."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from delivery_verifier.local_airflow import logs, settings
from delivery_verifier.orchestration.client import AirflowError


def file() -> Path:
    """Returns the path of the database of the local Airflow."""
    return settings.airflow_home() / "airflow.db"


def migrate(environment: Mapping[str, str]) -> None:
    """Creates or migrates the database, once per version of Airflow.

    `environment`: the environment variables of Airflow. Raises AirflowError if the migration fails.
    """
    done = settings.airflow_home() / f"migrated-{version('apache-airflow-core')}"
    if done.is_file() and file().is_file():
        return
    with logs.log_file("migrate").open("ab") as log:
        command = ["airflow", "db", "migrate"]
        code = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False).returncode
    if code != 0:
        raise AirflowError(f"airflow db migrate ended with {code}: {logs.tail('migrate')}")
    done.touch()
