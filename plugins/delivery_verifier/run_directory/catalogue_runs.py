"""The records of catalogue runs. A catalogue run runs chosen entries of the catalogue one after another.

Each catalogue run has a folder. The file catalogue.json in this folder says which entries were chosen, and how each
entry ended.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from delivery_verifier.host import folders
from delivery_verifier.model.catalogue_run import CatalogueRun
from delivery_verifier.model.data import dumps
from delivery_verifier.model.inputs import bad_input, nearest

FILE, PAGE = "catalogue.json", "matrix.html"


def folder() -> Path:
    """Returns the folder of all catalogue runs. It is beside the run directories."""
    return folders.runs_dir() / folders.CATALOGUES


def directory(name: str) -> Path:
    """Returns the directory of the catalogue run called `name`."""
    return folder() / name


def write(catalogue: CatalogueRun) -> None:
    """Writes `catalogue` to the file catalogue.json of the catalogue run. Replaces the file as a whole, so no reader
    sees half a file."""
    target = directory(catalogue.id)
    target.mkdir(parents=True, exist_ok=True)
    partial = target / f".{FILE}.{os.getpid()}.partial"
    partial.write_bytes(dumps(catalogue))
    os.replace(partial, target / FILE)


def read(name: str) -> CatalogueRun:
    """Reads the catalogue run called `name`. Raises BadInput if there is no such run, or if its file is damaged."""
    known = [file.parent.name for file in _files()]
    if name not in known:
        near = nearest(name, known)
        remedy = f"did you mean {near}?" if near else f"{folder()} holds {len(known)}"
        raise bad_input("catalogue run", name, "the name of a catalogue run", remedy)
    try:
        return msgspec.json.decode((directory(name) / FILE).read_bytes(), type=CatalogueRun)
    except msgspec.MsgspecError as error:
        raise bad_input("catalogue run", name, "one whose catalogue.json is whole", f"it is damaged: {error}") from None


def _files() -> list[Path]:
    """Returns the files of all catalogue runs, except catalogue runs that are being removed."""
    return [file for file in folder().glob(f"*/{FILE}") if not file.parent.name.startswith(".")]


def newest(most: int) -> list[CatalogueRun]:
    """Returns the catalogue runs with the newest files, at most `most`. If one of these files is damaged, leaves out
    its catalogue run, and the result is shorter.

    The catalogue run that started last comes first.
    """
    files = sorted(_files(), key=lambda file: file.stat().st_mtime, reverse=True)[:most]
    runs = []
    for file in files:
        with suppress(OSError, msgspec.MsgspecError):
            runs.append(msgspec.json.decode(file.read_bytes(), type=CatalogueRun))
    return sorted(runs, key=lambda run: (run.started_at, run.id), reverse=True)


class _Item(Struct, frozen=True):
    """One chosen entry of the catalogue. `name` is the name of the entry's scenario."""

    name: str = ""


class _Summary(Struct, frozen=True):
    """The part of a catalogue.json that can be read in every version, even if other fields are damaged.

    `ended_at` is empty until the catalogue run has ended.
    """

    items: list[_Item] = []
    ended_at: str = ""


def names(path: Path) -> tuple[str, ...]:
    """Returns the names of the entries that were chosen for the catalogue run in the folder `path`, each name once.

    The result is empty if the file catalogue.json cannot be read.
    """
    return tuple(dict.fromkeys(item.name for item in _summary(path).items if item.name))


def has_ended(path: Path) -> bool:
    """Returns whether the catalogue run in the folder `path` has ended. True also if its catalogue.json cannot be
    read."""
    return bool(_summary(path).ended_at)


def _summary(path: Path) -> _Summary:
    """Reads the summary of the catalogue run in the folder `path`. If the file cannot be read, the run counts as
    ended."""
    try:
        return msgspec.json.decode((path / FILE).read_bytes(), type=_Summary)
    except (OSError, msgspec.MsgspecError):
        return _Summary(ended_at="unknown")
