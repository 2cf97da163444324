"""Workspaces: where a running cluster's data live, what is left of them, and how much of that is kept."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.embedded import disks, equipment, packet_filter
from delivery_verifier.host import variables
from delivery_verifier.host.processes import identify, lives, myself

KEEPER_SPEC = "keeper.json"
"""What `start_cluster` writes into a workspace before anything else."""
KEPT = "KEPT"
"""Marks a workspace that is kept though its run is over."""
AWAITED = "AWAITED"
"""Names the process that has yet to judge the run of a workspace, and then keeps or removes it."""


def folder() -> Path:
    """Where workspaces live (KDV_WORKSPACES). Short, because a Unix socket's path may have at most 107 bytes."""
    return variables.short_path("KDV_WORKSPACES") or Path(tempfile.gettempdir()) / f"kdv-{os.getuid()}"


def all_workspaces() -> list[Path]:
    """All workspaces that are there. Whatever else stands in the folder is not ours, and is never touched."""
    return sorted(filter(is_workspace, folder().iterdir())) if folder().is_dir() else []


def is_workspace(place: Path) -> bool:
    """Whether this is a workspace: named by a run's token, and holding its keeper's orders (or nothing at all yet)."""
    if place.is_symlink() or not place.is_dir() or not re.fullmatch(r"[a-z0-9]{8}", place.name):
        return False
    return (place / KEEPER_SPEC).is_file() or next(place.iterdir(), None) is None


def remove(place: Path) -> None:
    """Removes a workspace, and nothing that is none: what a file names as one is no leave to remove a folder."""
    if is_workspace(place):
        _erase(place)


def is_kept(workspace: Path) -> bool:
    """Whether it stays though no keeper serves it: it was kept, or whoever is to judge its run still lives."""
    awaited = workspace / AWAITED
    return (workspace / KEPT).exists() or (awaited.is_file() and lives(awaited.read_text()))


def sweep() -> list[Path]:
    """Removes workspaces that nobody keeps and no keeper serves: the second line of defence. Returns them.

    Only for whoever holds the host's lock (lease.acquire_host): a workspace whose keeper has yet to start would
    else be taken for one that was left behind.
    """
    swept = [workspace for workspace in all_workspaces() if not is_kept(workspace) and not _is_served(workspace)]
    for workspace in swept:
        _erase(workspace)
    packet_filter.sweep()
    unmount()
    return [*swept, *equipment.sweep(), *trim()]


def mounted() -> list[Path]:
    """Workspaces that are kept and still have disks mounted, which a keeper that was killed could not release."""
    return [
        workspace
        for workspace in all_workspaces()
        if is_kept(workspace) and disks.mounts(workspace) and not _is_served(workspace)
    ]


def unmount() -> list[Path]:
    """Releases those disks; their images stay. Returns the workspaces. Raises DeadlinePassed where they are still in
    use."""
    left = mounted()
    for workspace in left:
        disks.release(workspace)
    return left


def sweep_unless_busy() -> list[Path]:
    """Sweeps if no run holds the host: for whoever has just ended a run by force, which gives its keeper no time."""
    try:
        with lease.acquire_host("a sweep"):
            return sweep()
    except lease.HostBusy:
        return []


def hold(workspace: Path) -> None:
    """Leaves a workspace alone until this process has judged its run, or ended."""
    (workspace / AWAITED).write_text(str(myself()))


def keep(workspace: Path) -> None:
    """Keeps a workspace whose run is over, among the newest that are kept."""
    (workspace / KEPT).touch()
    trim()


def trim() -> list[Path]:
    """Removes all but the newest workspaces that are kept (KDV_KEPT). Returns them."""
    old = sorted(_kept(), reverse=True)[variables.kept_workspaces() :]
    for _, workspace in old:
        _erase(workspace)
    return [workspace for _, workspace in old]


def _erase(workspace: Path) -> None:
    """Unmounts what is mounted in it first: a loop device would hold the space of a file that nobody sees."""
    disks.release(workspace)
    shutil.rmtree(workspace, ignore_errors=True)


def _kept() -> Iterator[tuple[int, Path]]:
    for workspace in all_workspaces():
        try:
            yield (workspace / KEPT).stat().st_mtime_ns, workspace
        except OSError:
            continue  # not kept, or removed by another at this moment


def _is_served(workspace: Path) -> bool:
    try:
        keeper = int(lease.call(workspace / "keeper.sock", "status", timeout_s=5)["pid"])
    except lease.ClusterGone:
        return False
    return identify(keeper) is not None
