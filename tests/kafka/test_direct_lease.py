"""A direct run holds its cluster while Spark is starting, however long that takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.kept_clusters import Kept

from delivery_verifier.cluster import lease
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.run import direct
from spark_jobs import reconcile as job
from spark_jobs import session


def test_the_lease_is_renewed_while_spark_is_starting(
    keep: Callable[..., Kept], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = keep(lease_s=2.5).answers()
    renewals: list[int] = []
    call = lease.call

    def counted(socket: Path, operation: str, **more: object) -> dict[str, object]:
        renewals.append(operation == "renew")
        return call(socket, operation, **more)  # type: ignore[arg-type]

    def slow_to_start(records: int) -> SimpleNamespace:
        wait_until(lambda: sum(renewals) >= 3 or kept.process.poll() is not None, "three renewals", 30)
        return SimpleNamespace(stop=lambda: None)

    monkeypatch.setattr(lease, "call", counted)
    monkeypatch.setattr(session, "local_session", slow_to_start)
    monkeypatch.setattr(direct, "_records", lambda run_dir: 0)
    monkeypatch.setattr(job, "reconcile", lambda run_dir, from_log, spark: None)
    monkeypatch.setattr(direct.Cluster, "of", lambda run: SimpleNamespace(socket=kept.socket))
    direct.reconcile(tmp_path, from_log=False)
    assert kept.process.poll() is None, kept.log.read_text()
