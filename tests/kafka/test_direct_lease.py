"""Tests that a direct run renews the lease of its cluster while Spark starts, however long the start takes. Without the
lease, the cluster would end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession
from support.evidence import RUN
from support.kept_clusters import Kept
from support.renewals import Renewals

from delivery_verifier.cluster.connection import Connection
from delivery_verifier.run.steps import reconcile
from delivery_verifier.store.run_directory import RunDirectory
from spark_jobs import reconcile as job


def test_the_lease_is_renewed_while_spark_is_starting(
    keep: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, renewals: Renewals
) -> None:
    kept = keep(lease_s=600).answers()

    def slow_to_start() -> SparkSession:
        for _ in range(3):  # two leases pass
            kept.pass_time(400)
            renewals.wait_for_another(kept)
        return cast("SparkSession", None)

    run = RunDirectory(tmp_path)
    with run.writing("plan") as output:
        output.write_json("scenario.json", RUN)
    monkeypatch.setattr(job, "read", lambda run_dir, spark, connection: None)
    cluster = SimpleNamespace(socket=kept.socket, connection=Connection({}), workspace=tmp_path)
    monkeypatch.setattr(reconcile.Cluster, "of_run", lambda run: cluster)
    reconcile.read_topic(run.path, slow_to_start)
    assert kept.process.poll() is None, kept.log.read_text()
