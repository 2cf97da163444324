"""start_cluster: boots a fresh cluster in a workspace of its own, under a keeper that outlives this step."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from delivery_verifier.cluster import embedded, lease
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.processes import identify
from delivery_verifier.runs import RunDirectory
from delivery_verifier.scenario import Scenario, dumps
from delivery_verifier.steps.failing import fail_if_asked
from delivery_verifier.waiting import wait_until

MARGIN_S = 900.0
"""What a run may take beside its load before its keeper ends it."""


def start_cluster(run_dir: Path) -> None:
    """Starts the scenario's cluster and waits until every broker serves. Raises lease.HostBusy, RuntimeError."""
    run = RunDirectory(run_dir)
    scenario = run.scenario
    fail_if_asked(scenario, "start_cluster")
    owner = run.manifest("plan").notes.get("owner")
    sweep()
    workspace = workspaces() / scenario.run_token
    shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir(parents=True, mode=0o700)
    with run.writing("start_cluster") as output:
        try:
            cluster = _start(scenario, workspace, owner)
        except BaseException:
            shutil.rmtree(workspace, ignore_errors=True)
            raise
        output.notes["workspace"] = str(workspace)
        output.notes["bootstrap_servers"] = cluster.bootstrap_servers


def _start(scenario: Scenario, workspace: Path, owner: str | None) -> Cluster:
    layout = embedded.lay_out(workspace, scenario.cluster)
    deadline_s = scenario.load.deadline_s + MARGIN_S
    pid, _, started = (owner or "").partition(":")
    spec = {
        "run_id": scenario.run_id, "workspace": str(workspace), "deadline_s": deadline_s,
        "layout": msgspec.to_builtins(layout, str_keys=True),
        "owner": {"pid": int(pid), "started": int(started)} if owner else None,
    }  # fmt: skip
    (workspace / "keeper.json").write_bytes(dumps(spec))
    log = workspace / "keeper.log"
    with log.open("wb") as out:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "delivery_verifier.cluster.keeper", str(workspace / "keeper.json")],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip

    def answers() -> bool:
        if keeper.poll() is not None:
            lines = log.read_text(errors="replace").strip().splitlines()
            raise RuntimeError(f"the keeper ended with exit code {keeper.returncode}: {lines[-1] if lines else ''}")
        return (workspace / "keeper.sock").exists()

    wait_until(answers, "the keeper to answer", 60)
    cluster = Cluster(workspace)
    with lease.renewed(cluster.socket):
        cluster.wait_up()
    return cluster


def workspaces() -> Path:
    """Where workspaces live. Short, because a Unix socket's path may have at most 107 bytes."""
    return Path(os.environ.get("KDV_WORKSPACES") or Path(tempfile.gettempdir()) / f"kdv-{os.getuid()}")


def sweep() -> list[Path]:
    """Removes workspaces that nobody keeps and no keeper serves: the second line of defence. Returns them."""
    swept = []
    for workspace in workspaces().iterdir() if workspaces().is_dir() else ():
        if workspace.is_dir() and not (workspace / "KEPT").exists() and not _is_served(workspace):
            shutil.rmtree(workspace, ignore_errors=True)
            swept.append(workspace)
    return swept


def _is_served(workspace: Path) -> bool:
    try:
        keeper = int(lease.call(workspace / "keeper.sock", "status", timeout_s=5)["pid"])
    except lease.ClusterGone:
        return False
    return identify(keeper) is not None
