"""Tests of what a user application has in progress, by the offsets of its records. A plain program over sets is the
oracle."""

from __future__ import annotations

import random

import numpy as np
import pytest

from delivery_verifier.applications.own.in_progress import Applied, Commits, unapplied, uncommitted
from delivery_verifier.model.positions import Positions

HISTORIES = 500


def applied_of(*sequences: int, is_new: bool = True) -> Applied:
    """Returns effects of producer 0."""
    numbers = np.array(sequences, np.int64)
    return Applied(np.zeros_like(numbers), numbers, np.full(len(numbers), is_new))


def commits_of(*looks: int, begun: int = 0) -> Commits:
    """Returns the commits of partition 0 that looks have seen, one after the other. `begun`: what was committed when
    the incarnation began."""
    commits = Commits()
    commits.begin_incarnation({0: begun})
    for committed in looks:
        commits.note({0: committed})
    return commits


def hands(applied: Applied, commits: Commits, records: int = 20) -> tuple[int, int]:
    """Returns (uncommitted, unapplied) of a program whose records stand at the offsets of the same numbers."""
    positions = {0: Positions(np.zeros(records, np.int32), np.arange(records, dtype=np.int64))}
    return uncommitted(positions, applied, commits), unapplied(positions, applied, commits)


@pytest.mark.parametrize(
    ("applied", "committed", "expected"),
    [
        (applied_of(*range(10)), (10,), (0, 0)),
        (applied_of(*range(10)), (7,), (3, 0)),
        (applied_of(*range(7)), (10,), (0, 3)),
        (applied_of(), (5,), (0, 5)),
        (applied_of(*range(5), 8, 9), (5, 10), (0, 3)),
        (applied_of(*range(5), 8, 9), (5, 10, 12), (0, 2)),
        (applied_of(*range(5), *range(6, 12)), (6, 12), (0, 0)),
        (applied_of(*range(5), *range(6, 12)), (6, 9, 9, 9), (3, 0)),
        (applied_of(*range(8), 3, 3), (8,), (0, 0)),
    ],
    ids=[
        "nothing",
        "committed behind the work",
        "committed ahead of the work",
        "committed ahead of all work",
        "committed over a gap",
        "a gap that an earlier commit has left behind",
        "one record left out earlier, and nothing in progress",
        "one record left out earlier, and work in progress",
        "applied three times",
    ],
)
def test_what_is_either_applied_or_committed_is_in_progress(
    applied: Applied, committed: tuple[int, ...], expected: tuple[int, int]
) -> None:
    assert hands(applied, commits_of(*committed)) == expected


def test_what_an_earlier_incarnation_has_applied_or_committed_is_not_in_progress() -> None:
    assert hands(applied_of(*range(9), is_new=False), commits_of(5, begun=5)) == (0, 0)
    assert hands(applied_of(*range(5), is_new=False), commits_of(9, begun=9)) == (0, 0)


def test_a_record_whose_offset_nobody_knows_yet_is_not_in_progress() -> None:
    """A consumer may be faster than the acknowledgement."""
    positions = {0: Positions(np.zeros(3, np.int32), np.array([0, 1, -1]))}
    commits = commits_of(3)
    assert unapplied(positions, applied_of(0, 1), commits) == uncommitted(positions, applied_of(2), commits) == 0


def test_without_an_earlier_look_nobody_knows_what_the_latest_commit_covers() -> None:
    commits = Commits()
    commits.note({0: 10})
    assert hands(applied_of(*range(5), 8, 9), commits) == (0, 0)
    commits.note({0: 12})
    assert hands(applied_of(*range(5), 8, 9), commits) == (0, 2)


def test_a_random_history_gives_what_an_oracle_over_sets_gives() -> None:
    draw = random.Random(39)
    some = [0, 0]
    for _ in range(HISTORIES):
        partitions, producers = draw.randint(1, 3), draw.randint(1, 2)
        places = {
            producer: [(draw.randrange(partitions), -1) for _ in range(draw.randint(0, 30))]
            for producer in range(producers)
        }
        ends = dict.fromkeys(range(partitions), 0)
        for rows in places.values():
            for index, (partition, _) in enumerate(rows):
                if draw.random() < 0.9:
                    rows[index] = partition, ends[partition]
                    ends[partition] += draw.randint(1, 2)
        everything = [(producer, index) for producer, rows in places.items() for index in range(len(rows))]
        effects = [(*each, draw.random() < 0.7) for each in everything if draw.random() < 0.6]
        effects += [(*draw.choice(everything), True)] if everything else []
        commits, looks = Commits(), list[dict[int, int]]()
        for _ in range(draw.randint(2, 4)):
            least = looks[-1] if looks else dict.fromkeys(ends, 0)
            looks.append({partition: draw.randint(min(least[partition], end), end) for partition, end in ends.items()})
        commits.begin_incarnation(looks[0])
        for look in looks[1:]:
            commits.note(look)
        expected = oracle(places, effects, looks)
        columns = [np.array(column) for column in zip(*effects, strict=True)] or [np.zeros(0, np.int64)] * 3
        applied = Applied(columns[0], columns[1], columns[2].astype(bool))
        positions = {
            producer: Positions(
                np.array([partition for partition, _ in rows], np.int32), np.array([at for _, at in rows], np.int64)
            )
            for producer, rows in places.items()
        }
        found = uncommitted(positions, applied, commits), unapplied(positions, applied, commits)
        assert found == expected, (places, effects, looks)
        some = [max(pair) for pair in zip(some, found, strict=True)]
    assert min(some) > 2, "the histories have records of both kinds in progress"


def oracle(
    places: dict[int, list[tuple[int, int]]], effects: list[tuple[int, int, bool]], looks: list[dict[int, int]]
) -> tuple[int, int]:
    """Returns (uncommitted, unapplied), record by record."""
    known = {(producer, index): at for producer, rows in places.items() for index, at in enumerate(rows) if at[1] >= 0}
    new = {known[producer, index] for producer, index, is_new in effects if is_new and (producer, index) in known}
    done = {known[producer, index] for producer, index, _ in effects if (producer, index) in known}
    left = set[tuple[int, int]]()
    for partition, offset in set(known.values()) - done:
        latest, before = (
            looks[-1][partition],
            [look[partition] for look in looks if look[partition] != looks[-1][partition]],
        )
        covered = offset >= (before[-1] if before else latest)
        beyond = all(offset > other for number, other in done if number == partition)
        if looks[0][partition] <= offset < latest and (covered or beyond):
            left.add((partition, offset))
    return sum(offset >= looks[-1][partition] for partition, offset in new), len(left)
