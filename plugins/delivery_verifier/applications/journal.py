"""The journal of an incarnation of a member: what the member says that it did. The journal explains a verdict, but no
verdict is based on it.

Each event is a row of 64 bytes, written by one call of `os.write`. A SIGKILL cuts no row in two, because the kernel
cuts a write off only at the end of a page, and 64 divides the size of a page.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Literal, NamedTuple, get_args

What = Literal[
    "started",
    "assigned",
    "revoked",
    "handed_over",
    "committed",
    "stored",
    "parked",
    "closed",
    "error",
    "reported",
    "aborted",
    "fenced",
    "end",
]
"""What happened. `committed`: the answer to a commit came. `stored`: the client refused to store an offset. `error`:
the client reported an error. `reported`: a member keeps its offsets in a database, and has also committed these offsets
to its group, so that they can be watched there. `aborted`: the member aborted its transaction. `fenced`: the member
learned that another process had taken its place for good, and ended. `end`: with enable.partition.eof, the client said
that there is no record behind the last one."""

WHATS: tuple[What, ...] = get_args(What)
_ROW = struct.Struct("<qiiiiqq24s")
FILE = "journal"
"""The name of the journal's file in the folder of an incarnation."""


class Event(NamedTuple):
    """One row of a journal. A number is -1 if the event has no such number.

    * `at_us`: when the event happened, in µs since the epoch.
    * `batch`: the number of the batch within the incarnation, from 0.
    * `first`: the first offset that was handed over. For the events assigned, revoked and end: the offset that the
      client names.
    * `until`: the offset after the last record that was handed over. For the events committed, stored and reported: the
      offset to commit.
    * `answer`: librdkafka's name of the error, `lost` if the partition was lost, or None.
    """

    at_us: int
    what: What
    batch: int = -1
    partition: int = -1
    first: int = -1
    until: int = -1
    answer: str | None = None


class Journal:
    """Writes the journal of an incarnation while the incarnation lasts. `folder` is the folder of the incarnation."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(
        self,
        what: What,
        batch: int = -1,
        partition: int = -1,
        first: int = -1,
        until: int = -1,
        answer: str | None = None,
    ) -> None:
        """Adds an event with the present time. Cuts `answer` off after 24 characters."""
        text = (answer or "").encode()[:24]
        row = _ROW.pack(time.time_ns() // 1000, WHATS.index(what), batch, partition, 0, first, until, text)
        os.write(self._file, row)


def read_journal(folder: Path) -> list[Event]:
    """Returns the events in the journal of an incarnation, in order. `folder` is the folder of the incarnation.

    The list is empty if the incarnation ended before its first event.
    """
    file = folder / FILE
    content = file.read_bytes() if file.exists() else b""
    whole = content[: len(content) - len(content) % _ROW.size]
    return [
        Event(at_us, WHATS[what], batch, partition, first, until, text.rstrip(b"\0").decode() or None)
        for at_us, what, batch, partition, _, first, until, text in _ROW.iter_unpack(whole)
    ]
