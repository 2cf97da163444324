"""Tests of the progress that a real reconciliation in this process reports. For other places of the driver see
test_connect.py and test_standalone.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.live_runs import give_workspace
from support.mixed_runs import content
from support.spark_progress import followed, require_progress

from delivery_verifier.pipeline.steps.reconcile import reconcile
from delivery_verifier.run_directory.run_directory import RunDirectory
from spark_jobs.session import progress


def test_a_reconciliation_reports_its_jobs_in_order_and_leaves_no_trace_of_it(
    spark: SparkSession,
    copied: Callable[[str], RunDirectory],
    expected: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.05)
    run = copied("run")
    file = give_workspace(run, tmp_path / "w")
    before = {entry.name for entry in run.path.iterdir()}
    tracker = spark.sparkContext.statusTracker()
    first = max(tracker.getJobIdsForGroup(), default=-1) + 1  # `expected` has run in the same session
    with followed(run) as seen:
        reconcile(run.path, lambda: spark)
    require_progress(seen, "job")
    jobs = max(tracker.getJobIdsForGroup()) + 1 - first
    assert jobs / 2 <= seen[-1].number <= jobs, "the last jobs may be over before somebody looks"
    assert any(spark.tasks for spark in seen)
    assert not file.exists() and [*file.parent.iterdir()] == []
    assert content(run) == expected
    assert {entry.name for entry in run.path.iterdir()} - before == {
        "anomalies",
        "counts",
        "timeline",
        "reconcile.json",
    }
