"""The incarnations of members: their folders, how each incarnation ended, and which markers the member applied in each
incarnation."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from delivery_verifier.model.data import dumps

_FILE, _MARKER = "end.json", "marker-"
OFFSET_MOVED, FENCED = 5, 6
"""The exit codes with which a member ends that was fenced, i.e. that learned that another process has taken its place:
by the offset in its database, or by its transactional.id."""


class IncarnationEnd(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How an incarnation of a member ended.

    * `applied`: the number of records that the member counted as applied. If the member was killed, it may have written
      one effect more than it counted. For a user application, the number of effects of all incarnations of the member
      so far.
    * `exit_code`: the exit code of the process, in the form of `Popen.returncode`.
    * `killed`: true if the fault plan asked for the kill, or if the member was killed because it did not end in time.
    * `ended_us`: only for a user application: when the incarnation ended, in µs since the epoch.
    * `sizes`: only for a user application: maps each part of the place of the effects to its size at the end of the
      incarnation. The size is in bytes for a file, in offsets for a partition, and in rows for a table.
    """

    applied: int
    exit_code: int
    killed: bool
    ended_us: int = 0
    sizes: dict[str, int] = {}


def application_folder(workspace: Path, arm: str) -> Path:
    """Returns the folder of an arm's application in `workspace`, the workspace of the run's cluster. This folder holds
    the folders of the application's members."""
    return workspace / "applications" / arm


def folder_of(workspace: Path, arm: str, member: int) -> Path:
    """Returns the folder of a member in `workspace`, the workspace of the run's cluster. `member` is the number of the
    member, from 0."""
    return application_folder(workspace, arm) / str(member)


def members_of(folder: Path) -> dict[int, Path]:
    """Maps the number of each member to the member's folder, in ascending order. `folder` is the folder of the
    application."""
    return _numbered(folder)


def incarnations_of(folder: Path) -> dict[int, Path]:
    """Maps the number of each incarnation of a member to the folder of the incarnation, in ascending order. `folder` is
    the folder of the member."""
    return _numbered(folder)


def _numbered(folder: Path) -> dict[int, Path]:
    """Maps each number that is the name of a subfolder of `folder` to this subfolder, in ascending order."""
    numbers = sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []
    return {number: folder / str(number) for number in numbers}


def write_end(folder: Path, end: IncarnationEnd) -> None:
    """Writes to `folder`, the folder of an incarnation, how the incarnation ended. Whoever waits for the file finds it
    whole."""
    partial = folder / f"{_FILE}.partial"
    partial.write_bytes(dumps(end))
    partial.replace(folder / _FILE)


def has_end(folder: Path) -> bool:
    """Returns whether the supervisor has written down how the incarnation in `folder` ended."""
    return (folder / _FILE).exists()


def read_end(folder: Path) -> IncarnationEnd:
    """Returns how the incarnation in `folder` ended. Raises FileNotFoundError if the supervisor has not written this
    down."""
    return msgspec.json.decode((folder / _FILE).read_bytes(), type=IncarnationEnd)


def note_marker(folder: Path, partition: int, offset: int) -> None:
    """Notes in `folder` that a member of an application has applied the marker at `offset` of `partition`.

    A marker is a record that the verifier writes after the load. `folder` is the folder of one incarnation of the
    member. An incarnation lasts from one start of the member's process until this process ends.
    """
    (folder / f"{_MARKER}{partition}-{offset}").touch()


def last_markers(folder: Path) -> dict[int, int]:
    """Maps each partition to the highest offset at which the member applied a marker of the partition. `folder` is the
    folder of the incarnation in which the member applied them. A partition without an applied marker is missing."""
    names = (file.name.removeprefix(_MARKER).split("-") for file in folder.glob(f"{_MARKER}*"))
    return dict(sorted((int(partition), int(offset)) for partition, offset in names))
