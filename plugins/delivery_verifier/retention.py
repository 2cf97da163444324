"""Retention: which run directories go so that the others may stay, and never one that is still being written."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

from msgspec import Struct

from delivery_verifier import home
from delivery_verifier.cluster import lease
from delivery_verifier.processes import ProcessId, identify
from delivery_verifier.runs import IncompleteRun, RunDirectory

IDLE_S = 3600.0
"""A run without a verdict that changed within this time may still be under way."""
_PARTIAL = re.compile(r"\.[a-z_]+\.([0-9]+)\.partial")


class Kept(Struct, frozen=True, kw_only=True):
    """One run directory: its size in bytes, and when it was planned (s since the epoch)."""

    path: Path
    size: int
    planned_at: float


def runs(folder: Path) -> list[Kept]:
    """All run directories of `folder`, newest first: real folders in which `plan` published a scenario."""
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        scenario = path / "scenario.json"
        if path.is_dir() and not path.is_symlink() and path.name != home.DATA_DOCS and _is_planned(path):
            found.append(Kept(path=path, size=_size(path), planned_at=scenario.stat().st_mtime))
    return sorted(found, key=lambda run: (run.planned_at, run.path.name), reverse=True)


def surplus(folder: Path, keep: int | None, max_bytes: float | None) -> list[Kept]:
    """The oldest run directories beyond `keep` runs or `max_bytes` in all. What is in progress counts, and stays."""
    going, count, size = [], 0, 0
    for run in runs(folder):
        count, size = count + 1, size + run.size
        beyond = (keep is not None and count > keep) or (max_bytes is not None and size > max_bytes)
        if beyond and not in_progress(run.path):
            going.append(run)
    return going[::-1]


def remove(run: Kept) -> None:
    """Removes a run directory; it disappears at once under its name. Raises OSError."""
    doomed = run.path.with_name(f".pruned-{run.path.name}-{os.getpid()}")
    run.path.rename(doomed)
    shutil.rmtree(doomed)


def in_progress(path: Path) -> bool:
    """Whether a run may still be at work: by what it writes at this moment, its owner, the host's lock, or its age."""
    if any(_is_written(entry.name) for entry in path.iterdir()):
        return True
    if f"run {path.name}," in (lease.holder() or ""):
        return True
    if (path / "conclude.json").exists():
        return False
    return _owner_lives(path) or time.time() - max(entry.stat().st_mtime for entry in (path, *path.iterdir())) < IDLE_S


def _is_written(name: str) -> bool:
    found = _PARTIAL.fullmatch(name)
    return found is not None and identify(int(found[1])) is not None


def _is_planned(path: Path) -> bool:
    try:
        return "scenario.json" in RunDirectory(path).manifest("plan").files
    except IncompleteRun:
        return False


def _owner_lives(path: Path) -> bool:
    pid, _, started = RunDirectory(path).manifest("plan").notes.get("owner", "").partition(":")
    return pid.isdigit() and started.isdigit() and ProcessId(int(pid), int(started)).alive


def _size(path: Path) -> int:
    return sum(file.lstat().st_size for file in path.rglob("*"))
