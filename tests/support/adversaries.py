"""Adversaries: histories that are made to deceive the screen (spark_jobs.matching.screen), or to overload it.

Most of them keep counts or sums as they were. The name of an adversary says what it adds to a history.
"""

from __future__ import annotations

from support.planters import History, Planter, duplicated, healthy, lost, misplaced, reordered, resent

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


def _flip(h: History, column: str, took_effect: int, first: int, second: int) -> None:
    """Flips a bit of `column` in two lines. The sum of the column and its exclusive or stay as they were."""
    rows = [h.lines[first], h.lines[second]]
    assert {row[column] & took_effect for row in rows} == {0, took_effect}
    for row in rows:
        row[column] ^= took_effect


def sequences_with_flipped_bits(h: History) -> None:
    _healthy(h)
    _flip(h, "sequence", 1, 0, 1)  # the two sequences are exchanged, so two records are in each other's place
    _flip(h, "sequence", 2, 8, 10)


def sequences_flipped_into_others(h: History) -> None:
    _healthy(h)
    _flip(h, "sequence", 64 << 3, *_with_another_bit(h, "sequence", 64 << 3))


def _with_another_bit(h: History, column: str, took_effect: int) -> tuple[int, int]:
    """Sets `took_effect` in the ledger's and the log's numbers of the last record, and returns the first and the last
    line."""
    for row in (h.attempts[-1], h.lines[-1]):
        row[column] |= took_effect
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
    h.partition = h.partitions - 1
    for _ in range(20):
        healthy(h)
    lost(h)


def huge_sequences_that_nobody_sent(h: History) -> None:
    _healthy(h)
    for n in range(40):
        h.write(h.record() | {"sequence": 2**62 + (n << 20), "partition_sequence": 2**62})


REFUTING: tuple[Planter, ...] = (sequences_with_flipped_bits, attempts_with_flipped_bits)
"""The adversaries in which a line has another partition sequence than its claim. They refute the screen, if it proves
anything: then everything is matched, as if there was no screen."""
DECEIVING: tuple[Planter, ...] = (
    nothing_wrong,
    every_bucket_dirty,
    sequences_flipped_into_others,
    offsets_with_flipped_bits,
    a_sequence_twice_and_another_missing,
    huge_offsets,
    only_a_ledger,
    only_a_log,
    only_the_last_partition,
    huge_sequences_that_nobody_sent,
)
"""All other adversaries."""
