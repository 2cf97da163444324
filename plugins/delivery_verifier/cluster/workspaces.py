"""Workspaces: the folders with the data of running clusters, and of ended ones that are kept."""

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
from delivery_verifier.host import variables
from delivery_verifier.host.processes import identify, lives, myself

KEPT = "KEPT"
"""The file that marks a workspace which is kept though its run is over."""
AWAITED = "AWAITED"
"""The file that names the process which will judge the run of a workspace, and then keep or remove the workspace."""


def folder() -> Path:
    """Where workspaces are (KDV_WORKSPACES). The path is short, because a Unix socket's path has at most 107 bytes."""
    return variables.short_path("KDV_WORKSPACES") or Path(tempfile.gettempdir()) / f"kdv-{os.getuid()}"


def all_workspaces() -> list[Path]:
    """All workspaces. Whatever else is in the folder is not the verifier's, and is never touched."""
    return sorted(filter(is_workspace, folder().iterdir())) if folder().is_dir() else []


def is_workspace(path: Path) -> bool:
    """Whether `path` is a workspace: a folder with the name of a run's token, which has a keeper spec or is empty."""
    if path.is_symlink() or not path.is_dir() or not re.fullmatch(r"[a-z0-9]{8}", path.name):
        return False
    return (path / KEEPER_SPEC).is_file() or next(path.iterdir(), None) is None


def is_served(workspace: Path) -> bool:
    """Whether a keeper may still serve the workspace: its socket is there."""
    return (workspace / KEEPER_SOCKET).exists()


def remove(path: Path) -> None:
    """Removes a workspace. Does nothing if `path` is no workspace: a file may name any folder as one."""
    if is_workspace(path):
        _erase(path)


def is_kept(workspace: Path) -> bool:
    """Whether a workspace stays though no keeper serves it: it is marked as kept, or the process that will judge its
    run still lives."""
    awaited = workspace / AWAITED
    return (workspace / KEPT).exists() or (awaited.is_file() and lives(awaited.read_text()))


def sweep() -> list[Path]:
    """Removes workspaces that are not kept and have no keeper, and what dead runs left on the host.

    Returns the removed workspaces.

    This is the second line of defence, behind the keeper. Only a process that holds the host's lock
    (lease.acquire_host) may sweep: any other sweep could remove the workspace of a run whose keeper has yet to start.
    """
    swept = [workspace for workspace in all_workspaces() if not is_kept(workspace) and not _keeper_lives(workspace)]
    for workspace in swept:
        _erase(workspace)
    sweep_host()
    unmount()
    return [*swept, *trim()]


def sweep_host() -> list[str]:
    """Removes what dead runs left on the host outside workspaces. Returns what was removed, in words."""
    return [removed for backend in BACKENDS.values() for removed in backend.sweep()]


def host_leftovers() -> list[str]:
    """Names of what dead runs left on the host outside workspaces."""
    return [name for backend in BACKENDS.values() for name in backend.leftovers()]


def mounted() -> list[Path]:
    """Workspaces that are kept and still have disks mounted: their keeper was killed and could not unmount them."""
    return [
        workspace
        for workspace in all_workspaces()
        if is_kept(workspace) and _is_mounted(workspace) and not _keeper_lives(workspace)
    ]


def unmount() -> list[Path]:
    """Unmounts the disks of the workspaces that `mounted` names; the images of the disks stay. Returns the workspaces.
    Raises DeadlinePassed where a disk is still in use."""
    workspaces = mounted()
    for workspace in workspaces:
        _release(workspace)
    return workspaces


def sweep_unless_busy() -> list[Path]:
    """Sweeps if no run holds the host. For use after a run was ended by force, so that its keeper had no time to clear
    up."""
    try:
        with lease.acquire_host("a sweep"):
            return sweep()
    except lease.HostBusy:
        return []


def hold(workspace: Path) -> None:
    """Keeps a workspace until this process has judged its run, or has ended."""
    (workspace / AWAITED).write_text(str(myself()))


def keep(workspace: Path) -> None:
    """Marks a workspace whose run is over as kept. Only the newest of them stay (see `trim`)."""
    (workspace / KEPT).touch()
    trim()


def trim() -> list[Path]:
    """Removes all but the newest kept workspaces (KDV_KEPT says how many stay). Returns those removed."""
    old = sorted(_marked_workspaces(), reverse=True)[variables.workspaces_to_keep() :]
    for _, workspace in old:
        _erase(workspace)
    return [workspace for _, workspace in old]


def _erase(workspace: Path) -> None:
    """Removes a workspace. Its disks are unmounted first: a loop device would go on using the space of a removed
    image."""
    _release(workspace)
    shutil.rmtree(workspace, ignore_errors=True)


def _release(workspace: Path) -> None:
    for backend in BACKENDS.values():
        backend.release(workspace)


def _is_mounted(workspace: Path) -> bool:
    return any(backend.is_mounted(workspace) for backend in BACKENDS.values())


def _marked_workspaces() -> Iterator[tuple[int, Path]]:
    """Every workspace that is marked as kept, behind the time of its mark (ns since the epoch)."""
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
