"""The live ledger: one producer's attempts, each in a slot of a memory-mapped file.

Because the files are mapped, an acknowledgement that the delivery callback saw survives a SIGKILL of the producer. A
producer's folder holds the file `control` (int64 words, see `Word`) and files called segments, with `SLOTS` slots each.
A segment holds three int64 columns: result, sent and settled. The last two are times in ns since the epoch. These files
are a contract with any program that sends the load: docs/reference/control-block.md.

A slot is open until its attempt has a result, and settled from then on. A segment is unmapped once every slot is
settled, so that memory does not grow with the load.
"""

from __future__ import annotations

import mmap
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from delivery_verifier.host.supervision.control_block import ControlBlock, ControlWord, map_words
from delivery_verifier.model.outcomes import Outcome

SHIFT = 17
SLOTS = 1 << SHIFT
MASK = SLOTS - 1
"""The bit mask that gives the slot of a record in its segment. The attempt to send record s is stored in slot
`s & MASK` of the segment with the number `s >> SHIFT`."""

COLUMNS = {
    "result": "the outcome of the attempt, see Results",
    "sent": "when the client was about to get the attempt, in ns since the epoch",
    "settled": "when the client reported on the attempt, in ns since the epoch; 0 before",
}
"""The columns of a segment, in the order in which they stand in its file."""

# The column `result` of a slot. 0: the attempt is open, because no report about it has come. n > 0: the attempt was
# acknowledged at offset n - 1. The values below zero are:
ACKED_NOWHERE = -1
"""The result of an attempt that was acknowledged without an offset. A broker gives no offset when it finds that an
idempotent retry is a duplicate."""
SENT = -2
"""The result of an attempt that was handed to the network with acks=0. No broker acknowledges such an attempt."""
FAILED = -10_000
"""The base of the results of attempts that were certainly not written. Such a result is FAILED minus the error's code
(see `error_codes`)."""
INDETERMINATE = -20_000
"""The base of the results of attempts that ended with an error that does not tell whether the record was written. Such
a result is INDETERMINATE minus the error's code."""
MOST_CODE = 4_999
"""The greatest code of an error. Codes are not negative."""
FAILED_UP_TO, NEVER_KNOWN = FAILED, FAILED - MOST_CODE - 1
"""The highest results that mean FAILED and INDETERMINATE. A result r means FAILED if NEVER_KNOWN < r <= FAILED_UP_TO,
and INDETERMINATE if r <= NEVER_KNOWN."""


class Word(ControlWord):
    """The words of a producer's control block. docs/reference/control-block.md is made from this list.

    * A resend is an attempt of a record after the record's first attempt. In a round of resends, the producer sends
      once more each record whose last attempt is INDETERMINATE.
    * The warm-up is one block of records to each partition, before the load.
    * A scripted load is sent only as the fault plan asks for it.
    * While a producer must stay dead, STARTS is one less than KILLS. Otherwise the two are equal.
    * ABANDONED attempts never get a report, because their process was killed or has ended.
    * MISCOUNTED is the sum of two differences: between counted reports and slots, and between counted transactions and
      the file of outcomes. A difference of one that the kill explains does not count.
    """

    ANNOUNCED = 0, "process", "first attempts; each is counted just before the client gets it"
    ATTEMPTED = 1, "process", "its own count of all its attempts; -1 until it exits"
    REPORTED = 2, "process", "attempts reported as acknowledged or, with acks=0, as sent"
    FAILED = 3, "process", "attempts that were certainly not written"
    INDETERMINATE = 4, "process", "attempts reported with an error, which may have been written"
    STATE = 5, "process", "how far it has come: a `State`; a supervisor sets it to STARTING before a start"
    GATE = 6, "supervisor", "how far it may go: a `Gate`"
    DUE = 7, "fault plan", "scripted load: how many records may be sent after the warm-up"
    HANDED_OVER = 8, "process", "scripted load: records handed over to the client after the warm-up"
    RESENT = 9, "process", "resends of all rounds; each is counted before the client gets it"
    KILLS = 10, "fault plan", "how often the supervisor was asked to end it with the signal SIGNAL"
    STARTS = 11, "fault plan", "how often the supervisor was asked to start it again"
    EXIT = 12, "supervisor", "exit code of the ended process, or minus the number of the signal; 0 before"
    ROUNDS = 13, "fault plan", "rounds of resends that a living producer was asked for"
    ROUNDS_DONE = 14, "process", "rounds of resends in which all records were handed over to the client"
    LAST_ROUND = 15, "process", "attempts in the last round of resends"
    BEGUN = 16, "process", "transactions that were begun"
    COMMITTED = 17, "process", "transactions that the client reported as committed"
    ABORTED = 18, "process", "transactions that the client reported as aborted"
    KILLS_DONE = 19, "supervisor", "how many of KILLS were carried out"
    STARTS_DONE = 20, "supervisor", "how many of STARTS were carried out"
    ABANDONED = 21, "process", "attempts that never get a report; they are INDETERMINATE, too"
    MISCOUNTED = 22, "process", "errors in the counters of killed processes"
    SIGNAL = 23, "fault plan", "number of the signal of the last end, SIGKILL or SIGTERM; written before KILLS"
    AT_SIGTERM = 24, "process", "attempts without a report when SIGTERM came; -1 from its start until then"
    AT_EXIT = 25, "process", "attempts without a report when it ended on SIGTERM"
    REPEATED = 26, "process", "reports on attempts that had one already; such a report changes no outcome"


class State(IntEnum):
    """How far a producer has come. `STARTING`: the producer has no Kafka client yet. `READY`: it has a client. `WARM`:
    every record of the warm-up has an outcome. `LOADING`: it sends its load. `DONE`: it has ended its load, and has
    counted its attempts."""

    STARTING = 0
    READY = 1
    WARM = 2
    LOADING = 3
    DONE = 4


class Gate(IntEnum):
    """How far a producer may go. `CLOSED`: the producer sends nothing. `WARM_UP`: it sends the warm-up. `GO`: it sends
    its load. `RELEASE`: it may end its load."""

    CLOSED = 0
    WARM_UP = 1
    GO = 2
    RELEASE = 3
    """The producer may stop once it has sent its floor, which is the least number of records of its load."""


class Segment(NamedTuple):
    """One segment (a file of the live ledger), mapped into memory by `map`.

    `result`, `sent` and `settled` are writable views of the segment's int64 columns.
    """

    result: memoryview
    sent: memoryview
    settled: memoryview
    map: mmap.mmap


class Control(ControlBlock[Word]):
    """One producer's control block: memory that the producer, its supervisor and the fault plan share.

    The delivery callback uses `words`, because `__getitem__` would be too slow there.
    """


class LiveLedger:
    """The producer's view of its live ledger: opens a slot for each attempt before the attempt is sent.

    A slot is the place of one attempt in a file. A segment is a file of slots. The files are in `folder`. `segments`
    maps the numbers of the mapped segments to the segments. When a new segment is mapped, the segments in which every
    slot is settled are unmapped.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.segments: dict[int, Segment] = {}

    def open(self, first: int, count: int, sent_ns: int) -> None:
        """Opens one slot for each of `count` attempts: writes `sent_ns` into the slot as the time of sending. `first`
        is the sequence of the first record. The other records follow without a gap. `sent_ns` is in ns since the epoch.
        """
        for number in range(first >> SHIFT, (first + count - 1 >> SHIFT) + 1):
            if number not in self.segments:
                self._drop_settled()
                self.segments[number] = map_segment(self.folder, number)
            start, end = max(first, number << SHIFT), min(first + count, number + 1 << SHIFT)
            sent = np.frombuffer(self.segments[number].sent, np.int64)
            sent[start & MASK : (start & MASK) + end - start] = sent_ns

    def _drop_settled(self) -> None:
        for number in list(self.segments):
            if np.frombuffer(self.segments[number].result, np.int64).all():
                del self.segments[number]


def map_segment(folder: Path, number: int) -> Segment:
    """Maps segment `number`, a file in the producer's `folder`, for reading and writing. Returns the mapped segment."""
    words, mapped = map_words(folder / f"segment-{number:06d}", len(COLUMNS) * SLOTS)
    return Segment(words[:SLOTS], words[SLOTS : 2 * SLOTS], words[2 * SLOTS :], mapped)


def read_segment(folder: Path, number: int) -> npt.NDArray[np.int64]:
    """Returns the columns result, sent and settled of segment `number`, a file in the producer's `folder`. The array
    has the shape (3, SLOTS). If the file changes later, the array changes, too."""
    return np.memmap(folder / f"segment-{number:06d}", "<i8", mode="r", shape=(len(COLUMNS), SLOTS))


def outcome_of(result: int) -> Outcome:
    """Returns the outcome that the number `result` in an attempt's slot stands for. 0 means that the client has not
    reported on the attempt. It stands for INDETERMINATE."""
    if result > 0 or result == ACKED_NOWHERE:
        return Outcome.ACKED
    if result == SENT:
        return Outcome.SENT
    return Outcome.FAILED if NEVER_KNOWN < result <= FAILED_UP_TO else Outcome.INDETERMINATE


def encode_error(base: int, code: int) -> int:
    """Returns the number that the slot of an attempt holds after the error with this code (0 to MOST_CODE, see
    `error_codes`). `base` is the outcome of the attempt: FAILED or INDETERMINATE.

    Raises ValueError for any other code: the result would stand for another outcome.
    """
    if not 0 <= code <= MOST_CODE:
        raise ValueError(f"the code of an error is {code}; allowed: 0 to {MOST_CODE}, as error_codes.code_of gives it")
    return base - code


def error_code(result: int) -> int | None:
    """Returns the code of the error that the number `result` in an attempt's slot holds. Returns None if `result` holds
    none."""
    if result > FAILED_UP_TO:
        return None
    return (FAILED if result > NEVER_KNOWN else INDETERMINATE) - result
