"""What a user application (a program of the user's own) has in progress at one moment, by the offsets of its records.

The verifier sees from outside which records the application has applied, and which offsets its group has committed. Two
kinds of records are in progress:

* *Uncommitted*: applied in this incarnation, and not committed. After a kill, the group delivers them again.
* *Unapplied*: committed in this incarnation, and not applied. After a kill, nobody applies them.

A record that the application has left out for good is committed and not applied, too. It must not look like a record in
progress for ever. So a record counts as unapplied only in two cases: no record with a higher offset of its partition
was applied, or the group's latest commit covers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from delivery_verifier.model.positions import Positions

Offsets = Mapping[int, int]
"""Maps each partition to an offset that the group has committed; 0 if it has committed none."""
_Flags = npt.NDArray[np.bool_]


class InProgress(NamedTuple):
    """How many records are in progress.

    `undecided`: the offsets of the output topic from the oldest open transaction on. `has_committed`: whether the group
    has ever committed an offset. If not, nobody sees what is in progress, and all numbers are 0.
    """

    uncommitted: int = 0
    unapplied: int = 0
    undecided: int = 0
    has_committed: bool = True

    @property
    def total(self) -> int:
        """The number of all records in progress."""
        return max(self.uncommitted, self.undecided) + self.unapplied


class Applied(NamedTuple):
    """The applied records: their producers and sequences, and whether each was applied in this incarnation."""

    producer: npt.NDArray[np.int64]
    sequence: npt.NDArray[np.int64]
    is_new: _Flags


class Commits:
    """The commits of one group, as far as looks have seen them.

    `begun`: what was committed when this incarnation began. `latest`: what the last look has seen. `previous`: what was
    committed before the latest commit of each partition. At the first look this is not known, and equals `latest`.
    """

    def __init__(self) -> None:
        self.begun: Offsets = {}
        self.latest: dict[int, int] = {}
        self.previous: dict[int, int] = {}

    def begin_incarnation(self, committed: Offsets) -> None:
        """Notes that the members are about to begin another incarnation."""
        self.begun, self.latest, self.previous = dict(committed), dict(committed), dict(committed)

    def note(self, committed: Offsets) -> None:
        """Notes what a look has seen."""
        for partition, offset in committed.items():
            before = self.latest.get(partition, offset)
            if before != offset or partition not in self.previous:
                self.previous[partition] = before
            self.latest[partition] = offset


def uncommitted(positions: Mapping[int, Positions], applied: Applied, commits: Commits) -> int:
    """Returns how many records were applied in this incarnation, and are not committed. `positions` maps each producer
    to the positions of its records."""
    count = 0
    for producer, own in positions.items():
        is_new = _is_applied(own, applied, producer, only_new=True)
        count += int(np.count_nonzero(is_new & (own.offset >= _by_partition(own, commits.latest))))
    return count


def unapplied(positions: Mapping[int, Positions], applied: Applied, commits: Commits) -> int:
    """Returns how many records were committed in this incarnation, and are not applied. Leaves out the records that the
    application has left out for good (see the docstring of the module)."""
    frontier = dict[int, int]()
    for producer, own in positions.items():
        is_applied = _is_applied(own, applied, producer)
        for partition in np.unique(own.partition[is_applied]).tolist():
            highest = int(own.offset[is_applied & (own.partition == partition)].max())
            frontier[partition] = max(frontier.get(partition, -1), highest)
    count = 0
    first = {
        partition: max(commits.begun.get(partition, 0), min(frontier.get(partition, -1) + 1, before))
        for partition, before in commits.previous.items()
    }
    for producer, own in positions.items():
        is_committed = (own.offset >= _by_partition(own, first)) & (own.offset < _by_partition(own, commits.latest))
        is_known = own.offset >= 0
        count += int(np.count_nonzero(is_known & is_committed & ~_is_applied(own, applied, producer)))
    return count


def _is_applied(own: Positions, applied: Applied, producer: int, *, only_new: bool = False) -> _Flags:
    """Returns, for each sequence of the producer, whether it was applied, and its offset is known. With `only_new`,
    only records count that were applied in this incarnation."""
    chosen = (applied.producer == producer) & (applied.sequence < len(own.offset))
    if only_new:
        chosen &= applied.is_new
    flags = np.zeros(len(own.offset), bool)
    flags[applied.sequence[chosen]] = True
    return flags & (own.offset >= 0)


def _by_partition(own: Positions, offsets: Offsets) -> npt.NDArray[np.int64]:
    """Returns, for each sequence of the producer, the item of `offsets` for its partition; 0 if there is none."""
    table = np.zeros(max([*offsets, int(own.partition.max(initial=0))]) + 1, np.int64)
    table[list(offsets)] = list(offsets.values())
    return table[own.partition]
