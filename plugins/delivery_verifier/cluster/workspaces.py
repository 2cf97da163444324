"""Workspaces. A workspace is the folder with the data of one cluster. It may be kept after the cluster has ended."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from delivery_verifier.cluster import kept_secrets, lease
from delivery_verifier.cluster.backends import owning_backends
from delivery_verifier.cluster.layout import KEEPER_SOCKET, KEEPER_SPEC
from delivery_verifier.host import folders, variables
from delivery_verifier.host.processes import identify, lives, myself

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
    folder must be empty or contain the file `KEEPER_SPEC`."""
    if path.is_symlink() or not path.is_dir() or not re.fullmatch(r"[a-z0-9]{8}", path.name):
        return False
    return (path / KEEPER_SPEC).is_file() or next(path.iterdir(), None) is None


def is_served(workspace: Path) -> bool:
    """Returns whether the workspace contains the socket of a keeper, which is the process in charge of a cluster.

    If there is a socket, the keeper may still run. But a killed keeper leaves its socket behind.
    """
    return (workspace / KEEPER_SOCKET).exists()


def remove(path: Path) -> None:
    """Removes the workspace at `path`. Does nothing if `path` is not a workspace, because the caller may have read a
    wrong path from a file."""
    if is_workspace(path):
        _erase(path)


def is_kept(workspace: Path) -> bool:
    """Returns whether a workspace must stay even if it has no keeper any more. A keeper is the process in charge of a
    cluster.

    A workspace must stay if it is marked as kept. A workspace must also stay as long as the process that will give its
    run's verdict is alive.
    """
    awaited = workspace / AWAITED
    return (workspace / KEPT).exists() or (awaited.is_file() and lives(awaited.read_text()))


def sweep() -> list[Path]:
    """Cleans up after killed runs, and returns the removed workspaces.

    * Removes every workspace that is not kept and has no living keeper.
    * Finishes interrupted removals of workspaces.
    * Removes what killed processes left on the host outside workspaces (see `host_leftovers`).
    * Unmounts the disks of kept workspaces that have no living keeper (see `mounted`).
    * Removes the oldest kept workspaces if there are too many (see `trim`).

    The caller must hold the host's lock (lease.acquire_host). Otherwise the sweep could remove the workspace of a run
    whose keeper has not started yet. Raises DeadlinePassed if a disk is still in use.
    """
    swept = [workspace for workspace in all_workspaces() if not is_kept(workspace) and not _keeper_lives(workspace)]
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
    """Returns the kept workspaces whose disks are still mounted although their keeper has ended.

    A keeper that is killed cannot unmount the disks. A keeper that ends normally unmounts them.
    """
    return [
        workspace
        for workspace in all_workspaces()
        if is_kept(workspace) and _is_mounted(workspace) and not _keeper_lives(workspace)
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

    Call this function after a run was ended by force, because the keeper of such a run may have had no time to clean
    up.
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


def _keeper_lives(workspace: Path) -> bool:
    try:
        keeper = int(lease.call(workspace / KEEPER_SOCKET, "status", timeout_s=5)["pid"])
    except lease.ClusterGone:
        return False
    return identify(keeper) is not None
