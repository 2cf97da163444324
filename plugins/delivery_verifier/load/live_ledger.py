"""The live ledger: one producer's attempts in memory-mapped slots, so that an ack the callback saw survives SIGKILL.

A producer's folder holds `control` (int64 words, see `Word`) and segments of `SLOTS` attempts. A segment holds three
int64 columns: result, sent (ns), settled (ns). Only segments with attempts outstanding stay mapped, so memory does not
grow with the load.
"""

from __future__ import annotations

import mmap
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from delivery_verifier.model.anomalies import Outcome

SHIFT = 17
SLOTS = 1 << SHIFT
MASK = SLOTS - 1

# `result` of a slot: 0 open, n > 0 acknowledged at offset n - 1, and below zero:
ACKED_NOWHERE = -1
"""Acknowledged without an offset (an idempotent retry that the broker recognised as a duplicate)."""
SENT = -2
FAILED = -10_000
"""FAILED - (code + 1000), with librdkafka's error code."""
FAILED_UP_TO = -5_000
INDETERMINATE = -20_000
NEVER_KNOWN = -15_000
"""Results up to this one are INDETERMINATE, with an error."""


class Word(IntEnum):
    """Words of a producer's control block."""

    ANNOUNCED = 0
    """Attempts that may have been sent: written before they are handed over (the intent)."""
    ATTEMPTED = 1
    """Attempts the producer counted itself at its exit; -1 until then."""
    REPORTED = 2
    FAILED = 3
    INDETERMINATE = 4
    STATE = 5
    GATE = 6
    """Written by the supervisor."""
    DUE = 7
    """Scripted load: records that may be sent after the warm-up, written by the fault plan."""
    HANDED_OVER = 8
    """Scripted load: records that were handed to the client after the warm-up."""
    RESENT = 9
    """Attempts of all rounds of resends; like ANNOUNCED, written before they are handed over."""
    COMMAND = 10
    """Written by the fault plan: odd, the producer shall be killed; even, it shall run again; each is the last plus 1.
    """
    OBEYED = 11
    """The last order that the supervisor has carried out."""
    EXIT = 12
    """What the supervisor saw the producer's last life end with (a signal is below zero); 0 where none has ended."""
    ROUNDS = 13
    """Rounds of resends that the fault plan asked a living producer for."""
    ROUNDS_DONE = 14
    """... and those it has handed over."""
    LAST_ROUND = 15
    """Attempts in the last round of resends."""
    BEGUN = 16
    """Transactions that were begun."""
    COMMITTED = 17
    ABORTED = 18
    """Transactions that the client said are committed, and aborted."""


WORDS = 32


class State(IntEnum):
    """How far a producer is."""

    STARTING = 0
    READY = 1
    WARM = 2
    LOADING = 3
    DONE = 4


class Gate(IntEnum):
    """What a producer may do."""

    CLOSED = 0
    WARM_UP = 1
    GO = 2
    RELEASE = 3
    """Stop once the floor is sent."""


class Segment(NamedTuple):
    """One mapped segment: writable int64 views."""

    result: memoryview
    sent: memoryview
    settled: memoryview
    map: mmap.mmap


def map_words(file: Path, words: int) -> tuple[memoryview, mmap.mmap]:
    """A shared int64 view of `file`, which is made (zeroed) if it is missing."""
    size = words * 8
    with file.open("a+b") as stream:
        if stream.seek(0, 2) < size:
            stream.truncate(size)
        mapped = mmap.mmap(stream.fileno(), size)
    return memoryview(mapped).cast("q"), mapped


class Control:
    """One producer's control block, shared between it and its supervisor."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._words, self._map = map_words(folder / "control", WORDS)

    def __getitem__(self, word: Word) -> int:
        return int(self._words[word])

    def __setitem__(self, word: Word, value: int) -> None:
        self._words[word] = value


class LiveLedger:
    """The producer's side: opens slots ahead of sending, and unmaps segments that have settled."""

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
    """What segment `number` holds now: result, sent, settled of each slot. Shape (3, SLOTS)."""
    return np.memmap(folder / f"segment-{number:06d}", np.int64, mode="r", shape=(3, SLOTS))


def outcome_of(result: int) -> Outcome:
    """The outcome a slot's result stands for; an open slot is INDETERMINATE: nobody was told anything."""
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
