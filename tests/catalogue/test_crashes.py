"""Tests of direct runs in which a process is killed. Within 30 s, no process of the run lives, and there is no verdict
HELD."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.own_host import alive, wait_until_gone
from support.patience import LOOK_EVERY_S, PATIENCE_S

from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.command_line.main import main
from delivery_verifier.host import folders
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.live_ledger import Control, Word
from delivery_verifier.pipeline.steps.conclude import judge_and_report
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.verdict.judge import load_and_judge

MARK = "KDV_TEST_CRASH"
LOAD = ("--profile", "safe", "--fault", "none", "--records", "2000")


class Started:
    """A `kdv run --direct` in a process of its own. All its processes inherit an environment variable by which a test
    finds them."""

    def __init__(self, log: Path, *options: str) -> None:
        self.name, self.log = f"crash-{uuid.uuid4().hex[:6]}", log
        # Tests that ran before on this host leave the workspaces of what was VIOLATED, on purpose.
        self.kept = workspaces.all_workspaces()
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "delivery_verifier",
                    "run",
                    "--direct",
                    "--run-id",
                    self.name,
                    *LOAD,
                    *options,
                ],
                env={**os.environ, MARK: self.name},
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def run(self) -> RunDirectory:
        return RunDirectory(folders.runs_dir() / self.name)

    def alive(self, command: str = "") -> dict[int, str]:
        return alive(MARK, self.name, command)

    def awaits(self, command: str) -> int:
        """Waits until a process of the run has a command line that matches `command`. Returns the lowest pid of such
        processes."""
        runs_or_ended = lambda: self.alive(command) or self.process.poll() is not None  # noqa: E731
        wait_until(runs_or_ended, f"{command} to run", PATIENCE_S, LOOK_EVERY_S)
        assert self.process.poll() is None, self.log.read_text()
        return min(self.alive(command))

    def is_loading(self) -> None:
        """Waits until more than 100 records of the subject are reported."""
        wait_until((self.run.path / "create_topics.json").exists, "the topics to be created", PATIENCE_S)
        live = Path(self.run.manifest("start_cluster").notes["workspace"]) / "live/safe/0"
        wait_until((live / "control").exists, "the producer to start", PATIENCE_S)
        control = Control(live)
        wait_until(lambda: control[Word.REPORTED] > 100, "the load to flow", PATIENCE_S)

    def left_nothing(self) -> None:
        """Asserts that, within 30 s, no process, no workspace, no lock and no verdict of the run is left."""
        wait_until_gone(MARK, self.name)
        self.process.wait(timeout=1)
        assert lease.lock_owner() is None
        assert {*workspaces.folder().iterdir()} <= {*self.kept}
        assert not (self.run.path / "verdict.json").exists()


@pytest.fixture
def started(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Started]:
    run = Started(tmp_path / "log", *getattr(request, "param", ()))
    yield run
    for pid in [*run.alive(), run.process.pid]:
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)
    run.process.wait()


LONG = pytest.mark.parametrize("started", [("--duration-s", "60")], indirect=True, ids=["long_load"])


@LONG
def test_when_a_producer_is_killed_the_run_ends_without_a_verdict_and_leaves_nothing(started: Started) -> None:
    started.is_loading()
    os.kill(started.awaits(r"load\.producer .*/safe/0/"), signal.SIGKILL)
    started.left_nothing()
    assert started.process.returncode == 70
    assert "producer safe/0/0 ended with exit code -9" in started.log.read_text()


APPLIED = ("--duration-s", "60", "--application", "commit_after")


@pytest.mark.parametrize("started", [APPLIED], indirect=True, ids=["long_load"])
def test_when_the_command_is_killed_all_it_supervises_goes_too_and_nothing_is_held(started: Started) -> None:
    started.is_loading()
    assert len(started.alive("kafka.Kafka")) == 4 and len(started.alive(r"load\.producer")) == 2
    started.awaits(r"applications\.process")
    started.process.kill()
    started.left_nothing()
    for judge in (judge_and_report, load_and_judge):
        with pytest.raises(IncompleteRun, match=r"produce"):
            judge(started.run.path)
    assert main(["reconcile", str(started.run.path)]) == 64
    assert not (started.run.path / "verdict.json").exists()


@LONG
def test_when_the_command_is_terminated_it_ends_everything_itself(started: Started) -> None:
    started.is_loading()
    started.process.terminate()
    started.left_nothing()
    assert started.process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("started", [("--duration-s", "2")], indirect=True, ids=["short_load"])
def test_when_sparks_jvm_is_killed_the_run_ends_without_a_verdict_and_leaves_nothing(started: Started) -> None:
    wait_until((started.run.path / "settle.json").exists, "the load to be settled", PATIENCE_S)
    os.kill(started.awaits(r"java.*SparkSubmit"), signal.SIGKILL)
    started.left_nothing()
    assert started.process.returncode == 70
