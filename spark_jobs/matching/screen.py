"""The screen: finds chunks of a producer's sequences in which ledger and log agree. The rows of these chunks need
no matching.

A *chunk* is 2**bits consecutive sequences of one (arm, producer, session). A *bucket* is the part of a chunk in one
partition: the claims (attempts in the ledger) to this partition, and the copies (believable records in the log) in this
partition. A bucket is *clean* exactly if

* it has as many copies as claims; its claims are all ACKED or all SENT, as the client reported, outside transactions;
* claims and copies have equal fingerprints (sums of the 32-bit halves of a 64-bit hash of sequence, attempt and
  partition sequence);
* the difference offset - partition sequence is the same for each copy and each acknowledgement.

Then every attempt of the bucket stands exactly once in the partition, in order, and at its acknowledged offset if it
has one. A chunk is *proven* exactly if

1. each of its buckets is clean (if a line is in another partition than its claim, two buckets of the chunk are not
   clean);
2. none of its buckets can have records out of order because of another bucket, clean or not, of the same producer and
   partition (see `spark_jobs.matching.order`);
3. its claims have each sequence from the least to the greatest exactly once: there are as many claims as sequences, and
   claims and sequences have equal fingerprints (sums as above, of hashes of the sequence alone). So no sequence was
   resent, and the ledger does not contradict itself.

All other rows are matched one by one. The result is the same as if all rows were matched, unless the matching refutes
the screen (`astray` in ATTEMPTS). This happens if a line has another partition sequence than its claim, because
condition 2 then compared wrong numbers. It also happens if the owner of a corrupted line is in a proven chunk.

Whether a matched record is out of order may depend on proven records. *Boundaries* stand for these proven records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from functools import reduce
from operator import or_
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.literals import numbers_of_run
from spark_jobs.matching.buckets import CHUNK, Buckets, Chunk, Row, chunk_of, number
from spark_jobs.matching.fingerprints import sums
from spark_jobs.matching.order import order
from spark_jobs.schemas import BOUNDARIES, CHUNKS, arrow

FEW_RANGES = 100
"""The greatest number of ranges of proven chunks that the condition of a query excludes. (Neighbouring chunks
form a range.) If there are more ranges, the query joins the proven chunks instead."""


class Screen(NamedTuple):
    """The proven rows, which need no matching: all rows of the arms in `whole`, and all rows of the chunks in
    `chunks`.

    `bits`: a chunk has 2**`bits` sequences. `rows`: the rows of BUCKETS that are proven. `summary_rows`: the rows of
    SUMMARY_ROWS by which the tables of counts have the proven rows. `boundaries`: the rows of BOUNDARIES. They replace
    the proven rows when the order of other rows is checked. `counts`: figures for the manifest.
    """

    bits: int
    whole: list[str]
    chunks: pa.Table
    rows: list[Row]
    summary_rows: list[Row]
    boundaries: pa.Table
    counts: dict[str, int]


def prove(counted: Buckets, damaged: Set[tuple[str, int]]) -> Screen | None:
    """Returns the rows that `counted` proves, or None if nothing is proven.

    `damaged`: every (arm, partition) with corrupted records. In these partitions, condition 2 in the module's docstring
    is checked for claims (rows of LEDGER), too, because a corrupted record may hide the position of an attempt.
    """
    rows: list[Row] = [row for row in counted.table.to_pylist() if row["attempted"] or row["copies"]]
    dirty = {chunk_of(row) for row in rows if not _clean(row)}
    dirty |= _not_each_once(row for row in rows if chunk_of(row) not in dirty)
    of_rows = order(rows, damaged)
    dirty |= of_rows.entangled
    proven = [row for row in rows if chunk_of(row) not in dirty]
    if not proven:
        return None
    unproven_rows = [row for row in rows if chunk_of(row) in dirty]
    partial = {row["arm"] for row in unproven_rows}
    keys = sorted({chunk_of(row) for row in proven if row["arm"] in partial})
    return Screen(
        bits=counted.bits,
        whole=sorted({row["arm"] for row in proven} - partial),
        chunks=pa.Table.from_pylist([dict(zip(CHUNK, key, strict=True)) for key in keys], schema=arrow(CHUNKS)),
        rows=proven,
        summary_rows=[_summary_row(row) for row in proven],
        boundaries=pa.Table.from_pylist(
            [_boundary(row) for row in of_rows.passed if chunk_of(row) not in dirty], schema=arrow(BOUNDARIES)
        ),
        counts={
            "screen/bits": counted.bits,
            "screen/buckets": len(rows),
            "screen/dirty": len(unproven_rows),
            "screen/examined": sum(row["attempted"] + row["copies"] for row in unproven_rows),
        },
    )


def unproven(
    frame: DataFrame, screen: Screen | None, together: bool = False, exempt: Column | None = None
) -> DataFrame:
    """Returns the rows of `frame` (LEDGER or LOG) that the screen has not proven. If `screen` is None, these are all
    rows.

    `together`: whether all rows are in one Spark partition already; if so, they stay there. `exempt`: a condition, or
    None. Rows for which the condition is true are returned in any case.
    """
    if screen is None:
        return frame
    exempted = F.lit(False) if exempt is None else exempt
    remaining = frame.where(exempted | ~F.col("arm").isin(screen.whole)) if screen.whole else frame
    if not screen.chunks.num_rows:
        return remaining
    ranges = _ranges(screen.chunks.to_pylist())
    if len(ranges) <= FEW_RANGES:
        return remaining.where(exempted | ~_within(ranges, screen.bits))
    chunks = frame.sparkSession.createDataFrame(screen.chunks)
    known = chunks.coalesce(1).hint("shuffle_hash") if together else F.broadcast(chunks)
    chunk = F.when(~exempted, number(screen.bits)).alias("chunk")  # null for exempt rows: no match
    return remaining.withColumn("chunk", chunk).join(known, CHUNK, "left_anti").select(*frame.columns)


def _ranges(chunks: list[Row]) -> list[tuple[Chunk, Chunk]]:
    """Returns the first and the last chunk of each series of consecutive chunks. `chunks` must be sorted."""
    ranges: list[tuple[Chunk, Chunk]] = []
    for chunk in map(chunk_of, chunks):
        if ranges and ranges[-1][1] == (*chunk[:3], chunk[3] - 1):
            ranges[-1] = (ranges[-1][0], chunk)
        else:
            ranges.append((chunk, chunk))
    return ranges


def _within(ranges: Sequence[tuple[Chunk, Chunk]], bits: int) -> Column:
    """Returns a column that is true for a row of LEDGER or LOG in one of `ranges`, each of which begins and ends with a
    chunk. The column is never null."""
    bounds = numbers_of_run(
        [bound for (*_, first), (*_, last) in ranges for bound in (first << bits, (last + 1) << bits)]
    )
    conditions = []
    for index, ((arm, producer, session, _), _) in enumerate(ranges):
        since, until = (F.get(bounds, F.lit(2 * index + end)) for end in (0, 1))
        named = (F.col("arm") == arm) & (F.col("producer") == producer) & (F.col("session") == session)
        conditions.append(named & (F.col("sequence") >= since) & (F.col("sequence") < until))
    return F.coalesce(reduce(or_, conditions), F.lit(False))


def _clean(row: Row) -> bool:
    """Returns whether the attempts of a bucket are in the log exactly as acknowledged (*clean*, see the module's
    docstring)."""
    is_equal = row["attempted"] == row["copies"] and row["attempted"] in (row["acked"], row["sent"])
    shifts = {row[f"{side}_shift_{end}"] for side in ("claimed", "logged") for end in ("min", "max")}
    agrees = row["low"] == row["high"] == 0 and len(shifts - {None}) == 1
    return is_equal and agrees and not row["in_transactions"]


def _not_each_once(rows: Iterable[Row]) -> set[Chunk]:
    """Returns the chunks in which a sequence may be missing or repeated (condition 3 in the module's docstring).

    `rows`: rows of BUCKETS with claims.
    """
    buckets: defaultdict[Chunk, list[Row]] = defaultdict(list)
    for row in rows:
        buckets[chunk_of(row)].append(row)
    return {chunk for chunk, parts in buckets.items() if not _each_once(parts)}


def _each_once(parts: list[Row]) -> bool:
    first, last = (end(row[f"claimed_sequence_{end.__name__}"] for row in parts) for end in (min, max))
    if sum(row["attempted"] for row in parts) != last - first + 1:
        return False
    hashes = tuple(sum(row[name] for row in parts) for name in ("sequences_low", "sequences_high"))
    return hashes == sums(first, last)


def _summary_row(row: Row) -> Row:
    """Returns the row of SUMMARY_ROWS that stands in the counts for all attempts of one bucket in a proven chunk."""
    return {
        "arm": row["arm"],
        "role": "attempt",
        "producer": row["producer"],
        "session": row["session"],
        "partition": row["partition"],
        "once": True,
        "late": False,
        "astray": False,
        "records": row["attempted"],
        "first_partition": row["partition"],
        "outcome": "ACKED" if row["acked"] else "SENT",
        "kind": None,
        "also": [],
        "given_up": None,
    }


def _boundary(row: Row) -> Row:
    """Returns the row of BOUNDARIES for one bucket in a proven chunk. The last record of the bucket stands for all
    records of the bucket."""
    return {
        "arm": row["arm"],
        "producer": row["producer"],
        "session": row["session"],
        "partition": row["partition"],
        "partition_sequence": row["logged_partition_sequence_max"],
        "offset": row["logged_position_max"],
    }
