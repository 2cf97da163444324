"""The journal of a life: what a member says that it did. It explains a verdict, and is never the basis of a verdict.

Each event is a row of 64 bytes, written by one call of `os.write`. The kernel cuts a write off only at the end of a
page, so that a SIGKILL cuts no row in two.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from typing import Literal, NamedTuple, get_args

What = Literal["started", "assigned", "revoked", "handed_over", "committed", "stored", "parked", "closed", "error"]
"""What happened. `committed`: the answer to a commit came. `error`: the client reported an error."""

WHATS: tuple[What, ...] = get_args(What)
_ROW = struct.Struct("<qiiiiqq24s")
FILE = "journal"
"""The name of the journal's file in the folder of a life."""


class Event(NamedTuple):
    """One row of a journal.

    `at_us` is in µs since the epoch. `batch` is the number of the batch within the life, from 0. `first` and `until`
    are offsets: of the first record handed over, or the first asked for, and behind the last record, or committed.
    `answer` is librdkafka's name of an error, or None. A number is -1 where it does not apply.
    """

    at_us: int
    what: What
    batch: int = -1
    partition: int = -1
    first: int = -1
    until: int = -1
    answer: str | None = None


class Journal:
    """The journal of a life, which is under way. `folder` is the folder of the life."""

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
        """Adds an event that happens now. An `answer` is cut off after 24 characters."""
        text = (answer or "").encode()[:24]
        row = _ROW.pack(time.time_ns() // 1000, WHATS.index(what), batch, partition, 0, first, until, text)
        os.write(self._file, row)


def read_journal(folder: Path) -> list[Event]:
    """Returns the events in the journal of a life, in order. `folder` is the folder of the life.

    The list is empty if the life ended before its first event.
    """
    file = folder / FILE
    content = file.read_bytes() if file.exists() else b""
    whole = content[: len(content) - len(content) % _ROW.size]
    return [
        Event(at_us, WHATS[what], batch, partition, first, until, text.rstrip(b"\0").decode() or None)
        for at_us, what, batch, partition, _, first, until, text in _ROW.iter_unpack(whole)
    ]
