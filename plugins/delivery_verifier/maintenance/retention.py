"""Retention: removes the oldest runs and catalogue runs. Never removes a run that may still be in progress."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

from msgspec import Struct

from delivery_verifier.cluster import lease
from delivery_verifier.host import folders
from delivery_verifier.host.processes import identify, incarnations
from delivery_verifier.run_directory import catalogue_runs, data_docs
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory

IDLE_S = 3600.0
"""A time in seconds. A run without a verdict may still be in progress if its directory changed within this time. A
catalogue run that has not ended may still be in progress if its file catalogue.json changed within this time."""
_PRUNED = ".pruned-"
_PARTIAL = re.compile(r"\.[a-z_]+\.([0-9]+)\.partial")


class Retained(Struct, frozen=True, kw_only=True):
    """A unit of retention: a single run, or a catalogue run with all its runs. A unit stays or is removed as a whole.

    * `path`: the directory of the run or of the catalogue run.
    * `runs`: the run directories of a catalogue run; empty for a single run.
    * `size`: the number of bytes in all directories of the unit.
    * `planned_at`: a time in seconds since the epoch. For a single run: when the run was planned. For a catalogue run:
      when its newest run was planned, or when the catalogue run's record was last written, whichever is later.
    """

    path: Path
    size: int
    planned_at: float
    runs: tuple[Path, ...] = ()


def runs(folder: Path) -> list[Retained]:
    """Returns each run directory in `folder` as a unit of its own. The newest run comes first.

    The result includes the runs that belong to a catalogue run. A run directory is a folder, not a link, in which the
    step `plan` has published scenario.json.
    """
    run_units = []
    for path in folder.iterdir() if folder.is_dir() else ():
        scenario = path / "scenario.json"
        if _is_real_folder(path) and path.name != folders.DATA_DOCS and _is_planned(path):
            run_units.append(Retained(path=path, size=_size(path), planned_at=scenario.stat().st_mtime))
    return sorted(run_units, key=lambda run: (run.planned_at, run.path.name), reverse=True)


def catalogues(folder: Path) -> list[Retained]:
    """Returns each catalogue run below `folder` as a unit, together with the run directories that belong to it."""
    planned = runs(folder)
    catalogue_units = []
    for path in sorted((folder / folders.CATALOGUES).glob("*")):
        if _is_real_folder(path) and (path / catalogue_runs.FILE).is_file():
            members = [run for run in planned if _began_run(path, run.path.name)]
            planned_at = max([(path / catalogue_runs.FILE).stat().st_mtime, *(run.planned_at for run in members)])
            size = _size(path) + sum(run.size for run in members)
            catalogue_units.append(
                Retained(path=path, size=size, planned_at=planned_at, runs=tuple(run.path for run in members))
            )
    return catalogue_units


def units(folder: Path) -> list[Retained]:
    """Returns all units of retention in `folder`. The newest unit comes first.

    A unit is a catalogue run, or a run that belongs to no catalogue run.
    """
    catalogue_units = catalogues(folder)
    member_runs = {run for unit in catalogue_units for run in unit.runs}
    all_units = [*catalogue_units, *(run for run in runs(folder) if run.path not in member_runs)]
    return sorted(all_units, key=lambda unit: (unit.planned_at, unit.path.name), reverse=True)


def surplus(folder: Path, keep: int | None, max_bytes: float | None) -> list[Retained]:
    """Returns the units to remove from `folder`, oldest first.

    The newest units stay: at most `keep` units, and at most `max_bytes` bytes in total. None means no limit. A unit
    that may be in progress counts towards the limits, but is never returned.
    """
    removable, count, size = [], 0, 0
    for unit in units(folder):
        count, size = count + 1, size + unit.size
        beyond = (keep is not None and count > keep) or (max_bytes is not None and size > max_bytes)
        if beyond and not _is_in_progress(unit):
            removable.append(unit)
    return removable[::-1]


def remove(unit: Retained) -> None:
    """Removes the directory of `unit` and then, for a catalogue run, the directories of its runs. Also removes what
    Data Docs have of them.

    Each directory is renamed before its files are removed, so that nobody finds an incomplete run under its name.
    Raises OSError if a directory cannot be removed.
    """
    for path in (unit.path, *unit.runs):
        doomed = path.with_name(f"{_PRUNED}{path.name}-{os.getpid()}")
        path.rename(doomed)
        shutil.rmtree(doomed)
        data_docs.forget(path)


def finish_removals(folder: Path) -> None:
    """Removes the directories in `folder` that interrupted calls of `remove` left behind.

    A directory stays if the process that is removing it still lives. Raises OSError if a directory cannot be removed.
    """
    for remains in (*folder.glob(f"{_PRUNED}*"), *(folder / folders.CATALOGUES).glob(f"{_PRUNED}*")):
        pid = remains.name.rpartition("-")[2]
        if pid.isdigit() and identify(int(pid)) is None:
            shutil.rmtree(remains)


def _is_real_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not path.name.startswith(".")


def _is_in_progress(unit: Retained) -> bool:
    """Returns whether a unit may be in progress. For a single run, returns the result of `in_progress`.

    A catalogue run may be in progress in two cases:

    * One of its runs may be in progress.
    * The catalogue run has not ended, and its file catalogue.json changed within the last hour (IDLE_S).
    """
    if unit.path.parent.name != folders.CATALOGUES:
        return in_progress(unit.path)
    idle = time.time() - (unit.path / catalogue_runs.FILE).stat().st_mtime >= IDLE_S
    return any(in_progress(run) for run in unit.runs) or not (catalogue_runs.has_ended(unit.path) or idle)


def _began_run(catalogue: Path, run: str) -> bool:
    """Returns whether the catalogue run in the directory `catalogue` began the run whose directory is named `run`.

    The answer is yes if `run` begins with the name of `catalogue`, a hyphen, and the name of an entry of the catalogue
    run. The file catalogue.json cannot give the answer, because it names a run only when the run has ended.
    """
    return any(run.startswith(f"{catalogue.name}-{name}") for name in catalogue_runs.names(catalogue))


def in_progress(path: Path) -> bool:
    """Returns whether the run in the run directory `path` may be in progress. The run may be in progress in four cases:

    * A living process is writing the output of a step into the directory.
    * The run holds the host's lock.
    * The run has no verdict, and the process that asked for the run still lives.
    * The run has no verdict, and its directory changed within the last hour (IDLE_S).
    """
    if any(_is_being_written(entry.name) for entry in path.iterdir()):
        return True
    if (lock_owner := lease.lock_owner()) is not None and lock_owner.name == path.name:
        return True
    if (path / "conclude.json").exists():
        return False
    owner = RunDirectory(path).manifest("plan").notes.get("owner", "")
    return incarnations(owner) or time.time() - max(entry.stat().st_mtime for entry in (path, *path.iterdir())) < IDLE_S


def _is_being_written(name: str) -> bool:
    partial = _PARTIAL.fullmatch(name)
    return partial is not None and identify(int(partial[1])) is not None


def _is_planned(path: Path) -> bool:
    try:
        return "scenario.json" in RunDirectory(path).manifest("plan").files
    except IncompleteRun:
        return False


def _size(path: Path) -> int:
    return sum(file.lstat().st_size for file in path.rglob("*"))
