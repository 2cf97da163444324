"""stop_cluster: ends the cluster, whatever happened before."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory


def stop_cluster(run_dir: Path, keep: bool | None = None) -> None:
    """Ends the cluster. Its data stay until the run is judged; a run that cannot be judged leaves none.

    `keep`: whether the run can be judged, in which case this process will judge it. None: the run can be judged if it
    has been reconciled, and another process judges it.
    """
    run = RunDirectory(run_dir)
    run.read_scenario().fail_if_asked("stop_cluster")
    try:
        cluster = Cluster.of_run(run)
    except (lease.ClusterGone, IncompleteRun):
        return  # the cluster was never started, or has ended by itself
    if keep:
        workspaces.hold(cluster.workspace)  # before the host is free for other runs, which sweep
    if keep is None:
        keep = (run.path / "reconcile.json").is_file()
    with suppress(lease.ClusterGone):  # a killed keeper took its brokers along and left the workspace
        cluster.finish(keep_workspace=keep)
    cluster.release()  # what a keeper that was killed could not take away
    if not keep:
        workspaces.remove(cluster.workspace)
