"""Unreadable offsets: what the counts say about records that nobody can read.

The step settle found these offsets in the log of the partition's leader (`PartitionSnapshot.unreadable`). Each
unreadable offset is a row of LOG that is not parsed. It becomes a case of CORRUPTED, like a damaged record.

* If an attempt was acknowledged at this offset, the case belongs to this attempt.
* Otherwise the offset is a case of its own. Any attempt of which no record was found may then stand at this offset. So
  in such a partition, no attempt is proven LOST: a reported attempt that was not found is *missing*. Such an attempt is
  not TORN either, because nobody knows which consumers see an unreadable record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.outcomes import REPORTED
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.model.unreadable import Unreadable, count_unreadable
from delivery_verifier.run_directory.tally import MISSING
from spark_jobs.schemas import LOG, promise

ArmPartition = tuple[str, int]
"""The name of an arm and the number of a partition."""


def count(part: PartitionSnapshot) -> int:
    """Returns the number of unreadable offsets in the snapshot of a partition."""
    return count_unreadable(part.unreadable, part.start, part.end)


def readable(part: PartitionSnapshot, until: int = -1) -> list[tuple[int, int]]:
    """Returns the ranges of offsets that can be read, as (first, end). The last range ends at `until`; -1 is the end of
    the log. If no offset before `until` can be read, the only range is empty.

    Control records directly before an unreadable offset are in no range. Reason: a consumer passes over control records
    only when it reads on, and it cannot read on there.
    """
    begins = [part.start, *(each.end for each in part.unreadable)]
    ends = [*(each.shown_until for each in part.unreadable), -1]
    ranges = [(begin, end) for begin, end in zip(begins, ends, strict=True) if end == -1 or begin < end]
    if until < 0:
        return ranges
    within = [(begin, until if end == -1 else min(end, until)) for begin, end in ranges if begin < until]
    return within or [(part.start, part.start)]


def lines(spark: SparkSession, offsets: Offsets) -> DataFrame | None:
    """Returns rows of LOG: one row for each unreadable offset in the snapshot. Returns None if all offsets can be
    read."""
    ranges = [
        (part.arm, part.partition, each.first, min(each.end, part.end))
        for part in offsets.partitions
        for each in part.unreadable
        if each.first < part.end
    ]
    if not ranges:
        return None
    frame = spark.createDataFrame(ranges, "arm string, partition int, first bigint, end bigint")
    known = {
        "offset": F.explode(F.sequence("first", F.col("end") - 1)),
        "view": F.lit("raw"),
    } | {name: F.lit(False) for name in ("parsed", "crc_ok", "foreign")}
    nulls = {field.name: F.lit(None).cast(field.dataType) for field in LOG if field.nullable}
    return promise(frame.withColumns(known | nulls), LOG)


def is_hidden(offsets: Offsets) -> Column:
    """Returns a column that is true for an attempt (row of ATTEMPTS), if nobody knows whether a read_committed consumer
    sees the attempt.

    This is so if no record of the attempt could be read, and the attempt's partition has unreadable offsets.
    """
    partitions = [(part.arm, part.partition) for part in offsets.partitions if count(part)]
    return _is_in(partitions) & ((F.size("copies") == 0) | F.col("corrupted"))


def ownerless(unattributed: DataFrame | None, offsets: Offsets) -> list[ArmPartition]:
    """Returns the partitions that have an unreadable offset at which no attempt was acknowledged.

    `unattributed`: arm, partition and offset of each corrupted record at whose offset no attempt was acknowledged; None
    if there are none.
    """
    ranges = [(part, each) for part in offsets.partitions for each in part.unreadable if each.first < part.end]
    if unattributed is None or not ranges:
        return []
    within = reduce(or_, (_is_in([(part.arm, part.partition)]) & _is_within("offset", each) for part, each in ranges))
    rows = unattributed.where(within).select("arm", "partition").distinct().toArrow().to_pylist()
    return sorted((row["arm"], row["partition"]) for row in rows)


def without_unproven_losses(subjects: DataFrame, partitions: list[ArmPartition]) -> DataFrame:
    """Returns SUBJECTS, without the kind LOST in `partitions`: no loss is proven there, so a LOST attempt gets no kind
    of anomaly."""
    if not partitions:
        return subjects
    unproven = (F.col("kind") == Anomaly.LOST.value) & _is_in(partitions)
    cleared = {
        "kind": F.when(~F.coalesce(unproven, F.lit(False)), F.col("kind")),
        "also": F.when(F.coalesce(unproven, F.lit(False)), F.array().cast("array<string>")).otherwise(F.col("also")),
    }
    return subjects.withColumns(cleared)


def missing(counted: Iterable[dict[str, Any]], offsets: Offsets) -> dict[str, int]:
    """Returns the counts `missing/<arm>/<partition>` for the manifest, for the partitions with unreadable offsets. Each
    count is the number of reported attempts that are neither found nor LOST. `counted`: rows of SUMMARY_ROWS.

    In a partition without unreadable offsets, such an attempt would be an error of the matching. This function does not
    count it. So the error breaks the invariant `reported_sum`.
    """
    partitions = {(part.arm, part.partition) for part in offsets.partitions if count(part)}
    counts: Counter[str] = Counter()
    for row in counted:
        absent = row["role"] == "attempt" and row["first_partition"] is None and row["outcome"] in REPORTED
        if absent and row["kind"] != Anomaly.LOST and (row["arm"], row["partition"]) in partitions:
            counts[f"{MISSING}{row['arm']}/{row['partition']}"] += row["records"]
    return dict(counts)


def with_evidence(cases: pa.Table, offsets: Offsets) -> pa.Table:
    """Returns ANOMALIES: the rows of `cases`. If an offset of a CORRUPTED case cannot be read, the column `detail` of
    the case also gives the reason."""
    parts = {(part.arm, part.partition): part for part in offsets.partitions if part.unreadable}
    if not parts:
        return cases
    rows = cases.to_pylist()
    for row in rows:
        part = parts.get((row["arm"], row["partition"]))
        if part is None or row["kind"] != Anomaly.CORRUPTED:
            continue
        for each in part.unreadable:
            if any(each.first <= offset < each.end for offset in row["offsets"] or ()):
                before = f"{row['detail']}; " if row["outcome"] else ""
                row["detail"] = f"{before}offsets {each.first} to {each.end - 1} cannot be read: {each.detail}"
    return pa.Table.from_pylist(rows, schema=cases.schema)


def _is_in(partitions: Iterable[ArmPartition]) -> Column:
    return reduce(
        or_, ((F.col("arm") == arm) & (F.col("partition") == number) for arm, number in partitions), F.lit(False)
    )


def _is_within(offset: str, part: Unreadable) -> Column:
    return (F.col(offset) >= part.first) & (F.col(offset) < part.end)
