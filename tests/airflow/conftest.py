"""Gives Airflow in the test process a home of its own. The home must be set before anything imports airflow."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.browser_version import pytest_runtest_makereport  # noqa: F401  (a hook)

if TYPE_CHECKING:
    from airflow.sdk import DAG
    from airflow.serialization.definitions.dag import SerializedDAG

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


@pytest.fixture(scope="session")
def written_dag() -> DAG:
    """The DAG of one run as its file defines it. A fresh database of Airflow knows the DAG."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db
    from airflow.utils.db import initdb
    from airflow.utils.session import create_session

    from delivery_verifier.orchestration.names import DAG_ID

    initdb()
    with create_session() as session:
        DagBundlesManager().sync_bundles_to_db(session=session)
    (bundle,) = DagBundlesManager().get_all_dag_bundles()
    bag = BundleDagBag(dag_folder=PROJECT / "dags", bundle_path=PROJECT / "dags", bundle_name=bundle.name)
    sync_bag_to_db(bag, bundle.name, None)
    return bag.dags[DAG_ID]


@pytest.fixture(scope="session")
def dag(written_dag: DAG) -> SerializedDAG:
    """The DAG of one run as the scheduler has it."""
    from airflow.serialization.serialized_objects import DagSerialization

    return DagSerialization.deserialize_dag(DagSerialization.serialize_dag(written_dag))
