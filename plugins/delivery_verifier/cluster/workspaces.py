"""Workspaces. A workspace is the folder with the data of one cluster. The data may be kept after the cluster has
ended."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.backends import BACKENDS
from delivery_verifier.cluster.layout import KEEPER_SOCKET, KEEPER_SPEC
from delivery_verifier.host import folders, variables
from delivery_verifier.host.processes import identify, lives, myself

KEPT = "KEPT"
"""The name of a file in a workspace. A workspace with this file is kept although its run is over."""
AWAITED = "AWAITED"
"""The name of a file in a workspace. The file identifies the process that will give the verdict of the run, and will
then keep or remove the workspace."""


def folder() -> Path:
    """Returns the folder of all workspaces: the environment variable KDV_WORKSPACES or, if it is unset, a folder in the
    system's temporary folder. The path is short, because the path of a Unix socket has at most 107 bytes."""
    return variables.short_path("KDV_WORKSPACES") or Path(tempfile.gettempdir()) / f"kdv-{os.getuid()}"


def all_workspaces() -> list[Path]:
    """Returns all workspaces in the folder of workspaces. Ignores all other files and folders there."""
    return sorted(filter(is_workspace, folder().iterdir())) if folder().is_dir() else []


def is_workspace(path: Path) -> bool:
    """Whether `path` is a workspace: a folder whose name is eight small letters or digits. It must be empty or contain
    the file `KEEPER_SPEC`."""
    if path.is_symlink() or not path.is_dir() or not re.fullmatch(r"[a-z0-9]{8}", path.name):
        return False
    return (path / KEEPER_SPEC).is_file() or next(path.iterdir(), None) is None


def is_served(workspace: Path) -> bool:
    """Whether a keeper (the process in charge of a cluster) may still run in the workspace. True if the keeper's
    socket exists. A killed keeper leaves its socket behind, so True does not prove that the keeper lives."""
    return (workspace / KEEPER_SOCKET).exists()


def remove(path: Path) -> None:
    """Removes a workspace. Does nothing if `path` is no workspace, because `path` may come from a file with a wrong
    path."""
    if is_workspace(path):
        _erase(path)


def is_kept(workspace: Path) -> bool:
    """Whether a workspace must stay although no keeper (the process in charge of a cluster) serves it. True if the
    workspace is marked as kept, or if the process that will give the verdict of its run still lives."""
    awaited = workspace / AWAITED
    return (workspace / KEPT).exists() or (awaited.is_file() and lives(awaited.read_text()))


def sweep() -> list[Path]:
    """Cleans up after killed runs, and returns the removed workspaces.

    * Removes every workspace that is not kept and has no living keeper.
    * Finishes removals of workspaces that were interrupted.
    * Removes what killed processes left on the host outside workspaces (see `host_leftovers`).
    * Unmounts the disks of kept workspaces that have no living keeper (see `mounted`).
    * Removes the oldest kept workspaces if there are too many (see `trim`).

    The caller must hold the host's lock (lease.acquire_host), because the sweep could otherwise remove the workspace of
    a run whose keeper has not started yet. Raises DeadlinePassed if a disk is still in use.
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
    return [removed for backend in BACKENDS.values() for removed in backend.sweep()]


def host_leftovers() -> list[str]:
    """Returns the names of what killed processes left on the host outside workspaces, e.g. in the packet filter."""
    return [name for backend in BACKENDS.values() for name in backend.leftovers()]


def mounted() -> list[Path]:
    """Returns the kept workspaces whose disks are still mounted because the keeper was killed. A keeper that ends
    normally unmounts the disks."""
    return [
        workspace
        for workspace in all_workspaces()
        if is_kept(workspace) and _is_mounted(workspace) and not _keeper_lives(workspace)
    ]


def unmount() -> list[Path]:
    """Unmounts the disks of the workspaces that `mounted` returns, and returns these workspaces. Keeps the image files,
    which hold the data of the disks. Raises DeadlinePassed if a disk is still in use."""
    workspaces = mounted()
    for workspace in workspaces:
        _release(workspace)
    return workspaces


def sweep_unless_busy() -> list[Path]:
    """Calls `sweep` and returns the removed workspaces. If a run uses the host, does nothing and returns an empty list.

    For use after a run was ended by force, because the keeper of such a run may have had no time to clean up.
    """
    try:
        with lease.acquire_host("a sweep"):
            return sweep()
    except lease.HostBusy:
        return []


def hold(workspace: Path) -> None:
    """Protects a workspace from `sweep` as long as this process lives. This process must be the one that will decide
    the run's verdict. After the verdict, it must call `keep` or `remove`."""
    (workspace / AWAITED).write_text(str(myself()))


def keep(workspace: Path) -> None:
    """Marks a workspace whose run is over as kept. Only the newest kept workspaces stay (see `trim`)."""
    (workspace / KEPT).touch()
    trim()


def trim() -> list[Path]:
    """Removes the oldest kept workspaces. The environment variable KDV_KEPT says how many kept workspaces may stay.
    Returns the removed workspaces."""
    old = sorted(_marked_workspaces(), reverse=True)[variables.workspaces_to_keep() :]
    for _, workspace in old:
        _erase(workspace)
    return [workspace for _, workspace in old]


def _erase(workspace: Path) -> None:
    """Removes a workspace. First unmounts its disks, because a mounted loop device would still use the space of the
    removed image."""
    _release(workspace)
    folders.remove_folder(workspace)


def _release(workspace: Path) -> None:
    for backend in BACKENDS.values():
        backend.release(workspace)


def _is_mounted(workspace: Path) -> bool:
    return any(backend.is_mounted(workspace) for backend in BACKENDS.values())


def _marked_workspaces() -> Iterator[tuple[int, Path]]:
    """Yields (time of the mark, workspace) for every workspace that is marked as kept. Times are in ns since the
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
