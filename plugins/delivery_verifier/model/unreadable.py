"""Unreadable offsets: offsets of a partition that nobody can read, because bytes on the leader's disk have changed."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct


class Unreadable(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A range of offsets of a partition, [first, end), that nobody can read from the partition's leader.

    Each offset holds a data record or a control record, but nobody knows which. `shown_until` is the offset directly
    after the last data record before `first`. From `shown_until` to `first` there are only control records, which no
    consumer shows. `detail` says what is wrong: the two checksums of a batch, or the broker's error.
    """

    first: int
    end: int
    shown_until: int
    detail: str


def count_unreadable(ranges: Iterable[Unreadable], begin: int, end: int) -> int:
    """Returns how many offsets in [begin, end) are unreadable. `ranges` are the unreadable ranges."""
    return sum(max(0, min(part.end, end) - max(part.first, begin)) for part in ranges)
