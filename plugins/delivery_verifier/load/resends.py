"""Resends: which sequences an application sends again, as which attempt, and under which partition sequences.

A round of resends is written down before any of it is sent. Attempts numbered n have slots of their own, by sequence,
in the folder `attempt-n` beside those of the first attempts. A resend takes the next partition sequence of its
partition, so that these go on numbering records in the order in which they are sent; what is first sent after a round
comes behind it.
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
from delivery_verifier.load.live_ledger import FAILED_UP_TO, NEVER_KNOWN, SHIFT, SLOTS, Word, read_segment

Numbers = npt.NDArray[np.int64]


class SequenceRange(Struct, frozen=True):
    """`count` consecutive sequences from `first` on, all of one partition, sent as attempt `attempt`, under partition
    sequences from `partition_sequence` on."""

    attempt: int
    first: int
    count: int
    partition_sequence: int


class Round(Struct, frozen=True):
    """One round of resends. Sequences from `frontier` on are first sent after it."""

    frontier: int
    runs: list[SequenceRange]

    @property
    def attempts(self) -> int:
        """Attempts in the round."""
        return sum(run.count for run in self.runs)


def folder_of(folder: Path, attempt: int) -> Path:
    """Where a producer's slots of attempts numbered `attempt` are."""
    return folder / f"attempt-{attempt}" if attempt else folder


def read_rounds(folder: Path) -> list[Round]:
    """All rounds of the producer in `folder`, in order."""
    return [msgspec.json.decode(file.read_bytes(), type=Round) for file in sorted(folder.glob("round-*.json"))]


def write_round(folder: Path, number: int, made: Round) -> None:
    """Writes round `number` down: whole, or not at all."""
    file = folder / f"round-{number:06d}.json"
    file.with_suffix(".new").write_bytes(msgspec.json.encode(made))
    file.with_suffix(".new").rename(file)


def unanswered(folder: Path, frontier: int, rounds: Iterable[Round], open_too: bool) -> dict[int, int]:
    """Sequences below `frontier` of which nobody knows whether they are written, with the number of their last attempt:
    it is INDETERMINATE. `open_too`: whether an attempt that was not answered counts as such, its process being gone."""
    found: dict[int, int] = {}
    for first in range(0, frontier, SLOTS):
        for sequence in first + _unknown(folder, first, min(SLOTS, frontier - first), open_too):
            found[int(sequence)] = 0
    for run in (run for one in rounds for run in one.runs):
        left = set((run.first + _unknown(folder_of(folder, run.attempt), run.first, run.count, open_too)).tolist())
        for sequence in range(run.first, run.first + run.count):
            if sequence in left:
                found[sequence] = run.attempt
            else:
                found.pop(sequence, None)
    return found


def next_round(sequences: Mapping[int, int], frontier: int, before: Iterable[Round], layout: LoadLayout) -> Round:
    """The next round: each of `sequences` (ascending, with its last attempt's number) once more. `frontier` is a whole
    number of blocks."""
    put_off = shifts(before, layout)
    following = {at: layout.held(at, frontier) + put_off[at] for at in range(layout.partitions)}
    runs = []
    for attempt, first, count in _runs(sequences, layout.block):
        partition = layout.partition(first)
        runs.append(SequenceRange(attempt, first, count, following[partition]))
        following[partition] += count
    return Round(frontier, runs)


def shifts(rounds: Iterable[Round], layout: LoadLayout) -> Counter[int]:
    """By how much `rounds` put off, per partition, the partition sequences of what is first sent after them."""
    counted: Counter[int] = Counter()
    for run in (run for one in rounds for run in one.runs):
        counted[layout.partition(run.first)] += run.count
    return counted


def census(folder: Path, frontier: int) -> dict[Word, int]:
    """What a producer's words must say of a life that has ended: what it left open, nobody will ever answer."""
    rounds, found = read_rounds(folder), Counter({Word.REPORTED: 0, Word.FAILED: 0, Word.INDETERMINATE: 0})
    firsts = [SequenceRange(0, first, min(SLOTS, frontier - first), 0) for first in range(0, frontier, SLOTS)]
    for run in (*firsts, *(run for one in rounds for run in one.runs)):
        results = read_slots(folder_of(folder, run.attempt), run.first, run.count)[0]
        failed = int(np.count_nonzero((results > NEVER_KNOWN) & (results <= FAILED_UP_TO)))
        unanswered = int(np.count_nonzero((results <= NEVER_KNOWN) | (results == 0)))
        found.update({Word.FAILED: failed, Word.INDETERMINATE: unanswered})
        found[Word.REPORTED] += run.count - failed - unanswered
    return {**found, Word.RESENT: sum(one.attempts for one in rounds)}


def read_slots(folder: Path, first: int, count: int) -> Numbers:
    """Result, sent and settled of slots [first, first + count), which may lie in two segments. Shape (3, count)."""
    parts = []
    for number in range(first >> SHIFT, (first + count - 1 >> SHIFT) + 1):
        begin = number << SHIFT
        parts.append(read_segment(folder, number)[:, max(first - begin, 0) : first + count - begin])
    return np.concatenate(parts, axis=1)


def _runs(sequences: Mapping[int, int], block: int) -> Iterator[tuple[int, int, int]]:
    """(attempt, first, count) of consecutive sequences in one block with the same next attempt."""
    attempt, first, count = -1, -1, 0
    for sequence, last in sequences.items():
        if sequence == first + count and last + 1 == attempt and sequence // block == first // block:
            count += 1
            continue
        if count:
            yield attempt, first, count
        attempt, first, count = last + 1, sequence, 1
    if count:
        yield attempt, first, count


def _unknown(folder: Path, first: int, count: int, open_too: bool) -> Numbers:
    """Places in [0, count) of slots that say INDETERMINATE."""
    results = read_slots(folder, first, count)[0]
    return np.flatnonzero((results <= NEVER_KNOWN) | ((results == 0) & open_too)).astype(np.int64)
