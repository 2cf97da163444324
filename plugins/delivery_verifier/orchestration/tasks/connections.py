"""Airflow connections for user applications, i.e. for programs that the user brings. A task gets the URIs of the
connections as variables of its environment, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import Connection

from delivery_verifier.planning.user_applications import connections_of
from delivery_verifier.run_directory.run_directory import RunDirectory


def provide(run_dir: Path) -> None:
    """Sets AIRFLOW_CONN_<ID> in the environment of this process, for each connection that a user application of the
    run needs. A variable that is set already keeps its value.

    Raises AirflowNotFoundException if Airflow does not know a connection.
    """
    for name in sorted(connections_of(RunDirectory(run_dir).read_scenario())):
        variable = f"AIRFLOW_CONN_{name.upper()}"
        if not os.environ.get(variable):
            os.environ[variable] = Connection.get(name).get_uri()
