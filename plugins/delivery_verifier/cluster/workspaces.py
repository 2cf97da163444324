"""Workspaces. A workspace is the folder with the data of one cluster. It may be kept after the cluster has ended."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from delivery_verifier.cluster import kept_secrets, lease
from delivery_verifier.cluster.backends import owning_backends
from delivery_verifier.cluster.layout import AGENT_SOCKET, AGENT_SPEC
from delivery_verifier.host import folders, variables
from delivery_verifier.host.processes import identify, incarnations, myself

KEPT = "KEPT"
"""The name of a file in a workspace. A workspace with this file is kept although its run is over."""
AWAITED = "AWAITED"
"""The name of a file in a workspace. The file identifies the process that will give the verdict of the run, and will
then keep or remove the workspace."""


def folder() -> Path:
    """Returns the folder that holds all workspaces. The environment variable KDV_WORKSPACES names this folder. If the
    variable is unset, it is a folder in the system's temporary folder.

    The path is short, because the path of a Unix socket has at most 107 bytes.
    """
    return variables.short_path("KDV_WORKSPACES") or Path(tempfile.gettempdir()) / f"kdv-{os.getuid()}"


def all_workspaces() -> list[Path]:
    """Returns all workspaces in the folder of workspaces. Ignores all other files and folders there."""
    return sorted(filter(is_workspace, folder().iterdir())) if folder().is_dir() else []


def is_workspace(path: Path) -> bool:
    """Returns whether `path` is a workspace: a folder whose name has eight characters, small letters or digits. The
    folder must be empty or contain the file `AGENT_SPEC`."""
    if path.is_symlink() or not path.is_dir() or not re.fullmatch(r"[a-z0-9]{8}", path.name):
        return False
    return (path / AGENT_SPEC).is_file() or next(path.iterdir(), None) is None


def is_served(workspace: Path) -> bool:
    """Returns whether the workspace contains the socket of a cluster agent, which is the process in charge of a
    cluster.

    If there is a socket, the cluster agent may still run. But a killed cluster agent leaves its socket behind.
    """
    return (workspace / AGENT_SOCKET).exists()


def remove(path: Path) -> None:
    """Removes the workspace at `path`. Does nothing if `path` is not a workspace, because the caller may have read a
    wrong path from a file."""
    if is_workspace(path):
        _erase(path)


def is_kept(workspace: Path) -> bool:
    """Returns whether a workspace must stay even if it has no cluster agent any more. A cluster agent is the process in
    charge of a cluster.

    A workspace must stay if it is marked as kept. A workspace must also stay as long as the process that will give its
    run's verdict is alive.
    """
    awaited = workspace / AWAITED
    return (workspace / KEPT).exists() or (awaited.is_file() and incarnations(awaited.read_text()))


def sweep() -> list[Path]:
    """Cleans up after killed runs, and returns the removed workspaces.

    * Removes every workspace that is not kept and has no living cluster agent.
    * Finishes interrupted removals of workspaces.
    * Removes what killed processes left on the host outside workspaces (see `host_leftovers`).
    * Unmounts the disks of kept workspaces that have no living cluster agent (see `mounted`).
    * Removes the oldest kept workspaces if there are too many (see `trim`).

    The caller must hold the host's lock (lease.acquire_host). Otherwise the sweep could remove the workspace of a run
    whose cluster agent has not started yet. Raises DeadlinePassed if a disk is still in use.
    """
    swept = [workspace for workspace in all_workspaces() if not is_kept(workspace) and not _agent_lives(workspace)]
    for workspace in swept:
        _erase(workspace)
    for half_removed in folder().glob(f".*{folders.REMOVED}"):
        shutil.rmtree(half_removed, ignore_errors=True)
    sweep_host()
    unmount()
    return [*swept, *trim()]


def sweep_host() -> list[str]:
    """Removes everything that `host_leftovers` names. Returns a description of each removed thing."""
    return [removed for backend in owning_backends() for removed in backend.sweep()]


def host_leftovers() -> list[str]:
    """Returns the names of things that killed processes left on the host outside workspaces, e.g. in the packet
    filter."""
    return [name for backend in owning_backends() for name in backend.leftovers()]


def mounted() -> list[Path]:
    """Returns the kept workspaces whose disks are still mounted although their cluster agent has ended.

    A cluster agent that is killed cannot unmount the disks. A cluster agent that ends normally unmounts them.
    """
    return [
        workspace
        for workspace in all_workspaces()
        if is_kept(workspace) and _is_mounted(workspace) and not _agent_lives(workspace)
    ]


def unmount() -> list[Path]:
    """Unmounts the disks of the workspaces that `mounted` returns. Returns these workspaces.

    Keeps the image files, which hold the data of the disks. Raises DeadlinePassed if a disk is still in use.
    """
    workspaces = mounted()
    for workspace in workspaces:
        _release(workspace)
    return workspaces


def sweep_unless_busy() -> list[Path]:
    """Calls `sweep`, and returns the removed workspaces. If a run uses the host, does nothing and returns an empty
    list.

    Call this function after a run was ended by force, because the cluster agent of such a run may have had no time to
    clean up.
    """
    try:
        with lease.acquire_host("a sweep"):
            return sweep()
    except lease.HostBusy:
        return []


def hold(workspace: Path) -> None:
    """Protects a workspace from `sweep` as long as this process lives.

    The process that will decide the run's verdict must call this function. After the verdict, the process must call
    `keep` or `remove`.
    """
    (workspace / AWAITED).write_text(str(myself()))


@contextmanager
def passing() -> Iterator[Path]:
    """Yields a workspace without a cluster, for what this process keeps secret while the block runs.

    If the process is killed, the next sweep removes it. It gets its name only when it is held, so that no sweep takes
    it before.
    """
    folder().mkdir(parents=True, exist_ok=True)
    unnamed = Path(tempfile.mkdtemp(prefix=".passing-", dir=folder()))
    hold(unnamed)
    (unnamed / AGENT_SPEC).touch()
    workspace = unnamed.rename(folder() / secrets.token_hex(4))
    try:
        yield workspace
    finally:
        remove(workspace)


def keep(workspace: Path) -> None:
    """Marks the workspace of a run that is over as kept, and takes the secrets out of it. Then removes the oldest kept
    workspaces (see `trim`)."""
    kept_secrets.remove(workspace)
    (workspace / KEPT).touch()
    trim()


def trim() -> list[Path]:
    """Removes the oldest kept workspaces if there are more than KDV_KEPT allows. Returns the removed workspaces."""
    old = sorted(_marked_workspaces(), reverse=True)[variables.workspaces_to_keep() :]
    for _, workspace in old:
        _erase(workspace)
    return [workspace for _, workspace in old]


def _erase(workspace: Path) -> None:
    """Removes a workspace. First unmounts the workspace's disks, because a mounted loop device would still use the
    space of the removed image."""
    _release(workspace)
    folders.remove_folder(workspace)


def _release(workspace: Path) -> None:
    for backend in owning_backends():
        backend.release(workspace)


def _is_mounted(workspace: Path) -> bool:
    return any(backend.is_mounted(workspace) for backend in owning_backends())


def _marked_workspaces() -> Iterator[tuple[int, Path]]:
    """Yields (time of the mark, workspace) for every workspace that is marked as kept. The times are in ns since the
    epoch."""
    for workspace in all_workspaces():
        try:
            yield (workspace / KEPT).stat().st_mtime_ns, workspace
        except OSError:
            continue  # not kept, or removed by another process at this moment


def _agent_lives(workspace: Path) -> bool:
    try:
        agent = int(lease.call(workspace / AGENT_SOCKET, "status", timeout_s=5)["pid"])
    except lease.ClusterGone:
        return False
    return identify(agent) is not None
