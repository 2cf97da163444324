"""Tests of a backend that only observes: a run on a cluster that somebody else started comes to its verdict, and leaves
the cluster running."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support import observing_backend
from support.kept_clusters import three_brokers
from support.stored_runs import arm

from delivery_verifier.cluster.backends import BACKENDS
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host import folders
from delivery_verifier.pipeline import direct
from delivery_verifier.planning.preflight import Unavailable
from delivery_verifier.run_directory.run_directory import RunDirectory


@pytest.fixture
def strangers(host_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster whose cluster agent is no run's, and the backend `observing` that looks at it."""
    with monkeypatch.context() as other_lock:
        other_lock.setenv("KDV_LOCK", str(host_folder / "lock of somebody else"))
        folder = host_folder / "somebody else"
        with three_brokers(folder, session_timeout_ms=60_000) as cluster:
            other_lock.undo()
            monkeypatch.setitem(BACKENDS, "observing", observing_backend.BACKEND)
            monkeypatch.setenv("KDV_CLUSTER", "observing")
            monkeypatch.setenv(observing_backend.ADDRESSES, cluster.connection.bootstrap_servers)
            monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=":")  # for the run's agent
            yield cluster


def test_a_run_on_a_cluster_that_it_only_observes_comes_to_its_verdict(
    strangers: Cluster, kafka_spark: SparkSession
) -> None:
    name = f"observed-{uuid.uuid4().hex[:6]}"
    params = {"profile": "safe", "fault": "none", "records": 2000, "duration_s": 4}
    verdict = direct.run(params, name, lambda progress: None, kafka_spark)
    run = RunDirectory(folders.runs_dir() / name)
    assert (verdict.verdict, verdict.exit_code) == ("HELD", 0)
    assert arm(verdict, "safe").tally["lost"] == 0
    observed = (run.path / "observations.json").read_text()
    assert '"partition"' in observed and '"process"' not in observed
    assert strangers.states() == dict.fromkeys((1, 2, 3), "running")
    with pytest.raises(Unavailable, match="only observes them"):
        direct.run({"profile": "safe", "fault": "kill_leader"}, f"{name}-broken", lambda progress: None, kafka_spark)
