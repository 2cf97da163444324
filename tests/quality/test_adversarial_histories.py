"""Compares histories that are made to deceive the screen with the oracle: in every way in which the books are computed,
the results must be those of the oracle, record by record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.oracle import judge
from support.planters import History, duplicated, healthy, lost, misplaced, reordered, resent
from support.run_directories import scenario, table, write

from delivery_verifier.store.books import COUNTS
from delivery_verifier.store.run_directory import RunDirectory
from spark_jobs import matching
from spark_jobs import reconcile as job

PARTITIONS = 5
HUGE = 2**50
"""Near the greatest offset that a location can hold (see `LOCATION_UNIT`)."""


def _healthy(h: History, records: int = 64) -> None:
    for n in range(records):
        h.partition = n // 4 % 2
        healthy(h)
    h.partition = 0


def nothing_wrong(h: History) -> None:
    _healthy(h)


def every_bucket_dirty(h: History) -> None:
    for n in range(60):
        (lost, duplicated, misplaced, reordered, resent)[n % 5](h)


def _flip(h: History, column: str, bit: int, first: int, second: int) -> None:
    """Flips a bit of `column` in two lines. The sum of the column and its exclusive or stay as they were."""
    rows = [h.lines[first], h.lines[second]]
    assert {row[column] & bit for row in rows} == {0, bit}
    for row in rows:
        row[column] ^= bit


def sequences_with_flipped_bits(h: History) -> None:
    _healthy(h)
    _flip(h, "sequence", 1, 0, 1)  # the two sequences are exchanged, so two records are in each other's place
    _flip(h, "sequence", 2, 8, 10)


def sequences_flipped_into_others(h: History) -> None:
    _healthy(h)
    _flip(h, "sequence", 64 << 3, *_with_another_bit(h, "sequence", 64 << 3))


def _with_another_bit(h: History, column: str, bit: int) -> tuple[int, int]:
    """Sets `bit` in the ledger's and the log's numbers of the last record, and returns the first and the last line."""
    for row in (h.attempts[-1], h.lines[-1]):
        row[column] |= bit
    return 0, len(h.lines) - 1


def attempts_with_flipped_bits(h: History) -> None:
    _healthy(h)
    h.lines[5]["attempt"] ^= 1
    h.lines[5]["sequence"] ^= 1
    h.lines[4]["sequence"] ^= 1


def offsets_with_flipped_bits(h: History) -> None:
    _healthy(h)
    rows = [row for row in h.attempts if row["partition"] == 0][4:6]
    for row in rows:
        row["offset"] ^= 1


def a_sequence_twice_and_another_missing(h: History) -> None:
    """Ledger and log agree on numbers that the application cannot have sent: 0, 4, 5 twice, but never 1, 2, 6.

    The count, the sum, and the sum of squares are those of the numbers from 0 to 7.
    """
    _healthy(h, 8)
    for wrong, number in ((1, 0), (2, 4), (6, 5)):
        claims, lines = ([row for row in rows if row["sequence"] == wrong] for rows in (h.attempts, h.lines))
        for row in (*claims, *lines):
            row["sequence"], row["attempt"] = number, 1


def huge_offsets(h: History) -> None:
    _healthy(h)
    duplicated(h)
    misplaced(h)
    for row in (*h.attempts, *h.lines, *h.seen):
        if row["offset"] is not None:
            row["offset"] += HUGE


def only_a_ledger(h: History) -> None:
    for _ in range(20):
        lost(h)


def only_a_log(h: History) -> None:
    _healthy(h, 20)
    h.attempts.clear()


def only_the_last_partition(h: History) -> None:
    h.partition = PARTITIONS - 1
    for _ in range(20):
        healthy(h)
    lost(h)


def huge_sequences_that_nobody_sent(h: History) -> None:
    _healthy(h)
    for n in range(40):
        h.write(h.record() | {"sequence": 2**62 + (n << 20), "partition_sequence": 2**62})


HISTORIES: tuple[Callable[[History], None], ...] = (
    nothing_wrong,
    every_bucket_dirty,
    sequences_with_flipped_bits,
    sequences_flipped_into_others,
    attempts_with_flipped_bits,
    offsets_with_flipped_bits,
    a_sequence_twice_and_another_missing,
    huge_offsets,
    only_a_ledger,
    only_a_log,
    only_the_last_partition,
    huge_sequences_that_nobody_sent,
)
WAYS = {
    "exhaustive": (None, True, False),
    "small": (1, False, False),
    "one bucket": (14, False, False),
    "collected": (3, True, True),
    "shuffled": (2, True, False),
}
"""Maps a way of computing the books to: the bits of a stretch (None: without the screen); whether the run is treated
as a large one; and whether the unproven rows are collected first."""


@pytest.fixture(scope="module")
def histories() -> list[History]:
    made = []
    for ordinal, plant in enumerate(HISTORIES, 1):
        made.append(History(plant.__name__, ordinal, partitions=PARTITIONS))
        plant(made[-1])
    return made


@pytest.fixture(scope="module", params=list(WAYS))
def run(
    request: pytest.FixtureRequest,
    histories: list[History],
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> RunDirectory:
    bits, large, collected = WAYS[request.param]
    path: Path = tmp_path_factory.mktemp("adversarial")
    made = scenario([history.arm for history in histories], partitions=PARTITIONS, producers=2)
    attempts = [row for history in histories for row in history.attempts]
    directory = write(path, made, attempts, [row for history in histories for row in history.lines])
    with pytest.MonkeyPatch.context() as patch:
        if large:
            patch.setattr(job, "SMALL_ROWS", 0)
        patch.setattr(matching, "FEW", matching.FEW if collected else -1)
        job.reconcile(path, True, spark, exhaustive=bits is None, bits=bits or 1)
    counts = directory.manifest("reconcile").counts
    assert ("screen/examined" in counts) == (bits is not None), "the screen ran as it was asked to"
    return directory


def test_the_books_and_the_cases_are_the_oracles(histories: list[History], run: RunDirectory) -> None:
    books, cases = table(run, "books/producers.parquet"), table(run, "anomalies")
    for history in histories:
        expected_books, expected_cases = judge(history.attempts, history.lines, history.seen)
        own = [row for row in books if row["arm"] == history.arm]
        assert {name: sum(row[name] for row in own) for name in COUNTS} == dict.fromkeys(COUNTS, 0) | dict(
            expected_books
        ), history.arm
        key = ("producer", "session", "sequence", "attempt")
        found = Counter(
            (row["kind"], tuple(row["also"]), tuple(row[name] for name in key), tuple(row["offsets"]))
            for row in cases
            if row["arm"] == history.arm
        )
        expected = Counter[object]()
        for case, count in expected_cases.items():
            expected[(*case[:3], tuple(offset for offset, _ in case[3]))] += count
        assert found == expected, history.arm


def test_only_the_clean_history_has_no_case(run: RunDirectory, histories: list[History]) -> None:
    arms = {row["arm"] for row in table(run, "anomalies")}
    assert arms == {history.arm for history in histories} - {"nothing_wrong"}
