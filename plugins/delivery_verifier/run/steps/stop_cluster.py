"""The step stop_cluster: ends the cluster, whatever happened before."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.cluster.backend import Shared
from delivery_verifier.cluster.backends import backend_of
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory


def stop_cluster(run_dir: Path, keep: bool | None = None) -> None:
    """Ends the cluster. Removes its workspace (the brokers' data) if `keep` does not forbid it.

    * `keep` is True if this process will judge the run. The workspace stays, and the step conclude decides later
      whether to keep it.
    * `keep` is False if the run cannot be judged. The workspace is removed.
    * `keep` is None if another process may judge the run. The workspace stays only if the step reconcile has finished.

    Does nothing if the cluster was never started or has ended by itself. If others use the cluster, too, only what the
    run created there is removed. Raises StepFailed if that is not possible.
    """
    run = RunDirectory(run_dir)
    scenario = run.read_scenario()
    scenario.fail_if_asked("stop_cluster")
    try:
        # Of a cluster that somebody else runs, the workspace has no data of brokers, but secrets of the connection.
        _stop(run, keep if scenario.cluster.external is None else False)
    finally:
        backend = backend_of(scenario.cluster)
        if isinstance(backend, Shared):
            backend.remove(scenario.run_token)  # what the agent could not remove, or was killed before


def _stop(run: RunDirectory, keep: bool | None) -> None:
    try:
        cluster = Cluster.of_run(run)
    except (lease.ClusterGone, IncompleteRun):
        return  # the cluster was never started, or has ended by itself
    if keep:
        workspaces.hold(cluster.workspace)  # before the host is free for another run, whose start sweeps workspaces
    if keep is None:
        keep = (run.path / "reconcile.json").is_file()
    with suppress(lease.ClusterGone):  # the keeper was killed: its brokers died with it, its workspace is left
        cluster.finish(keep_workspace=keep)
    cluster.release()  # removes what a killed keeper left on the host
    if not keep:
        workspaces.remove(cluster.workspace)
