"""The live ledger: one producer's attempts, each in a slot of a memory-mapped file.

Because the files are mapped, an acknowledgement that the delivery callback saw survives a SIGKILL of the producer. A
producer's folder holds the file `control` (int64 words, see `Word`) and files called segments, with `SLOTS` slots each.
A segment holds three int64 columns: result, sent and settled. The last two are times in ns since the epoch.

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

from delivery_verifier.host.mapped_words import map_words
from delivery_verifier.model.outcomes import Outcome

SHIFT = 17
SLOTS = 1 << SHIFT
MASK = SLOTS - 1
"""The bit mask that gives the slot of a record in its segment. The attempt to send record s is stored in slot
`s & MASK` of the segment with the number `s >> SHIFT`."""

# The column `result` of a slot: 0 means that the attempt is open: no report about it has come. n > 0 means that
# the attempt was acknowledged at offset n - 1. The values below zero are:
ACKED_NOWHERE = -1
"""The result of an attempt that was acknowledged without an offset. A broker gives no offset when it finds that an
idempotent retry is a duplicate."""
SENT = -2
"""The result of an attempt that was handed to the network with acks=0. No broker acknowledges such an attempt."""
FAILED = -10_000
"""The base of the results of attempts that were certainly not written. Such a result is FAILED minus librdkafka's error
code, which is greater than -1000 and less than 1000."""
FAILED_UP_TO = -5_000
"""The highest result that means FAILED. A result r means FAILED if NEVER_KNOWN < r <= FAILED_UP_TO."""
INDETERMINATE = -20_000
"""The base of the results of attempts that ended with an error that does not tell whether the record was written. Such
a result is INDETERMINATE minus librdkafka's error code."""
NEVER_KNOWN = -15_000
"""The highest result that means INDETERMINATE. A result r means INDETERMINATE if r <= NEVER_KNOWN."""


class Word(IntEnum):
    """The words of a producer's control block: int64 numbers in memory that several processes share.

    The value of an item of this enumeration is the index of its word in the block. The docstring of an item says what
    its word holds. The producer writes the word, unless the docstring of the item names another writer. Terms of these
    docstrings:

    * The supervisor is the process that started the producer.
    * A resend is an attempt of a record after the record's first attempt.
    * In a round of resends, the producer sends once more each record whose last attempt is INDETERMINATE.
    * The warm-up is one block of records to each partition, before the load.
    * A scripted load is sent only as the fault plan asks for it.
    """

    ANNOUNCED = 0
    """Index of the word that counts first attempts. Each is counted just before the client gets it."""
    ATTEMPTED = 1
    """Index of the word with the producer's own count of all its attempts. It holds -1 until the producer exits."""
    REPORTED = 2
    """Index of the word that counts the attempts that the client reported as acknowledged or, with acks=0, as sent."""
    FAILED = 3
    """Index of the word that counts the attempts that were certainly not written."""
    INDETERMINATE = 4
    """Index of the word that counts the attempts that the client reported with an error and that may or may not have
    been written."""
    STATE = 5
    """Index of the word that says how far the producer has come: a `State`."""
    GATE = 6
    """Index of the word that says how far the producer may go: a `Gate`. Written by the supervisor."""
    DUE = 7
    """Index of the word that says, for a scripted load, how many records may be sent after the warm-up. Written by the
    fault plan."""
    HANDED_OVER = 8
    """Index of the word that counts, in a scripted load, the records that the producer has handed over to the client
    after the warm-up."""
    RESENT = 9
    """Index of the word that counts the resends of all rounds. Each resend is counted before the client gets it."""
    KILLS = 10
    """Index of the word that counts how often the fault plan asked the supervisor to end the producer with the signal
    SIGNAL. Written by the fault plan."""
    STARTS = 11
    """Index of the word that counts how often the fault plan asked the supervisor to start the ended producer again.
    Written by the fault plan.

    While the producer must stay dead, this count is one less than the count KILLS. Otherwise the two counts are equal.
    """
    EXIT = 12
    """Index of the word with the exit code of the producer's process. The supervisor writes it when it has ended the
    producer. The word holds 0 before the first such end.

    A code below zero is minus the number of the signal that ended the process.
    """
    ROUNDS = 13
    """Index of the word that counts the rounds of resends that the fault plan asked a living producer for. Written by
    the fault plan."""
    ROUNDS_DONE = 14
    """Index of the word that counts the rounds of resends in which the producer has handed over all records to its
    client."""
    LAST_ROUND = 15
    """Index of the word with the number of attempts in the last round of resends."""
    BEGUN = 16
    """Index of the word that counts the transactions that were begun."""
    COMMITTED = 17
    """Index of the word that counts the transactions that the client reported as committed."""
    ABORTED = 18
    """Index of the word that counts the transactions that the client reported as aborted."""
    KILLS_DONE = 19
    """Index of the word that counts how many of the requested kills (see KILLS) the supervisor has carried out. Written
    by the supervisor."""
    STARTS_DONE = 20
    """Index of the word that counts how many of the requested starts (see STARTS) the supervisor has carried out.
    Written by the supervisor."""
    ABANDONED = 21
    """Index of the word that counts the attempts that never get a report, because the producer's process was killed or
    has ended. They are INDETERMINATE, too."""
    MISCOUNTED = 22
    """Index of the word that counts errors in the counters of killed processes. It is the sum of two differences:
    between counted reports and slots, and between counted transactions and the file of outcomes. A difference of one
    that the kill explains does not count."""
    SIGNAL = 23
    """Index of the word with the number of the signal by which the fault plan had the producer end last: SIGKILL or
    SIGTERM. Written by the fault plan, before it asks for the end (see KILLS)."""
    AT_SIGTERM = 24
    """Index of the word that counts the attempts without a report at the time when SIGTERM reached the producer. It
    holds -1 from the start of the process until then."""
    AT_EXIT = 25
    """Index of the word that counts the attempts without a report at the time when the producer ended on SIGTERM."""


WORDS = 32
"""The size of a control block, in int64 words. It leaves room for more members of `Word`."""


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


class Control:
    """One producer's control block: memory that the producer, its supervisor and the fault plan share.

    `words` is the mapped memory itself. The delivery callback uses `words`, because `__getitem__` would be too slow.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.words, self._map = map_words(folder / "control", WORDS)

    def __getitem__(self, word: Word) -> int:
        return int(self.words[word])

    def __setitem__(self, word: Word, value: int) -> None:
        self.words[word] = value


class LiveLedger:
    """The producer's view of its live ledger: opens a slot for each attempt before the attempt is sent.

    A slot is the place of one attempt in a file. A segment is a file of slots. `segments` maps the numbers of the
    mapped segments to the segments. When a new segment is mapped, the segments in which every slot is settled are
    unmapped.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.segments: dict[int, Segment] = {}

    def open(self, first: int, count: int, sent_ns: int) -> None:
        """Opens one slot for each of `count` attempts: writes `sent_ns` into the slot as the time of sending. `first`
        is the sequence of the first record. The other records follow without a gap. `sent_ns` is in ns since the epoch.
        """
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
    """Maps segment `number`, a file in the producer's `folder`, for reading and writing. Returns the mapped segment."""
    words, mapped = map_words(folder / f"segment-{number:06d}", 3 * SLOTS)
    return Segment(words[:SLOTS], words[SLOTS : 2 * SLOTS], words[2 * SLOTS :], mapped)


def read_segment(folder: Path, number: int) -> npt.NDArray[np.int64]:
    """Returns the columns result, sent and settled of segment `number`, a file in the producer's `folder`. The array
    has the shape (3, SLOTS). If the file changes later, the array changes, too."""
    return np.memmap(folder / f"segment-{number:06d}", np.int64, mode="r", shape=(3, SLOTS))


def outcome_of(result: int) -> Outcome:
    """Returns the outcome that the number `result` in an attempt's slot stands for. 0 means that the client has not
    reported on the attempt. It stands for INDETERMINATE."""
    if result > 0 or result == ACKED_NOWHERE:
        return Outcome.ACKED
    if result == SENT:
        return Outcome.SENT
    return Outcome.FAILED if NEVER_KNOWN < result <= FAILED_UP_TO else Outcome.INDETERMINATE


def encode_error(base: int, code: int) -> int:
    """Returns the number that the slot of an attempt holds after librdkafka's error `code` (-1000 < code < 1000).
    `base` is the outcome of the attempt: FAILED or INDETERMINATE."""
    return base - code


def error_code(result: int) -> int | None:
    """Returns librdkafka's error code that the number `result` in an attempt's slot holds. Returns None if `result`
    holds no error code."""
    if result > FAILED_UP_TO:
        return None
    return (FAILED if result > NEVER_KNOWN else INDETERMINATE) - result
