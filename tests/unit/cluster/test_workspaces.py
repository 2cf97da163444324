"""Tests of workspaces. Two runs that start at the same time never take each other's workspace, and the number of kept
workspaces is bounded."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.evidence import RUN
from support.run_builder import RunBuilder

from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.cluster.embedded import disks, nodes
from delivery_verifier.host import folders
from delivery_verifier.maintenance import doctor
from delivery_verifier.pipeline import direct
from delivery_verifier.pipeline.signals import Signals
from delivery_verifier.pipeline.steps import start_cluster
from delivery_verifier.pipeline.steps.start_cluster import start_cluster as start
from delivery_verifier.pipeline.steps.stop_cluster import stop_cluster


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_WORKSPACES", str(tmp_path / "ws"))
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(lease, "PATIENCE_S", 0.1)
    return tmp_path


def left(name: str) -> Path:
    """Makes a workspace whose cluster agent has ended, and returns it."""
    workspace = workspaces.folder() / name
    workspace.mkdir(parents=True)
    (workspace / workspaces.AGENT_SPEC).touch()
    return workspace


def test_a_second_start_leaves_the_workspace_of_a_first_whose_agent_has_yet_to_answer(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = RunBuilder(RUN).at(host / "first"), RunBuilder(RUN).at(host / "second")

    class Done(Exception):
        pass

    def booting(scenario: object, workspace: Path, owner: object, lock: int) -> None:
        with pytest.raises(
            lease.HostBusy, match=rf"run {RUN.run_id} \(user .*, pid {os.getpid()}, .*kdv stop {RUN.run_id}`"
        ):
            start(second.path)
        assert workspace.is_dir(), "the second start swept the first one's workspace"
        raise Done

    monkeypatch.setattr(start_cluster, "_start", booting)
    with pytest.raises(Done):
        start(first.path)
    assert workspaces.all_workspaces() == [] and lease.lock_owner() is None


def test_a_sweep_by_the_way_leaves_everything_while_a_run_holds_the_host() -> None:
    (workspaces.folder() / "begins00").mkdir(parents=True)
    with lease.acquire_host("a run that begins"):
        assert workspaces.sweep_unless_busy() == [] and workspaces.all_workspaces()
    assert workspaces.sweep_unless_busy() and not workspaces.all_workspaces()


def test_a_sweep_takes_a_workspace_that_nobody_serves() -> None:
    (workspaces.folder() / "left0000").mkdir(parents=True)
    with lease.acquire_host("next"):
        assert workspaces.sweep() == [workspaces.folder() / "left0000"]
    assert workspaces.all_workspaces() == []


def test_a_folder_that_is_no_workspace_is_never_removed() -> None:
    (workspaces.folder() / "holidays").mkdir(parents=True)
    (workspaces.folder() / "holidays/photo.jpg").touch()
    (workspaces.folder() / "My mail").mkdir()
    with lease.acquire_host("next"):
        assert workspaces.sweep() == []
    workspaces.remove(workspaces.folder() / "holidays")
    assert len(list(workspaces.folder().iterdir())) == 2


def test_the_folder_of_the_hosts_lock_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_LOCK", str(tmp_path / "not" / "there" / "lock"))
    with lease.acquire_host("run"):
        assert lease.lock_owner() is not None


def test_the_hosts_lock_is_handed_over_to_a_child_without_a_gap() -> None:
    with lease.acquire_host("starter") as host:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(host.fileno(),))
    with pytest.raises(lease.HostBusy, match="starter"):
        lease.acquire_host("another")
    child.communicate(b"\n")
    lease.acquire_host("another").close()


def test_who_asks_for_the_lock_owner_does_not_stand_in_the_way_of_a_start() -> None:
    lease.acquire_host("first").close()
    for _ in range(20):
        assert lease.lock_owner() is None
        lease.acquire_host("next").close()


def test_only_the_newest_workspaces_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KDV_KEPT", "2")
    for number in range(4):
        workspace = left(f"w000000{number}")
        workspaces.keep(workspace)
        os.utime(workspace / workspaces.KEPT, (number, number))
    workspaces.trim()
    assert [one.name for one in workspaces.all_workspaces()] == ["w0000002", "w0000003"]


def test_a_workspace_stays_while_whoever_is_to_judge_its_run_lives() -> None:
    workspace = left("awaited0")
    workspaces.hold(workspace)
    assert workspaces.sweep_unless_busy() == [] and doctor._leftovers().ok
    (workspace / workspaces.AWAITED).write_text("1:1")  # a process that has ended
    assert not doctor._leftovers().ok and workspaces.sweep_unless_busy() == [workspace]


def test_disks_that_a_killed_agent_left_mounted_in_a_workspace_that_is_kept_are_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workspace = left("kept0000")
    workspaces.keep(workspace)
    mounts = [workspace / "data/1"]
    monkeypatch.setattr(disks, "mounts", lambda below: list(mounts) if below == workspace else [])
    monkeypatch.setattr(disks, "unmount", mounts.remove)
    assert doctor._leftovers().found == "mounted disks of kept0000"
    assert list(doctor.heal()) == [f"healed: unmounted the disks of {workspace}"]
    assert not mounts and workspace.is_dir() and doctor._leftovers().ok


def test_a_run_that_this_process_will_judge_keeps_its_workspace_and_no_disk_mounted(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, workspace, released = RunBuilder(RUN).at(host / "run"), left("stopped0"), list[Path]()
    layout = msgspec.to_builtins(nodes.lay_out(workspace, RUN.cluster), str_keys=True)
    (workspace / workspaces.AGENT_SPEC).write_bytes(msgspec.json.encode({"layout": layout}))
    with run.writing("start_cluster") as output:
        output.notes["workspace"] = str(workspace)
    monkeypatch.setattr(disks, "release", released.append)
    stop_cluster(run.path, keep=True)  # its cluster agent is dead
    assert released == [workspace] and workspaces.sweep_unless_busy() == []


def test_a_link_among_the_workspaces_is_nobodys_to_remove(host: Path) -> None:
    (host / "elsewhere").mkdir()
    workspaces.folder().mkdir()
    (workspaces.folder() / "link").symlink_to(host / "elsewhere")
    with lease.acquire_host("next"):
        assert workspaces.sweep() == []
    assert (host / "elsewhere").is_dir()


def test_a_run_that_cannot_be_judged_leaves_no_workspace_and_one_that_was_judged_keeps_what_was_decided(
    host: Path,
) -> None:
    run, workspace = RunBuilder(RUN).at(host / "run"), left(RUN.run_token)
    workspaces.hold(workspace)
    with direct._removing_unjudged_workspace(run.path):
        pass
    assert workspace.is_dir()
    (run.path / "conclude.json").touch()
    with pytest.raises(ZeroDivisionError), direct._removing_unjudged_workspace(run.path):
        raise ZeroDivisionError
    assert workspace.is_dir()
    (run.path / "conclude.json").unlink()
    with pytest.raises(ZeroDivisionError), direct._removing_unjudged_workspace(run.path):
        raise ZeroDivisionError
    assert not workspace.exists()


def test_an_agents_socket_is_seen_only_once_it_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between `bind` and `listen`, a socket refuses connections. A process that saw the socket's file then would
    believe that the cluster agent is dead."""
    place, seen = tmp_path / "agent.sock", list[bool]()

    class Watched(socket.socket):
        def listen(self, backlog: int = 16, /) -> None:
            seen.append(place.exists())
            super().listen(backlog)

    monkeypatch.setattr(lease.socket, "socket", Watched)
    with lease.listening(place):
        assert seen == [False] and place.is_socket()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(place))


def test_a_file_that_is_written_while_a_workspace_is_removed_does_not_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a cluster ends, a step fails and writes its error into the workspace. The cluster agent may remove the
    workspace at the same time."""
    workspace = tmp_path / "ws" / "a1b2c3d4"
    (workspace / "live").mkdir(parents=True)
    signals, remove = Signals(workspace), shutil.rmtree

    def remove_beside_a_writer(path: Path, **more: Any) -> None:
        with pytest.raises(ValueError, match="the cluster ended"), signals.ending("produce"):
            raise ValueError("the cluster ended")
        remove(path, **more)

    monkeypatch.setattr(shutil, "rmtree", remove_beside_a_writer)
    folders.remove_folder(workspace)
    folders.remove_folder(workspace)
    assert list((tmp_path / "ws").iterdir()) == []


def test_the_sweep_takes_what_a_killed_process_left_half_removed() -> None:
    (workspaces.folder() / f".a1b2c3d4.1{folders.REMOVED}" / "data").mkdir(parents=True)
    workspaces.sweep()
    assert list(workspaces.folder().iterdir()) == []


def test_a_passing_workspace_is_swept_only_if_its_process_has_ended() -> None:
    with workspaces.passing() as workspace:
        (workspace / "secret").touch()
        assert workspace.stat().st_mode & 0o777 == 0o700 and workspaces.is_workspace(workspace)
        assert workspaces.sweep() == [] and workspace.is_dir()
        (workspace / workspaces.AWAITED).write_text("1:1")  # a process that has ended
        assert workspaces.sweep() == [workspace]
    with workspaces.passing() as workspace:
        pass
    assert [*workspaces.folder().iterdir()] == []
