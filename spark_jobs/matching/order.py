"""The order of buckets: finds the chunks in which records may be out of order because of other buckets.

A record is out of order if it stands in the log behind a record that its producer sent later to the same partition. A
bucket consists of the claims and the copies of a chunk in one partition (see `spark_jobs.matching.screen`). Buckets
are compared by two measures: partition sequences have the order of sending, and offsets have the order of the log.

A bucket is *passed* if a record of an earlier bucket, e.g. a late duplicate, may stand in the log behind the beginning
of the passed bucket. The record of the earlier bucket may then be out of order. The records of the passed bucket stay
in order. Suppose each offset from the first to the last copy of the passed bucket is one of its copies. Then the record
of the earlier bucket stands behind all of these copies, or before all of them. So a comparison with the last copy alone
shows whether the record of the earlier bucket is out of order. The last copy is the *boundary* of the passed bucket.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from itertools import accumulate
from typing import Any, NamedTuple

from spark_jobs.matching.buckets import Chunk, Row, chunk_of

_MEASURES = ("partition_sequence", "position")
Span = tuple[int, int]
"""The least and the greatest value of a measure in a bucket."""


class Order(NamedTuple):
    """The result of `order`.

    `entangled`: the chunks that may have records out of order. `passed`: the rows of BUCKETS that are passed. The
    boundary of a passed bucket is its last copy. A row in `passed` has no meaning if its chunk is in `entangled`.
    """

    entangled: set[Chunk]
    passed: list[Row]


class _Extent(NamedTuple):
    """The place of a bucket in its partition. `sent`: the span of the bucket's partition sequences. `stands`: the span
    of the bucket's offsets. `row`: the bucket's row of BUCKETS."""

    sent: Span
    stands: Span
    row: Row


def order(rows: Iterable[Row], damaged: Set[tuple[str, int]]) -> Order:
    """Finds the entangled chunks and the passed buckets among `rows` (rows of BUCKETS). `damaged`: every (arm,
    partition) with corrupted records.

    In damaged partitions, copies and claims are compared, because a corrupted record may hide the position of an
    attempt. In all other partitions, only copies are compared.
    """
    by_producer: defaultdict[tuple[Any, ...], list[_Extent]] = defaultdict(list)
    for row in rows:
        sides = ("logged", "claimed") if (row["arm"], row["partition"]) in damaged else ("logged",)
        if any(row[f"{side}_position_min"] is not None for side in sides):
            sent, stands = (_span(row, sides, measure) for measure in _MEASURES)
            key = row["arm"], row["producer"], row["session"], row["partition"]
            by_producer[key].append(_Extent(sent, stands, row))
    entangled, passed = set[Chunk](), list[Row]()
    for extents in by_producer.values():
        for extent, is_passed in _compared(sorted(extents, key=lambda extent: extent.sent)):
            if not is_passed:
                entangled.add(chunk_of(extent.row))
            else:
                passed.append(extent.row)
    return Order(entangled, passed)


def _compared(extents: list[_Extent]) -> Iterator[tuple[_Extent, bool]]:
    """Yields each bucket that is not apart from all others. The second item is True if the bucket is passed, and False
    if it is entangled.

    `extents`: the buckets of one producer in one partition, sorted by their partition sequences. A bucket is apart from
    the others if, in both measures, every earlier bucket ends below it, and every later bucket begins above it.
    """
    sent_until, stands_until = (
        list(accumulate((high for _, high in spans), max))
        for spans in ([extent.sent for extent in extents], [extent.stands for extent in extents])
    )
    sent_from, stands_from = (
        list(accumulate((low for low, _ in reversed(spans)), min))[::-1]
        for spans in ([extent.sent for extent in extents], [extent.stands for extent in extents])
    )
    for index, extent in enumerate(extents):
        is_first, is_last = index == 0, index + 1 == len(extents)
        is_sent_apart = (is_first or sent_until[index - 1] < extent.sent[0]) and (
            is_last or sent_from[index + 1] > extent.sent[1]
        )
        is_before = is_last or stands_from[index + 1] > extent.stands[1]
        is_behind = is_first or stands_until[index - 1] < extent.stands[0]
        if not (is_sent_apart and is_before and is_behind):
            yield extent, is_sent_apart and is_before and _is_gapless(extent.row)


def _is_gapless(row: Row) -> bool:
    """Returns whether each offset from the first to the last copy of a bucket is the offset of one of the bucket's
    copies."""
    first, last = row["logged_position_min"], row["logged_position_max"]
    return first is not None and row["copies"] == last - first + 1


def _span(row: Row, sides: Iterable[str], measure: str) -> Span:
    low, high = (
        end(value for side in sides if (value := row[f"{side}_{measure}_{end.__name__}"]) is not None)
        for end in (min, max)
    )
    return low, high
