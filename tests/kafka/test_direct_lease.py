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
from support.patience import PATIENCE_S

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.connection import Connection
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.run.steps import reconcile
from delivery_verifier.store.run_directory import RunDirectory
from spark_jobs import reconcile as job


def test_the_lease_is_renewed_while_spark_is_starting(
    keep: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = keep(lease_s=2.5).answers()
    renewals: list[int] = []
    call = lease.call

    def counted(socket: Path, operation: str, **more: object) -> dict[str, object]:
        renewals.append(operation == "renew")
        return call(socket, operation, **more)  # type: ignore[arg-type]

    def slow_to_start() -> SparkSession:
        wait_until(lambda: sum(renewals) >= 3 or kept.process.poll() is not None, "three renewals", PATIENCE_S)
        return cast("SparkSession", None)

    run = RunDirectory(tmp_path)
    with run.writing("plan") as output:
        output.write_json("scenario.json", RUN)
    monkeypatch.setattr(lease, "call", counted)
    monkeypatch.setattr(job, "read", lambda run_dir, spark, connection: None)
    monkeypatch.setattr(
        reconcile.Cluster, "of_run", lambda run: SimpleNamespace(socket=kept.socket, connection=Connection({}))
    )
    reconcile.read_topic(run.path, slow_to_start)
    assert kept.process.poll() is None, kept.log.read_text()
