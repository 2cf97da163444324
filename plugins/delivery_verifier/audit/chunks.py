"""Chunks of a text file: whole lines, a few megabytes at a time, so that memory stays flat."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CHUNK_BYTES = 8 << 20


class Chunk(NamedTuple):
    """Whole lines of a file. `first` is the number of the first line, from 1. `is_torn`: the last line of the file,
    which has no end of line."""

    data: bytes
    first: int
    is_torn: bool = False

    @property
    def lines(self) -> int:
        return self.data.count(b"\n")


def chunks(file: Path, size: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """Yields the file in chunks that end with a line. What stands behind the last end of line comes last, as a chunk
    that is torn. A byte order mark at the beginning is left out."""
    first, rest = 1, b""
    with file.open("rb") as lines:
        if lines.read(3) != b"\xef\xbb\xbf":
            lines.seek(0)
        while data := lines.read(size):
            data = rest + data
            if b"\r" in data:
                data = data.replace(b"\r\n", b"\n")
            # The other half of an end of line may come with the next block.
            cut = data.rfind(b"\n") + 1
            rest = data[cut:]
            if cut:
                chunk = Chunk(data[:cut], first)
                yield chunk
                first += chunk.lines
    if rest:
        yield Chunk(rest, first, is_torn=True)
