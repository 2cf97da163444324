"""stop_cluster: ends the cluster, whatever happened before."""

from __future__ import annotations

from pathlib import Path

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.runs import IncompleteRun, RunDirectory
from delivery_verifier.steps.failing import fail_if_asked


def stop_cluster(run_dir: Path) -> None:
    """Ends the cluster. Its data stay until the run is judged; a run that cannot be judged leaves none."""
    run = RunDirectory(run_dir)
    fail_if_asked(run.scenario, "stop_cluster")
    try:
        cluster = Cluster.of(run)
        run.manifest("reconcile")
        keep = True
    except IncompleteRun:
        keep = False
    except lease.ClusterGone:
        return
    try:
        Cluster.of(run).finish(keep_workspace=keep)
    except (lease.ClusterGone, IncompleteRun):
        return  # it has ended by itself, which is what is wanted
    if keep:
        cluster.socket.unlink(missing_ok=True)
