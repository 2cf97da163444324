"""Tests of the supervisor of a local Airflow. Its processes start together. They end together with all processes that
they have started.

A small program takes the place of Airflow. It starts an orphan and then waits.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.patience import PATIENCE_S

from delivery_verifier.cluster import workspaces
from delivery_verifier.host import processes
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.local_airflow import lifecycle, orphans, settings, spark_server, supervisor, tree
from delivery_verifier.local_airflow.supervisor import Supervisor
from delivery_verifier.orchestration.client import AirflowError, AirflowSilent
from delivery_verifier.orchestration.names import MARK

pytestmark = pytest.mark.slow

# Its grandchild has a session and a parent of its own choosing: nothing but a subreaper keeps hold of it.
FAKE_AIRFLOW = """#!/bin/sh
(setsid sleep 600 &)
exec sleep 600
"""
FAKE_SPARK = """#!/bin/sh
while :; do sleep 1; done
"""
STUBBORN_AIRFLOW = """#!/bin/sh
trap '' TERM
while :; do sleep 1; done
"""


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    yield from _supervise(FAKE_AIRFLOW, tmp_path, monkeypatch, [])


@pytest.fixture
def stubborn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    yield from _supervise(STUBBORN_AIRFLOW, tmp_path, monkeypatch, [])


def _supervise(
    program: str, tmp_path: Path, patch: pytest.MonkeyPatch, more: list[str]
) -> Iterator[subprocess.Popen[bytes]]:
    (tmp_path / "bin").mkdir()
    for name, text in (("airflow", program), ("spark-submit", FAKE_SPARK)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    patch.setenv("KDV_HOME", str(tmp_path))
    patch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    patch.setenv("KDV_WORKSPACES", str(tmp_path / "ws"))
    settings.airflow_home().mkdir(parents=True)
    patch.setenv(MARK, str(settings.airflow_home()))
    patch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    patch.setenv("SPARK_HOME", str(tmp_path))  # PySpark starts its JVM by bin/spark-submit of this folder
    process = subprocess.Popen([sys.executable, "-m", supervisor.__name__, "--port", "1", *more])
    patch.delenv(MARK)
    try:
        wait_until(supervisor.read_state, "supervisor.json is written", PATIENCE_S)
        yield process
    finally:
        tree.end_all(_all_of_it, grace_s=0, deadline_s=PATIENCE_S)


def _all_of_it() -> list[psutil.Process]:
    return tree.marked(str(settings.airflow_home()))


def _state() -> supervisor.State:
    state = supervisor.read_state()
    assert state is not None
    return state


def test_all_run_with_their_orphans(started: subprocess.Popen[bytes]) -> None:
    assert set(_state().children) == {"api-server", "scheduler", "dag-processor", "triggerer"}
    wait_until(
        lambda: len(_all_of_it()) == 1 + 4 + 4, "the supervisor, four processes and four orphans run", PATIENCE_S
    )


def test_asked_to_stop_it_ends_everything_and_says_so_with_0(started: subprocess.Popen[bytes]) -> None:
    wait_until(lambda: len(_all_of_it()) == 9, "all run", PATIENCE_S)
    started.terminate()
    assert started.wait(PATIENCE_S) == 0
    assert _all_of_it() == []
    assert not supervisor.state_file().exists()


@pytest.mark.parametrize("name", list(supervisor.COMMANDS))
def test_if_one_dies_all_end(started: subprocess.Popen[bytes], name: str) -> None:
    wait_until(lambda: len(_all_of_it()) == 9, "all run", PATIENCE_S)
    (workspaces.folder() / "killed00").mkdir(parents=True)
    _state().children[name].send(signal.SIGKILL)
    assert started.wait(PATIENCE_S) == 1
    assert _all_of_it() == [] and workspaces.all_workspaces() == []
    assert f"its {name} died (killed by signal 9)" in (supervisor.why_it_ended() or "")


def test_who_ignores_sigterm_is_killed_after_the_grace(stubborn: subprocess.Popen[bytes]) -> None:
    stubborn.terminate()
    assert stubborn.wait(PATIENCE_S) == 0
    assert _all_of_it() == []


def test_where_runs_may_be_left_nothing_starts_before_the_api_can_end_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody answers on the port. So the scheduler, which would go on with these runs, must not start."""
    for supervising in _supervise(FAKE_AIRFLOW, tmp_path, monkeypatch, ["--end-orphans"]):
        wait_until(lambda: len(_all_of_it()) == 1 + 1 + 1, "the supervisor, the api-server and its orphan", PATIENCE_S)
        assert set(_state().children) == {"api-server"} and supervisor.why_it_ended() is None
        supervising.terminate()
        assert supervising.wait(PATIENCE_S) == 0
        assert _all_of_it() == []


@pytest.mark.parametrize("refused", [True, False])
def test_the_others_start_when_no_run_is_left_and_never_if_one_cannot_be_ended(
    refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, short in {"KDV_HOME": "h", "KDV_LOCK": "lock", "KDV_WORKSPACES": "ws"}.items():
        monkeypatch.setenv(name, str(tmp_path / short))  # the path of a Unix socket is short
    settings.airflow_home().mkdir(parents=True)
    answers, started = [AirflowSilent("is starting")], list[str]()

    def end_all(_: object) -> None:
        assert started == ["api-server"]
        if answers:
            raise answers.pop()
        if refused:
            raise AirflowError("the run r cannot be ended")

    def start(name: str, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
        started.append(name)
        return subprocess.Popen(["sleep", "600"])

    monkeypatch.setattr(orphans, "end_all", end_all)
    monkeypatch.setattr(supervisor, "_start", start)
    monkeypatch.setattr(supervisor.signal, "signal", lambda *_: None)
    monkeypatch.setattr(supervisor, "adopt_orphans", lambda: None)
    monkeypatch.setattr(supervisor.tree, "descendants", lambda: [])
    supervising = Supervisor(1, None, None, ends_orphans=True)
    monkeypatch.setattr(supervising, "_dead_child", lambda: "done" if len(started) == 4 else None)
    try:
        assert supervising.run() == int(refused)
    finally:
        for child in supervising.children.values():
            child.kill()
            child.wait()
    assert started == (["api-server"] if refused else list(supervisor.COMMANDS))
    assert ("the run r cannot be ended" in (supervisor.why_it_ended() or "")) == refused


def test_if_the_supervisor_is_killed_its_processes_end_by_themselves(started: subprocess.Popen[bytes]) -> None:
    children = _state().children
    started.kill()
    wait_until(lambda: not any(child.alive for child in children.values()), "the four end", PATIENCE_S)
    assert "supervisor was killed" in (supervisor.why_it_ended() or "")


def test_while_the_others_are_being_ended_the_dead_one_is_named_and_the_next_start_waits(
    stubborn: subprocess.Popen[bytes],
) -> None:
    assert supervisor.why_it_ended() is None
    _state().children["scheduler"].send(signal.SIGKILL)
    wait_until(supervisor.why_it_ended, "the death to be seen", PATIENCE_S)
    assert "its scheduler died" in (supervisor.why_it_ended() or "")
    assert lifecycle.living() is None
    assert not _all_of_it() and "its scheduler died" in (supervisor.why_it_ended() or "")


def test_a_spark_server_that_dies_is_started_anew_and_ends_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command has no token: every user of the host can read it."""
    for supervising in _supervise(FAKE_AIRFLOW, tmp_path, monkeypatch, ["--spark-port", "1"]):
        first = wait_until(_spark_server, "Spark runs", PATIENCE_S)
        assert settings.spark_token() not in " ".join(first.cmdline())
        assert first.environ()["SPARK_CONNECT_AUTHENTICATE_TOKEN"] == settings.spark_token()
        first.kill()
        wait_until(lambda: (later := _spark_server()) is not None and later != first, "Spark runs again", PATIENCE_S)
        assert supervising.poll() is None and supervisor.why_it_ended() is None
        supervising.terminate()
        assert supervising.wait(PATIENCE_S) == 0
        assert _all_of_it() == []


def _spark_server() -> psutil.Process | None:
    """Returns the JVM of the server."""
    return next((process for process in _all_of_it() if spark_server.PLUGIN in " ".join(_command(process))), None)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # it has ended since, perhaps as a zombie that is not yet reaped
        return []


def test_it_ends_with_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "600"]) as owner:
        identity = processes.identify(owner.pid)
        assert identity is not None
        option = f"--owner={identity.pid}:{identity.started}"
        for supervising in _supervise(FAKE_AIRFLOW, tmp_path, monkeypatch, [option]):
            assert supervising.poll() is None
            owner.kill()
            owner.wait()
            assert supervising.wait(PATIENCE_S) == 0
            assert _all_of_it() == []
