"""The live ledger: one producer's attempts in memory-mapped slots.

Because the slots are mapped, an acknowledgement that the delivery callback saw survives a SIGKILL of the producer. A
producer's folder holds `control` (int64 words, see `Word`) and segments of `SLOTS` attempts. A segment holds three
int64 columns: result, sent (ns since the epoch), settled (ns since the epoch). Only segments with outstanding attempts
stay mapped, so memory does not grow with the load.
"""

from __future__ import annotations

import mmap
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from delivery_verifier.model.outcomes import Outcome

SHIFT = 17
SLOTS = 1 << SHIFT
MASK = SLOTS - 1

# `result` of a slot: 0 is open, n > 0 is acknowledged at offset n - 1. The values below zero are:
ACKED_NOWHERE = -1
"""Acknowledged without an offset (an idempotent retry that the broker recognised as a duplicate)."""
SENT = -2
"""Handed to the network with acks=0: no broker acknowledges anything."""
FAILED = -10_000
"""Certainly not written. The result is FAILED - code, with librdkafka's error code (-1000 < code < 1000)."""
FAILED_UP_TO = -5_000
"""Results above NEVER_KNOWN, up to this one, are FAILED."""
INDETERMINATE = -20_000
"""Ended with an error that does not tell whether it was written. The result is INDETERMINATE - code."""
NEVER_KNOWN = -15_000
"""Results up to this one are INDETERMINATE."""


class Word(IntEnum):
    """Words of a producer's control block. The producer writes them, except where a word says who does."""

    ANNOUNCED = 0
    """First attempts that may have been sent. Written before they are handed over to the client: the intent."""
    ATTEMPTED = 1
    """The producer's own count of its attempts, written at its exit; -1 until then."""
    REPORTED = 2
    """Attempts that the client reported as acknowledged, or as sent with acks=0."""
    FAILED = 3
    INDETERMINATE = 4
    STATE = 5
    GATE = 6
    """The gate up to which the producer may go. Written by the supervisor."""
    DUE = 7
    """Scripted load: records that may be sent after the warm-up. Written by the fault plan."""
    HANDED_OVER = 8
    """Scripted load: records that were handed over to the client after the warm-up."""
    RESENT = 9
    """Attempts of all rounds of resends. Like ANNOUNCED, this word is written before the attempts are handed over."""
    KILLS = 10
    """How often the fault plan asked the supervisor to kill the producer. Written by the fault plan."""
    STARTS = 11
    """How often the fault plan asked the supervisor to start the killed producer again. Written by the fault plan.

    Equal to KILLS, or one less while the producer shall be dead.
    """
    EXIT = 12
    """The exit code of the producer's last process that ended (below zero: the signal); 0 while none has ended. Written
    by the supervisor."""
    ROUNDS = 13
    """Rounds of resends that the fault plan asked a living producer for. Written by the fault plan."""
    ROUNDS_DONE = 14
    """Rounds of resends asked for by the fault plan that the producer has handed over."""
    LAST_ROUND = 15
    """Attempts in the last round of resends."""
    BEGUN = 16
    """Transactions that were begun."""
    COMMITTED = 17
    """Transactions that the client said are committed."""
    ABORTED = 18
    """Transactions that the client said are aborted."""
    KILLS_DONE = 19
    """The KILLS that the supervisor has carried out. Written by the supervisor."""
    STARTS_DONE = 20
    """The STARTS that the supervisor has carried out. Written by the supervisor."""


WORDS = 32


class State(IntEnum):
    """How far a producer is."""

    STARTING = 0
    READY = 1
    WARM = 2
    LOADING = 3
    DONE = 4


class Gate(IntEnum):
    """Up to where a producer may go."""

    CLOSED = 0
    WARM_UP = 1
    GO = 2
    RELEASE = 3
    """The producer may stop once it has sent its floor of records."""


class Segment(NamedTuple):
    """One mapped segment: writable int64 views."""

    result: memoryview
    sent: memoryview
    settled: memoryview
    map: mmap.mmap


def map_words(file: Path, words: int) -> tuple[memoryview, mmap.mmap]:
    """A shared int64 view of `file`, and its map. A missing file is created, filled with zeros."""
    size = words * 8
    with file.open("a+b") as stream:
        if stream.seek(0, 2) < size:
            stream.truncate(size)
        mapped = mmap.mmap(stream.fileno(), size)
    return memoryview(mapped).cast("q"), mapped


class Control:
    """One producer's control block, which the producer, its supervisor and the fault plan share.

    `words` is the mapped block itself, for the delivery callback, which has no time for `__getitem__`.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.words, self._map = map_words(folder / "control", WORDS)

    def __getitem__(self, word: Word) -> int:
        return int(self.words[word])

    def __setitem__(self, word: Word, value: int) -> None:
        self.words[word] = value


class LiveLedger:
    """The producer's side of the ledger: it opens slots before sending, and unmaps segments that have settled."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.segments: dict[int, Segment] = {}

    def open(self, first: int, count: int, sent_ns: int) -> None:
        """Makes the slots of attempts [first, first + count) writable and notes when they were sent."""
        for number in range(first >> SHIFT, (first + count - 1 >> SHIFT) + 1):
            if number not in self.segments:
                self._drop_settled()
                self.segments[number] = map_segment(self._folder, number)
            start, end = max(first, number << SHIFT), min(first + count, number + 1 << SHIFT)
            sent = np.frombuffer(self.segments[number].sent, np.int64)
            sent[start & MASK : (start & MASK) + end - start] = sent_ns

    def _drop_settled(self) -> None:
        for number in list(self.segments):
            if np.frombuffer(self.segments[number].result, np.int64).all():
                del self.segments[number]


def map_segment(folder: Path, number: int) -> Segment:
    """Maps segment `number` for reading and writing."""
    words, mapped = map_words(folder / f"segment-{number:06d}", 3 * SLOTS)
    return Segment(words[:SLOTS], words[SLOTS : 2 * SLOTS], words[2 * SLOTS :], mapped)


def read_segment(folder: Path, number: int) -> npt.NDArray[np.int64]:
    """Result, sent and settled of each slot of segment `number`, as they are now. Shape (3, SLOTS)."""
    return np.memmap(folder / f"segment-{number:06d}", np.int64, mode="r", shape=(3, SLOTS))


def outcome_of(result: int) -> Outcome:
    """The outcome that a slot's result stands for. An open slot is INDETERMINATE: no report ever came."""
    if result > 0 or result == ACKED_NOWHERE:
        return Outcome.ACKED
    if result == SENT:
        return Outcome.SENT
    return Outcome.FAILED if NEVER_KNOWN < result <= FAILED_UP_TO else Outcome.INDETERMINATE


def encode_error(base: int, code: int) -> int:
    """Packs librdkafka's error `code` (-1000 < code < 1000) into a result."""
    return base - code


def error_code(result: int) -> int | None:
    """librdkafka's error code in a result, if it holds one."""
    if result > FAILED_UP_TO:
        return None
    return (FAILED if result > NEVER_KNOWN else INDETERMINATE) - result
