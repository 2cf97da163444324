"""Retention: which run directories go so that the others may stay, and never one that is still being written."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

from msgspec import Struct

from delivery_verifier.cluster import lease
from delivery_verifier.host import folders
from delivery_verifier.host.processes import identify, lives
from delivery_verifier.store import catalogue_runs
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory

IDLE_S = 3600.0
"""A run without a verdict that changed within this time may still be under way."""
_PRUNED = ".pruned-"
_PARTIAL = re.compile(r"\.[a-z_]+\.([0-9]+)\.partial")


class Kept(Struct, frozen=True, kw_only=True):
    """What stays or goes as one: a run directory, or a catalogue run with the run directories of its scenarios
    (`runs`).

    `size` in bytes, of all together; `planned_at` in s since the epoch.
    """

    path: Path
    size: int
    planned_at: float
    runs: tuple[Path, ...] = ()


def runs(folder: Path) -> list[Kept]:
    """All run directories of `folder`, newest first: real folders in which `plan` published a scenario."""
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        scenario = path / "scenario.json"
        if _is_whole(path) and path.name != folders.DATA_DOCS and _is_planned(path):
            found.append(Kept(path=path, size=_size(path), planned_at=scenario.stat().st_mtime))
    return sorted(found, key=lambda run: (run.planned_at, run.path.name), reverse=True)


def catalogues(folder: Path) -> list[Kept]:
    """All catalogue runs below `folder`, each with the run directories of its scenarios."""
    planned = runs(folder)
    found = []
    for path in sorted((folder / folders.CATALOGUES).glob("*")):
        if _is_whole(path) and (path / catalogue_runs.FILE).is_file():
            theirs = [run for run in planned if _is_of(path, run.path.name)]
            at = max([(path / catalogue_runs.FILE).stat().st_mtime, *(run.planned_at for run in theirs)])
            size = _size(path) + sum(run.size for run in theirs)
            found.append(Kept(path=path, size=size, planned_at=at, runs=tuple(run.path for run in theirs)))
    return found


def kept(folder: Path) -> list[Kept]:
    """Whatever stays or goes as one, newest first: a run of a catalogue run is kept or removed with it, never by
    itself."""
    whole = catalogues(folder)
    theirs = {run for one in whole for run in one.runs}
    found = [*whole, *(run for run in runs(folder) if run.path not in theirs)]
    return sorted(found, key=lambda one: (one.planned_at, one.path.name), reverse=True)


def surplus(folder: Path, keep: int | None, max_bytes: float | None) -> list[Kept]:
    """The oldest runs and catalogue runs beyond `keep` of them or `max_bytes` in all. What is in progress counts, and
    stays."""
    going, count, size = [], 0, 0
    for one in kept(folder):
        count, size = count + 1, size + one.size
        beyond = (keep is not None and count > keep) or (max_bytes is not None and size > max_bytes)
        if beyond and not _at_work(one):
            going.append(one)
    return going[::-1]


def remove(one: Kept) -> None:
    """Removes a run directory, or a catalogue run and then its runs; each disappears at once under its name. Raises
    OSError."""
    for path in (one.path, *one.runs):
        doomed = path.with_name(f"{_PRUNED}{path.name}-{os.getpid()}")
        path.rename(doomed)
        shutil.rmtree(doomed)


def finish(folder: Path) -> None:
    """Removes what interrupted removals left of run directories and catalogue runs. Raises OSError."""
    for half in (*folder.glob(f"{_PRUNED}*"), *(folder / folders.CATALOGUES).glob(f"{_PRUNED}*")):
        pid = half.name.rpartition("-")[2]
        if pid.isdigit() and identify(int(pid)) is None:
            shutil.rmtree(half)


def _is_whole(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not path.name.startswith(".")


def _at_work(one: Kept) -> bool:
    """Whether a run is in progress, or any of a catalogue run, or that may have more to come."""
    if one.path.parent.name != folders.CATALOGUES:
        return in_progress(one.path)
    idle = time.time() - (one.path / catalogue_runs.FILE).stat().st_mtime >= IDLE_S
    return any(in_progress(run) for run in one.runs) or not (catalogue_runs.has_ended(one.path) or idle)


def _is_of(catalogue: Path, run: str) -> bool:
    """Whether a run was begun by a catalogue run, also one that is not written down there yet."""
    return any(run.startswith(f"{catalogue.name}-{name}") for name in catalogue_runs.names(catalogue))


def in_progress(path: Path) -> bool:
    """Whether a run may still be at work: by what it writes at this moment, its owner, the host's lock, or its age."""
    if any(_is_written(entry.name) for entry in path.iterdir()):
        return True
    if f"run {path.name}," in (lease.holder() or ""):
        return True
    if (path / "conclude.json").exists():
        return False
    owner = RunDirectory(path).manifest("plan").notes.get("owner", "")
    return lives(owner) or time.time() - max(entry.stat().st_mtime for entry in (path, *path.iterdir())) < IDLE_S


def _is_written(name: str) -> bool:
    found = _PARTIAL.fullmatch(name)
    return found is not None and identify(int(found[1])) is not None


def _is_planned(path: Path) -> bool:
    try:
        return "scenario.json" in RunDirectory(path).manifest("plan").files
    except IncompleteRun:
        return False


def _size(path: Path) -> int:
    return sum(file.lstat().st_size for file in path.rglob("*"))
