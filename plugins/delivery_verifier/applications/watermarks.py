"""The high watermarks that were seen in the output topics of user applications while they ran.

A high watermark never falls: every replica in the ISR has the records below it. If such records are gone later, the
cluster has lost them, and not the application. So the watermarks that were seen are the evidence against the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_FILE = "watermarks"


class Watermark(NamedTuple):
    """A high watermark: `offset` in a partition, as the leader with the leader epoch `epoch` told it. The epoch is -1
    if the leader did not tell it."""

    partition: int
    epoch: int
    offset: int


class Watermarks:
    """Notes watermarks in a file of `folder`, the folder of an application. Several processes may note watermarks at a
    time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._highest = dict[tuple[int, int], int]()

    def note(self, marks: Iterable[Watermark]) -> None:
        """Notes each of `marks` that is higher than those that were noted before of its partition and epoch."""
        lines = list[str]()
        for mark in marks:
            if mark.offset > self._highest.get((mark.partition, mark.epoch), 0):
                self._highest[mark.partition, mark.epoch] = mark.offset
                lines.append(" ".join(map(str, mark)) + "\n")
        if lines:
            self._folder.mkdir(parents=True, exist_ok=True)
            with (self._folder / _FILE).open("a") as stream:
                stream.write("".join(lines))


def highest_watermarks(folder: Path) -> list[Watermark]:
    """Returns the highest watermark that was noted of each partition and epoch, in their order. `folder`: the folder of
    the application. Raises ValueError if the file was changed."""
    file, highest = folder / _FILE, dict[tuple[int, int], int]()
    for line in file.read_text().splitlines() if file.exists() else ():
        partition, epoch, offset = map(int, line.split())
        highest[partition, epoch] = max(offset, highest.get((partition, epoch), 0))
    return [Watermark(*key, offset) for key, offset in sorted(highest.items())]
