"""Workspaces. A workspace is the folder with the data of one cluster: of a running cluster, or of an ended cluster
whose data are kept."""

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
"""The name of the file that marks a workspace as kept, although its run is over."""
AWAITED = "AWAITED"
"""The name of the file that holds the identity of the process that will judge the run of a workspace. This process then
keeps or removes the workspace."""


def folder() -> Path:
    """Returns the folder of all workspaces (KDV_WORKSPACES). Its path is short, because a Unix socket's path has at
    most 107 bytes."""
    return variables.short_path("KDV_WORKSPACES") or Path(tempfile.gettempdir()) / f"kdv-{os.getuid()}"


def all_workspaces() -> list[Path]:
    """Returns all workspaces. Anything else in the folder does not belong to the verifier, and is never touched."""
    return sorted(filter(is_workspace, folder().iterdir())) if folder().is_dir() else []


def is_workspace(path: Path) -> bool:
    """Whether `path` is a workspace: a folder that is empty or contains the file `KEEPER_SPEC`, and whose name is eight
    small letters or digits."""
    if path.is_symlink() or not path.is_dir() or not re.fullmatch(r"[a-z0-9]{8}", path.name):
        return False
    return (path / KEEPER_SPEC).is_file() or next(path.iterdir(), None) is None


def is_served(workspace: Path) -> bool:
    """Whether a keeper may still serve the workspace, i.e. whether the keeper's socket exists. A killed keeper leaves
    its socket behind."""
    return (workspace / KEEPER_SOCKET).exists()


def remove(path: Path) -> None:
    """Removes a workspace. Does nothing if `path` is no workspace: the path may come from a file, and such a file may
    name any folder."""
    if is_workspace(path):
        _erase(path)


def is_kept(workspace: Path) -> bool:
    """Whether a workspace must stay although no keeper serves it. True if the workspace is marked as kept, or if the
    process that will judge its run still lives."""
    awaited = workspace / AWAITED
    return (workspace / KEPT).exists() or (awaited.is_file() and lives(awaited.read_text()))


def sweep() -> list[Path]:
    """Removes workspaces that are not kept and have no keeper, superfluous kept workspaces (see `trim`), and what
    killed runs left on the host. Unmounts the disks of kept workspaces without a keeper. Returns the removed
    workspaces.

    A keeper normally removes all this itself. The sweep is for keepers that were killed. Only a process that holds the
    host's lock (lease.acquire_host) may sweep: any other sweep could remove the workspace of a run whose keeper has yet
    to start.
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
    """Removes what `host_leftovers` names. Returns what was removed, in words."""
    return [removed for backend in BACKENDS.values() for removed in backend.sweep()]


def host_leftovers() -> list[str]:
    """Returns the names of what killed processes left on the host outside workspaces, e.g. in the packet filter."""
    return [name for backend in BACKENDS.values() for name in backend.leftovers()]


def mounted() -> list[Path]:
    """Returns the kept workspaces whose disks are still mounted. Their keeper was killed, and so could not unmount the
    disks."""
    return [
        workspace
        for workspace in all_workspaces()
        if is_kept(workspace) and _is_mounted(workspace) and not _keeper_lives(workspace)
    ]


def unmount() -> list[Path]:
    """Unmounts the disks of the workspaces that `mounted` returns. The image files with the disks' data stay. Returns
    these workspaces. Raises DeadlinePassed if a disk is still in use."""
    workspaces = mounted()
    for workspace in workspaces:
        _release(workspace)
    return workspaces


def sweep_unless_busy() -> list[Path]:
    """Calls `sweep`, unless a run uses the host. Returns the removed workspaces. Called after a run was ended by force,
    because the keeper of such a run had no time to clean up."""
    try:
        with lease.acquire_host("a sweep"):
            return sweep()
    except lease.HostBusy:
        return []


def hold(workspace: Path) -> None:
    """Protects a workspace from every sweep as long as this process lives. For the process that will judge the run: it
    then calls `keep` or `remove`."""
    (workspace / AWAITED).write_text(str(myself()))


def keep(workspace: Path) -> None:
    """Marks a workspace whose run is over as kept. Only the newest kept workspaces stay (see `trim`)."""
    (workspace / KEPT).touch()
    trim()


def trim() -> list[Path]:
    """Removes all kept workspaces except the newest (KDV_KEPT says how many stay). Returns the removed workspaces."""
    old = sorted(_marked_workspaces(), reverse=True)[variables.workspaces_to_keep() :]
    for _, workspace in old:
        _erase(workspace)
    return [workspace for _, workspace in old]


def _erase(workspace: Path) -> None:
    """Removes a workspace. First unmounts its disks: otherwise a loop device would go on using the space of the removed
    image."""
    _release(workspace)
    folders.remove_folder(workspace)


def _release(workspace: Path) -> None:
    for backend in BACKENDS.values():
        backend.release(workspace)


def _is_mounted(workspace: Path) -> bool:
    return any(backend.is_mounted(workspace) for backend in BACKENDS.values())


def _marked_workspaces() -> Iterator[tuple[int, Path]]:
    """Yields every workspace that is marked as kept, preceded by the time of the mark (ns since the epoch)."""
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
