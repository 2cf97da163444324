"""What the tests of Spark outside this process compare with: one run, reconciled in this process."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.mixed_runs import content, mixed_run

from delivery_verifier.run_directory.run_directory import RunDirectory
from spark_jobs import reconcile as job

Copy = Callable[[str], RunDirectory]


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run in which every kind of anomaly occurs. Tests reconcile only copies of it."""
    return mixed_run(tmp_path_factory.mktemp("mixed") / "run")


@pytest.fixture
def copied(mixed: RunDirectory, tmp_path: Path) -> Copy:
    """Returns a function that copies `mixed` to a folder of this name, and returns the copy."""
    return lambda name: RunDirectory(Path(shutil.copytree(mixed.path, tmp_path / name)))


@pytest.fixture(scope="session")
def expected(mixed: RunDirectory, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a reconciliation of `mixed` in this process writes (see `content`)."""
    run = RunDirectory(Path(shutil.copytree(mixed.path, tmp_path_factory.mktemp("expected") / "run")))
    job.reconcile(run.path, True, spark)
    found = content(run)
    assert {row["kind"] for row in found["anomalies"]} >= {"LOST", "DUPLICATED", "TORN"}
    return found
