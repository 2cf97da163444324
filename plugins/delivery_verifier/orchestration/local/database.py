"""The database of the local Airflow: a file in its home.

`make setup` runs this module. It keeps a new database, migrated and without any entry of a user, in the Python
environment. The first start of a local Airflow copies this file, because the migrations take many seconds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from delivery_verifier.orchestration.local import logs, settings
from delivery_verifier.orchestration.local.client import AirflowError


def file() -> Path:
    """Returns the path of the database of the local Airflow."""
    return settings.airflow_home() / "airflow.db"


def prepared_file() -> Path:
    """Returns the path of the new database in the Python environment, for the installed version of Airflow. The file
    need not exist."""
    return Path(sys.prefix) / f"airflow-{version('apache-airflow-core')}.db"


def migrate(environment: Mapping[str, str]) -> None:
    """Creates or migrates the database, once per version of Airflow. A new database is a copy of `prepared_file`, if
    there is one.

    `environment`: the environment variables of Airflow. Raises AirflowError if the migration fails.
    """
    done = settings.airflow_home() / f"migrated-{version('apache-airflow-core')}"
    if done.is_file() and file().is_file():
        return
    if prepared_file().is_file() and not file().exists():
        _copy(prepared_file(), file())
    else:
        with logs.log_file("migrate").open("ab") as log:
            command = ["airflow", "db", "migrate"]
            code = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False).returncode
        if code != 0:
            raise AirflowError(f"airflow db migrate ended with {code}: {logs.tail('migrate')}")
    done.touch()


def _copy(source: Path, target: Path) -> None:
    """Copies a file. `target` exists only once it is complete."""
    partial = target.with_suffix(f".{os.getpid()}.part")
    shutil.copyfile(source, partial)
    os.replace(partial, target)


def prepare() -> None:
    """Makes `prepared_file` anew, in a temporary home. Raises AirflowError if the migration fails."""
    prepared_file().unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as home:
        os.environ["KDV_HOME"] = home
        settings.airflow_home().mkdir(parents=True)
        migrate(settings.environment(settings.DEFAULT_PORT))
        _copy(file(), prepared_file())


if __name__ == "__main__":
    prepare()
