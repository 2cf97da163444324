"""Resends: which records a producer sends again, and which attempt number and partition sequence a resend gets.

In a round of resends, a producer sends once more each record whose last attempt is INDETERMINATE. Before the producer
sends any of these records, it writes the round to a file.

* A record's attempts have the numbers 0 (the first attempt), 1, 2 and so on. The folder `attempt-n` in the producer's
  folder stores the slots (see `live_ledger`) of all attempts with the number n > 0.
* A resend takes the next partition sequence (see `layout`) of its partition. So partition sequences number all attempts
  to a partition in the order of sending. First attempts after a round have higher numbers than the resends of this
  round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from delivery_verifier.load.layout import LoadLayout
from delivery_verifier.load.live_ledger import (
    FAILED_UP_TO,
    NEVER_KNOWN,
    SHIFT,
    SLOTS,
    Control,
    Word,
    read_segment,
)

Numbers = npt.NDArray[np.int64]

COUNTERS = (Word.REPORTED, Word.FAILED, Word.INDETERMINATE)
"""The words in which a producer counts its delivery reports."""


class SequenceRange(Struct, frozen=True):
    """`count` consecutive sequences, from `first` on, that go to one partition with the attempt number `attempt`.

    The partition sequences of these attempts are consecutive too, from `partition_sequence` on.
    """

    attempt: int
    first: int
    count: int
    partition_sequence: int


class Round(Struct, frozen=True):
    """One round of resends: sends the sequences of `ranges` again, in this order.

    A sequence below `frontier` was first sent before the round, a sequence from `frontier` on is first sent after it.
    """

    frontier: int
    ranges: list[SequenceRange]

    @property
    def attempts(self) -> int:
        return sum(resend.count for resend in self.ranges)


def attempt_folder(folder: Path, attempt: int) -> Path:
    """Returns the folder that stores all attempts with the number `attempt`. `folder` is the producer's folder."""
    return folder / f"attempt-{attempt}" if attempt else folder


def read_rounds(folder: Path) -> list[Round]:
    """Returns all rounds of resends of the producer in `folder`, in the order in which they were sent."""
    return [msgspec.json.decode(file.read_bytes(), type=Round) for file in sorted(folder.glob("round-*.json"))]


def write_round(folder: Path, number: int, resends: Round) -> None:
    """Writes the round `resends` to a file in the producer's `folder`. `number` is the round's number; the first round
    has 1.

    The file gets its final name only when it is complete. So a kill of the producer during the write leaves no broken
    file.
    """
    file = folder / f"round-{number:06d}.json"
    file.with_suffix(".new").write_bytes(msgspec.json.encode(resends))
    file.with_suffix(".new").rename(file)


def unanswered(folder: Path, frontier: int, rounds: Iterable[Round], include_open: bool) -> dict[int, int]:
    """Returns the sequences below `frontier` whose last attempt is INDETERMINATE. Maps each sequence to the number of
    this attempt.

    `folder` is the producer's folder, and `rounds` are all its rounds of resends so far. With `include_open`, an
    attempt without a delivery report counts as INDETERMINATE, too. Set `include_open` only if the process that sent the
    attempt is gone.
    """
    last_attempts: dict[int, int] = {}
    for first in range(0, frontier, SLOTS):
        for index in _indeterminate(folder, first, min(SLOTS, frontier - first), include_open):
            last_attempts[first + int(index)] = 0
    for resend in _ranges(rounds):
        slots = attempt_folder(folder, resend.attempt)
        indeterminate = set(_indeterminate(slots, resend.first, resend.count, include_open).tolist())
        for index in range(resend.count):
            if index in indeterminate:
                last_attempts[resend.first + index] = resend.attempt
            else:
                last_attempts.pop(resend.first + index, None)
    return last_attempts


def next_round(sequences: Mapping[int, int], frontier: int, earlier: Iterable[Round], layout: LoadLayout) -> Round:
    """Returns the next round of resends, which sends each sequence in `sequences` once more.

    `sequences` maps each sequence, in ascending order, to the number of its last attempt. `frontier` is the first
    sequence that was never sent. It is also the first sequence of a block. `earlier` are all earlier rounds.
    """
    shifts = partition_shifts(earlier, layout)
    next_partition_sequence = {
        partition: layout.count_in(partition, frontier) + shifts[partition] for partition in range(layout.partitions)
    }
    ranges = []
    for attempt, first, count in _consecutive(sequences, layout.block):
        partition = layout.partition(first)
        ranges.append(SequenceRange(attempt, first, count, next_partition_sequence[partition]))
        next_partition_sequence[partition] += count
    return Round(frontier, ranges)


def partition_shifts(rounds: Iterable[Round], layout: LoadLayout) -> Counter[int]:
    """Returns, for each partition, the number of resends in `rounds` that went to the partition.

    Every resend takes one partition sequence. So each resend raises the partition sequences of all later first attempts
    to the same partition by one.
    """
    shifts: Counter[int] = Counter()
    for resend in _ranges(rounds):
        shifts[layout.partition(resend.first)] += resend.count
    return shifts


def count_outcomes(folder: Path, frontier: int) -> dict[Word, int]:
    """Counts all attempts, first ones and resends, in the live ledger of a producer whose process is gone.

    The keys are words of the control block (see `Word`): those in COUNTERS, ABANDONED and RESENT. An attempt
    without a report counts as ABANDONED, because no report about the attempt can come any more. A resend counts twice:
    as RESENT, and by its outcome. `folder` is the producer's folder. `frontier` is the first sequence that was never
    sent.
    """
    rounds = read_rounds(folder)
    first_attempts = [SequenceRange(0, first, min(SLOTS, frontier - first), 0) for first in range(0, frontier, SLOTS)]
    counts = Counter(dict.fromkeys((*COUNTERS, Word.ABANDONED), 0))
    for attempts in (*first_attempts, *_ranges(rounds)):
        results = read_slots(attempt_folder(folder, attempts.attempt), attempts.first, attempts.count)[0]
        failed = int(np.count_nonzero((results > NEVER_KNOWN) & (results <= FAILED_UP_TO)))
        indeterminate, still_open = int(np.count_nonzero(results <= NEVER_KNOWN)), int(np.count_nonzero(results == 0))
        counts[Word.FAILED] += failed
        counts[Word.INDETERMINATE] += indeterminate
        counts[Word.ABANDONED] += still_open
        counts[Word.REPORTED] += attempts.count - failed - indeterminate - still_open
    return {**counts, Word.RESENT: sum(resends.attempts for resends in rounds)}


def recount(folder: Path, control: Control, frontier: int) -> dict[Word, int]:
    """Sets the counters of a killed producer to the counts of its slots. Returns these counts (see `count_outcomes`).

    The producer writes each report into its slot, and then counts the report. If the kill came in between, one counter
    is 1 too low. Any other difference means that slots or counters are wrong. Such a difference is added to
    Word.MISCOUNTED, and breaks the invariant `outcomes_agree` of the counts.
    """
    counts = count_outcomes(folder, frontier)
    behind = [counts[word] - control[word] for word in COUNTERS]
    if sorted(behind) not in ([0, 0, 0], [0, 0, 1]):
        control[Word.MISCOUNTED] += sum(map(abs, behind))
    for word, count in counts.items():
        control[word] = count
    return counts


def still_open(control: Control) -> int:
    """Returns the number of attempts that have no report yet. `control`: the control block of their producer."""
    begun = control[Word.ANNOUNCED] + control[Word.RESENT]
    return begun - sum(control[word] for word in (*COUNTERS, Word.ABANDONED))


def read_slots(folder: Path, first: int, count: int) -> Numbers:
    """Returns the columns result, sent and settled of the attempts to send `count` records whose numbers begin with
    `first`.

    `folder` is the result of `attempt_folder`. The attempts may lie in several files. The result has the shape (3,
    count).
    """
    parts = []
    for number in range(first >> SHIFT, (first + count - 1 >> SHIFT) + 1):
        begin = number << SHIFT
        parts.append(read_segment(folder, number)[:, max(first - begin, 0) : first + count - begin])
    return np.concatenate(parts, axis=1)


def _ranges(rounds: Iterable[Round]) -> Iterator[SequenceRange]:
    return (resend for resends in rounds for resend in resends.ranges)


def _consecutive(sequences: Mapping[int, int], block: int) -> Iterator[tuple[int, int, int]]:
    """Splits `sequences` into ranges. Yields (attempt, first, count) for each range.

    `sequences` maps each sequence to the number of its last attempt. A range has `count` consecutive sequences, from
    `first` on. All sequences of a range lie in one block, and their last attempts have the same number. `attempt` is
    this number plus 1.
    """
    attempt, first, count = -1, -1, 0
    for sequence, last_attempt in sequences.items():
        is_next = sequence == first + count and sequence // block == first // block
        if is_next and last_attempt + 1 == attempt:
            count += 1
            continue
        if count:
            yield attempt, first, count
        attempt, first, count = last_attempt + 1, sequence, 1
    if count:
        yield attempt, first, count


def _indeterminate(folder: Path, first: int, count: int, include_open: bool) -> Numbers:
    """Returns which of the sequences [first, first + count) have an attempt that is INDETERMINATE.

    Each sequence is returned as an index: `first` has the index 0. With `include_open`, an attempt without a delivery
    report counts as INDETERMINATE, too.
    """
    results = read_slots(folder, first, count)[0]
    return np.flatnonzero((results <= NEVER_KNOWN) | ((results == 0) & include_open)).astype(np.int64)
