"""start_cluster: boots a fresh cluster in a workspace of its own, under a keeper that outlives this step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec

from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.cluster.embedded import nodes
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.data import dumps
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.store.run_directory import RunDirectory

MARGIN_S = 900.0
"""What a run may take beside its load before its keeper ends it."""


def start_cluster(run_dir: Path) -> None:
    """Starts the scenario's cluster and waits until every broker serves. Raises lease.HostBusy, RuntimeError."""
    run = RunDirectory(run_dir)
    scenario = run.read_scenario()
    scenario.fail_if_asked("start_cluster")
    owner = run.manifest("plan").notes.get("owner")
    with run.writing("start_cluster") as output, lease.acquire_host(scenario.run_id) as host:
        workspaces.sweep()
        workspace = workspaces.folder() / scenario.run_token
        workspaces.remove(workspace)
        workspace.mkdir(parents=True, mode=0o700)
        (workspace / workspaces.KEEPER_SPEC).touch()  # from here on a sweep takes it for a workspace
        try:
            cluster = _start(scenario, workspace, owner, host.fileno())
        except BaseException:
            workspaces.remove(workspace)
            raise
        output.notes["workspace"] = str(workspace)
        output.notes["bootstrap_servers"] = cluster.bootstrap_servers


def _start(scenario: Scenario, workspace: Path, owner: str | None, lock: int) -> Cluster:
    """Starts the keeper and waits until its cluster serves. The keeper inherits the descriptor of the host's lock, so
    that at no moment another start can sweep its workspace."""
    layout = nodes.lay_out(workspace, scenario.cluster)
    deadline_s = scenario.load.deadline_s + MARGIN_S
    pid, _, started = (owner or "").partition(":")
    spec = {
        "run_id": scenario.run_id,
        "workspace": str(workspace),
        "deadline_s": deadline_s,
        "layout": msgspec.to_builtins(layout, str_keys=True),
        "lock_descriptor": lock,
        "owner": {"pid": int(pid), "started": int(started)} if owner else None,
    }
    (workspace / workspaces.KEEPER_SPEC).write_bytes(dumps(spec))
    log = workspace / "keeper.log"
    with log.open("wb") as out:
        keeper = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "delivery_verifier.cluster.embedded.keeper",
                str(workspace / workspaces.KEEPER_SPEC),
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            pass_fds=(lock,),
        )

    def keeper_answers() -> bool:
        if keeper.poll() is not None:
            lines = log.read_text(errors="replace").strip().splitlines()
            raise StepFailed(f"the keeper ended with exit code {keeper.returncode}: {lines[-1] if lines else ''}")
        return (workspace / "keeper.sock").exists()

    wait_until(keeper_answers, "the keeper to answer", 60)
    cluster = Cluster(workspace)
    with lease.renewed(cluster.socket):
        cluster.wait_up()
    return cluster
