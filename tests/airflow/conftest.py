"""Gives Airflow in the test process a home of its own. The home must be set before anything imports airflow."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]

_home = tempfile.mkdtemp(prefix="kdv-test-airflow-")
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ.update(
    AIRFLOW_HOME=_home,
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__DAGS_FOLDER=str(PROJECT / "dags"),
    AIRFLOW__CORE__PLUGINS_FOLDER=str(PROJECT / "plugins"),
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{_home}/airflow.db",
)
