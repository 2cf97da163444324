"""The step start_cluster: boots a fresh cluster in a folder of its own, the workspace.

The process in charge of the cluster, the cluster agent, goes on after this step.
"""

from __future__ import annotations

from pathlib import Path

from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.cluster.backend import StartRequest
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.processes import process_of
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.run_directory.run_directory import RunDirectory

MARGIN_S = 900.0
"""Seconds that a run may take in addition to the deadline of its load. After this time the cluster agent, the process
in charge of the cluster, ends the cluster."""


def start_cluster(run_dir: Path) -> None:
    """Starts the scenario's cluster, and waits until every broker serves requests.

    Raises lease.HostBusy if another run uses this host, RuntimeError if the cluster cannot be started or a broker ends
    while it boots, and DeadlinePassed if a broker takes too long.
    """
    run = RunDirectory(run_dir)
    scenario = run.read_scenario()
    scenario.fail_if_asked("start_cluster")
    owner = run.manifest("plan").notes.get("owner")
    with run.writing("start_cluster") as output, lease.acquire_host(scenario.run_id, run_dir) as host:
        workspaces.sweep()
        workspace = workspaces.folder() / scenario.run_token
        workspaces.remove(workspace)
        workspace.mkdir(parents=True, mode=0o700)
        (workspace / workspaces.AGENT_SPEC).touch()  # from now on a sweep recognises this folder as a workspace
        try:
            cluster = _start(scenario, workspace, owner, host.fileno())
        except BaseException:
            workspaces.remove(workspace)
            raise
        output.notes["workspace"] = str(workspace)
        output.notes["bootstrap_servers"] = cluster.connection.bootstrap_servers


def _start(scenario: Scenario, workspace: Path, owner: str | None, lock: int) -> Cluster:
    """Starts the cluster, and returns an object to control the cluster with.

    `owner` names a process, in the form `<pid>:<start time>`. When this process ends, the run ends, too. `lock` is the
    file descriptor of the host's lock. The cluster agent (the process in charge of the cluster) inherits this lock, so
    that no other run can start and remove the workspace.
    """
    request = StartRequest(
        run_id=scenario.run_id,
        workspace=str(workspace),
        deadline_s=scenario.load.deadline_s + MARGIN_S,
        spec=scenario.cluster,
        owner=process_of(owner or ""),
        lock_descriptor=lock,
    )
    cluster = Cluster.start(request)
    with lease.renewed(cluster.socket):
        cluster.wait_up()
    return cluster
