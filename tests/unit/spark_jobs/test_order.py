"""Compares the order of buckets with the order of all records, in many random logs of one producer and partition."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

from spark_jobs.matching.buckets import Row, chunk_of
from spark_jobs.matching.order import order

RECORDS, WIDTH, LOGS = 40, 4, 2_000
"""The records of a log, the records of a chunk, and the number of logs."""
FOREIGN_WRITER = -1
"""Stands for a record of another producer."""

Log = list[int]
"""The partition sequences of the records in the log, by offset."""
Chunks = dict[int, int]
"""Maps each partition sequence to its chunk."""


def _log(chance: random.Random) -> Log:
    """A log in order, with a few records that are late, early, duplicated, lost, replaced, or of another producer."""
    log = list(range(RECORDS))
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(log))
        to = chance.choice([len(log), chance.randrange(len(log)), min(at + 2, len(log))])
        match chance.choice(["late", "copied", "lost", "replaced", "foreign_writer"]):
            case "late":
                log.insert(to, log.pop(at))
            case "copied":
                log.insert(to, log[at])
            case "lost":
                del log[at]
            case "replaced":  # the number of the replaced record was never sent
                log[to - 1], log[at] = log[at], FOREIGN_WRITER
            case "foreign_writer":
                log.insert(at, FOREIGN_WRITER)
    return log


def _chunks(chance: random.Random) -> Chunks:
    """The chunks of all records. In some logs, one record is not in the chunk of its neighbours, as if it was sent
    again."""
    chunks = {number: number // WIDTH for number in [FOREIGN_WRITER, *range(RECORDS)]}
    if chance.random() < 0.3:
        chunks[chance.randrange(RECORDS)] = chance.randrange(RECORDS // WIDTH)
    return chunks


def _buckets(log: Log, chunks: Chunks) -> list[Row]:
    offsets = defaultdict[int, list[tuple[int, int]]](list)
    for offset, number in enumerate(log):
        if number != FOREIGN_WRITER:
            offsets[chunks[number]].append((number, offset))
    return [
        {"arm": "one", "producer": 0, "session": 0, "partition": 0, "chunk": chunk, "copies": len(copies)}
        | {
            f"logged_{name}_{end.__name__}": end(copy[at] for copy in copies)
            for at, name in enumerate(("partition_sequence", "position"))
            for end in (min, max)
        }
        for chunk, copies in offsets.items()
    ]


def _clean(log: Log, chunks: Chunks) -> set[int]:
    """The chunks of which each record is in the log once, and all at the same distance from their numbers. A record
    that was replaced counts as never sent."""
    shifts = defaultdict[int, set[int]](set)
    for offset, number in enumerate(log):
        shifts[chunks[number]].add(offset - number)
    copied = {chunks[number] for number, count in Counter(log).items() if count > 1}
    return {chunk for chunk, of_chunk in shifts.items() if len(of_chunk) == 1} - copied


def _overtaken(numbers: set[int], by: list[tuple[int, int]], first: dict[int, int]) -> set[int]:
    """Those of `numbers` that a record of `by`, pairs of a number and an offset, has overtaken."""
    return {n for n in numbers if any(other > n and offset < first[n] for other, offset in by)}


@pytest.mark.slow
def test_a_record_is_out_of_order_among_matched_records_and_boundaries_exactly_if_it_is_so_among_all() -> None:
    chance, seen = random.Random(5), Counter[str]()
    for _ in range(LOGS):
        log, chunks = _log(chance), _chunks(chance)
        rows, clean = _buckets(log, chunks), _clean(log, chunks)
        entangled, passed = order(rows, set())
        proven = clean - {chunk for *_, chunk in entangled}
        boundaries = [
            (row["logged_partition_sequence_max"], row["logged_position_max"])
            for row in passed
            if chunk_of(row)[3] in proven
        ]
        first = {number: log.index(number) for number in log if number != FOREIGN_WRITER}
        matched = {number for number in first if chunks[number] not in proven}
        by_matched = [(number, first[number]) for number in matched]
        late = _overtaken(set(first), list(first.items()), first)
        assert not late - matched, log
        assert _overtaken(matched, by_matched + boundaries, first) == late, log
        seen.update({"proven": len(proven), "boundaries": len(boundaries), "late": len(late)})
        seen["by a boundary alone"] += len(late - _overtaken(matched, by_matched, first))
        seen["unproven with a gap"] += any(
            row["chunk"] in clean and row["copies"] <= row["logged_position_max"] - row["logged_position_min"]
            for row in rows
        )
    assert min(seen.values()) > LOGS / 50, seen
