"""The step stop_cluster: ends the cluster, whatever happened before."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory


def stop_cluster(run_dir: Path, keep: bool | None = None) -> None:
    """Ends the cluster. Removes its workspace (the brokers' data) if `keep` does not forbid it.

    * `keep` is True if this process will judge the run. The workspace stays, and the step conclude decides later
      whether to keep it.
    * `keep` is False if the run cannot be judged. The workspace is removed.
    * `keep` is None if another process may judge the run. The workspace stays only if the step reconcile has finished.

    Does nothing if the cluster was never started or has ended by itself.
    """
    run = RunDirectory(run_dir)
    run.read_scenario().fail_if_asked("stop_cluster")
    try:
        cluster = Cluster.of_run(run)
    except (lease.ClusterGone, IncompleteRun):
        return  # the cluster was never started, or has ended by itself
    if keep:
        workspaces.hold(cluster.workspace)  # before the host is free for another run, whose start sweeps workspaces
    if keep is None:
        keep = (run.path / "reconcile.json").is_file()
    with suppress(lease.ClusterGone):  # the cluster agent was killed: its brokers died with it, its workspace is left
        cluster.finish(keep_workspace=keep)
    cluster.release()  # removes what a killed cluster agent left on the host
    if not keep:
        workspaces.remove(cluster.workspace)
