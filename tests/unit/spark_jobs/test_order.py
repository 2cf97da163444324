"""Compares the order of buckets with the order of all records, in many random logs of one producer and partition."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

from spark_jobs.matching.buckets import Row, stretch_of
from spark_jobs.matching.order import order

RECORDS, WIDTH, LOGS = 40, 4, 2_000
"""The records of a log, the records of a stretch, and the number of logs."""
STRANGER = -1
"""Stands for a record of another producer."""

Log = list[int]
"""The partition sequences of the records in the log, by offset."""
Stretches = dict[int, int]
"""Maps each partition sequence to its stretch."""


def _log(chance: random.Random) -> Log:
    """A log in order, with a few records that are late, early, duplicated, lost, replaced, or of another producer."""
    log = list(range(RECORDS))
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(log))
        to = chance.choice([len(log), chance.randrange(len(log)), min(at + 2, len(log))])
        match chance.choice(["late", "copied", "lost", "replaced", "stranger"]):
            case "late":
                log.insert(to, log.pop(at))
            case "copied":
                log.insert(to, log[at])
            case "lost":
                del log[at]
            case "replaced":  # the number of the replaced record was never sent
                log[to - 1], log[at] = log[at], STRANGER
            case "stranger":
                log.insert(at, STRANGER)
    return log


def _stretches(chance: random.Random) -> Stretches:
    """The stretches of all records. In some logs, one record is not in the stretch of its neighbours, as if it was sent
    again."""
    stretches = {number: number // WIDTH for number in [STRANGER, *range(RECORDS)]}
    if chance.random() < 0.3:
        stretches[chance.randrange(RECORDS)] = chance.randrange(RECORDS // WIDTH)
    return stretches


def _buckets(log: Log, stretches: Stretches) -> list[Row]:
    offsets = defaultdict[int, list[tuple[int, int]]](list)
    for offset, number in enumerate(log):
        if number != STRANGER:
            offsets[stretches[number]].append((number, offset))
    return [
        {"arm": "one", "producer": 0, "session": 0, "partition": 0, "stretch": stretch, "copies": len(copies)}
        | {
            f"logged_{name}_{end.__name__}": end(copy[at] for copy in copies)
            for at, name in enumerate(("partition_sequence", "position"))
            for end in (min, max)
        }
        for stretch, copies in offsets.items()
    ]


def _clean(log: Log, stretches: Stretches) -> set[int]:
    """The stretches of which each record is in the log once, and all at the same distance from their numbers. A record
    that was replaced counts as never sent."""
    shifts = defaultdict[int, set[int]](set)
    for offset, number in enumerate(log):
        shifts[stretches[number]].add(offset - number)
    copied = {stretches[number] for number, count in Counter(log).items() if count > 1}
    return {stretch for stretch, of_stretch in shifts.items() if len(of_stretch) == 1} - copied


def _overtaken(numbers: set[int], by: list[tuple[int, int]], first: dict[int, int]) -> set[int]:
    """Those of `numbers` that a record of `by`, pairs of a number and an offset, has overtaken."""
    return {n for n in numbers if any(other > n and offset < first[n] for other, offset in by)}


@pytest.mark.slow
def test_a_record_is_out_of_order_among_matched_records_and_borders_exactly_if_it_is_so_among_all() -> None:
    chance, seen = random.Random(5), Counter[str]()
    for _ in range(LOGS):
        log, stretches = _log(chance), _stretches(chance)
        rows, clean = _buckets(log, stretches), _clean(log, stretches)
        entangled, passed = order(rows, set())
        proven = clean - {stretch for *_, stretch in entangled}
        borders = [
            (row["logged_partition_sequence_max"], row["logged_position_max"])
            for row in passed
            if stretch_of(row)[3] in proven
        ]
        first = {number: log.index(number) for number in log if number != STRANGER}
        matched = {number for number in first if stretches[number] not in proven}
        by_matched = [(number, first[number]) for number in matched]
        late = _overtaken(set(first), list(first.items()), first)
        assert not late - matched, log
        assert _overtaken(matched, by_matched + borders, first) == late, log
        seen.update({"proven": len(proven), "borders": len(borders), "late": len(late)})
        seen["by a border alone"] += len(late - _overtaken(matched, by_matched, first))
        seen["unproven with a gap"] += any(
            row["stretch"] in clean and row["copies"] <= row["logged_position_max"] - row["logged_position_min"]
            for row in rows
        )
    assert min(seen.values()) > LOGS / 50, seen
