"""The database of the local Airflow: a file in its home.

`make setup` runs this module. It writes a database that has all tables, and nothing of a user, into the Python
environment. The first start of a local Airflow copies this file, because `airflow db migrate` takes seconds.
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

from delivery_verifier.local_airflow import logs, settings
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.orchestration.client import AirflowError

_NAME = "airflow.db"
_PREPARED = "airflow-{}.db"


def file() -> Path:
    """Returns the path of the database of the local Airflow."""
    return settings.airflow_home() / _NAME


def prepared_file() -> Path:
    """Returns the path of the prepared database, for the installed version of Airflow. The file need not exist."""
    return Path(sys.prefix) / _PREPARED.format(version("apache-airflow-core"))


def migrate(environment: Mapping[str, str]) -> None:
    """Creates or migrates the database, once per version of Airflow. Copies `prepared_file` if that file exists, and if
    the home has no file of a database.

    `environment`: the environment variables of Airflow. Raises AirflowError if the migration fails.
    """
    done = settings.airflow_home() / f"migrated-{version('apache-airflow-core')}"
    if done.is_file() and file().is_file():
        return
    # SQLite would put the rest of an older database, e.g. airflow.db-wal, into the copy.
    has_files = any(settings.airflow_home().glob(f"{_NAME}*"))
    if prepared_file().is_file() and not has_files:
        _copy(prepared_file(), file())
    else:
        _run_migration(environment)
    done.touch()


def prepare() -> None:
    """Makes `prepared_file` anew, in a temporary home, and removes those of other versions.

    Changes the environment variables of this process. Raises AirflowError if the migration fails.
    """
    with tempfile.TemporaryDirectory() as home:
        for name in [*os.environ]:
            if name.startswith("KDV_") and name != "KDV_CACHE":  # settings of the user for runs, which may be wrong
                del os.environ[name]
        os.environ["KDV_HOME"] = home
        settings.airflow_home().mkdir(parents=True)
        _run_migration(settings.environment(settings.DEFAULT_PORT))
        if rest := [other.name for other in settings.airflow_home().glob(f"{_NAME}-*")]:
            raise AirflowError(f"airflow db migrate has left a part of the database in {', '.join(rest)}")
        _copy(file(), prepared_file())
    for other in Path(sys.prefix).glob(_PREPARED.format("*")):
        if other != prepared_file():
            other.unlink()


def _run_migration(environment: Mapping[str, str]) -> None:
    with logs.log_file("migrate").open("ab") as log:
        command = ["airflow", "db", "migrate"]
        code = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False).returncode
    if code != 0:
        raise AirflowError(f"airflow db migrate ended with {code}: {logs.tail('migrate')}")


def _copy(source: Path, target: Path) -> None:
    """Copies a file. `target` exists only once it is complete."""
    partial = target.with_name(f".{target.name}.part")
    try:
        shutil.copyfile(source, partial)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def main() -> int:
    """Prepares the database. Returns the exit code: 1 if this failed, which costs the first start of Airflow some
    seconds."""
    try:
        prepare()
    except (VerifierError, OSError, subprocess.SubprocessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
