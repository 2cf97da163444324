"""Gives all end-to-end tests a home, a lock and workspaces that no other run shares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support import watched
from support.airflow import LocalAirflow, local_airflow  # noqa: F401  (a fixture)
from support.browser import PLAIN, plain_run, shots  # noqa: F401  (two are fixtures)
from support.browser_version import pytest_runtest_makereport  # noqa: F401  (a hook)
from support.own_host import own_host
from support.readme import breaking_example, terminal  # noqa: F401  (fixtures)

from delivery_verifier.host import folders
from delivery_verifier.orchestration.failures import RunFailed
from delivery_verifier.pipeline import direct
from delivery_verifier.run_directory.run_directory import RunDirectory


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the modules that need no Airflow first, because an Airflow takes processor time also while it is idle. Puts
    the tests that are marked `last` at the end: they break the Airflow that all tests share."""
    with_airflow = {item.path for item in items if "local_airflow" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: (item.get_closest_marker("last") is not None, item.path in with_airflow))


@pytest.fixture(scope="session", autouse=True)
def e2e_host() -> Iterator[Path]:
    """The folder with the home, the lock and the workspaces of all end-to-end runs."""
    with own_host() as folder:
        yield folder


@pytest.fixture(scope="session")
def red_run(local_airflow: LocalAirflow) -> str:  # noqa: F811  # noqa: F811
    """The id of a run through Airflow whose first step failed. Nothing exists then, neither a run directory nor a
    cluster."""
    run_id = "red+at:once"
    with pytest.raises(RunFailed) as failure:
        local_airflow.run({"fail_step": "plan"}, run_id)
    assert failure.value.task_id == "plan"
    return run_id


@pytest.fixture(scope="session")
def plain_run_directly(
    plain_run: RunDirectory,  # noqa: F811
    kafka_spark: SparkSession,
    local_airflow: LocalAirflow,  # noqa: F811
) -> RunDirectory:
    """The directory of a direct run with the parameters, the seed and the name of `plain_run`. It ended HELD. What its
    live line said stands in `local_airflow.said`, too (`direct`)."""
    name = plain_run.path.name  # topics are named after their run
    run = RunDirectory(folders.runs_dir() / name)
    params = {**PLAIN, "seed": plain_run.read_scenario().seed}
    with watched.directly(run.path) as (follower, local_airflow.said["direct"]):
        verdict = direct.run(params, name, follower.step_changed, kafka_spark)
    assert (verdict.verdict, verdict.exit_code) == ("HELD", 0)
    return run
