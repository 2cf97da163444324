"""Tests of a cluster that has ended, or whose controller has ended. The error names the cause, no step waits for the
cluster, and no workspace is left."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.evidence import a_scenario
from support.patience import PATIENCE_S
from support.run_builder import RunBuilder

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.embedded.cluster import EmbeddedCluster
from delivery_verifier.cluster.handle import Cluster, ControllerDied
from delivery_verifier.cluster.layout import CONTROLLER, ClusterLayout
from delivery_verifier.model.scenario import ClusterSpec
from delivery_verifier.run.steps.stop_cluster import stop_cluster


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """The workspace of a keeper that was killed: its specification, a socket on which no process listens, and logs."""
    layout = ClusterLayout(
        workspace=str(tmp_path / "a1b2c3d4"),
        spec=ClusterSpec(brokers=1),
        controller_port=1,
        client_ports={1: 2},
        replication_ports={1: 3},
    )
    (tmp_path / "a1b2c3d4/logs").mkdir(parents=True)
    (tmp_path / "a1b2c3d4/keeper.json").write_bytes(
        msgspec.json.encode({"layout": msgspec.to_builtins(layout, str_keys=True)})
    )
    (tmp_path / "a1b2c3d4/keeper.sock").touch()
    (tmp_path / f"a1b2c3d4/logs/{CONTROLLER}.log").write_text("ERROR no space left\n")
    return tmp_path / "a1b2c3d4"


@pytest.mark.parametrize("reconciled", [True, False])
def test_a_workspace_whose_keeper_was_killed_stays_only_until_its_run_is_judged(
    workspace: Path, reconciled: bool
) -> None:
    run = RunBuilder(a_scenario()).step("start_cluster", lambda output: output.notes.update(workspace=str(workspace)))
    stop_cluster(run.steps(*["reconcile"] * reconciled).at(workspace.parent / "run").path)
    assert workspace.exists() == reconciled
    assert not (workspace / "keeper.sock").exists()  # so that conclude knows that nobody serves it


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (1, "unexpectedly with exit code 1: ERROR no space left$"),
        (-9, r"unexpectedly with exit code -9 \(killed by SIGKILL\)$"),
    ],
)
def test_a_controller_that_died_is_named_by_whoever_looks(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, code: int, told: str
) -> None:
    dead = {"1": {"state": "running"}, str(CONTROLLER): {"state": "exited", "exit_code": code}}
    monkeypatch.setattr(lease, "call", lambda *_, **__: {"nodes": dead})
    with pytest.raises(ControllerDied, match=f"the controller exited {told}"):
        Cluster(EmbeddedCluster(workspace)).isr_full(["t"])


def test_what_fails_once_the_keeper_is_gone_failed_because_of_that(monkeypatch: pytest.MonkeyPatch) -> None:
    renewals, told = [0], threading.Event()

    def call(*_: Any) -> dict[str, Any]:
        renewals[0] += 1
        if renewals[0] > 1:
            raise lease.ClusterGone("nobody there")
        return {}

    monkeypatch.setattr(lease, "call", call)
    with (
        pytest.raises(lease.ClusterGone, match="is gone, and its brokers with it"),
        lease.renewed(Path("s"), told.set) as gone,
    ):
        assert told.wait(PATIENCE_S) and gone.is_set()
        raise TimeoutError("Spark asked in vain")
