"""Append times: adds to the cases what the log shows of the times at which their copies were appended.

A record is *placed* if the log holds it at the offset at which it was acknowledged. A log is appended to, and nothing
else. So a copy was appended after each placed record before it was sent, and before each placed record behind it was
settled. Only the records near a copy are looked at: those in its block of BLOCK offsets, and in the blocks beside it.
Records are sent roughly in the order of their offsets, so those farther away would hardly say more.

The log *was written anew* at an offset if what stands there, or around it, was appended at another time than the
acknowledged record.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.snapshot import PartitionSnapshot
from spark_jobs.matching.attempts import KEY, believable
from spark_jobs.schemas import LEDGER, LOG, promise

BLOCK = 64
"""The number of offsets of a block."""
FEW = 2_000
"""Up to this number of copies, the records near them are few enough to be sent to every task."""
_NEAR = ["arm", "partition", "block"]
_IDENTITY = ["arm", "partition", "offset", *KEY[1:]]
_ENDS = "arm string, partition int, end bigint"
_COMPARED = {"overwritten": pa.bool_(), "appended_after": pa.int64(), "appended_before": pa.int64()}


def with_append_times(
    cases: pa.Table, ledger: DataFrame, log: DataFrame, partitions: Sequence[PartitionSnapshot]
) -> pa.Table:
    """Returns `cases`, rows of ANOMALIES, with the values of the columns `overwritten`, `appended_after` and
    `appended_before`.

    `ledger`: LEDGER. `log`: the rows of LOG that a read_uncommitted consumer sees. `partitions`: the snapshot of the
    arms that are asked about. The cases of other arms stay as they are. Without a case of these arms, no query runs.
    """
    arms = pa.array({part.arm for part in partitions}, pa.string())
    everything = cases.append_column("case", pa.array(range(cases.num_rows), pa.int64()))
    numbered = everything.filter(pc.is_in(cases["arm"], value_set=arms))
    if not numbered.num_rows:
        return cases
    names = ["case", "arm", "partition", "outcome", "acked_offset", "offsets", "partitions", "sent_at", "settled_at"]
    spark = ledger.sparkSession
    ends = spark.createDataFrame([(part.arm, part.partition, part.end) for part in partitions], _ENDS)
    spots = _spots(spark.createDataFrame(numbered.select(names)), ends)
    few = (pc.sum(pc.list_value_length(numbered["offsets"])).as_py() or 0) + numbered.num_rows <= FEW
    compared = _compared(spots, _placed(spots, ledger, log, few)).toArrow()
    aligned = everything.select(["case"]).join(compared, "case", join_type="left outer").sort_by("case")
    for name, arrow_type in _COMPARED.items():
        values = aligned[name].cast(arrow_type).cast(cases.schema.field(name).type)
        cases = cases.set_column(cases.schema.get_field_index(name), cases.schema.field(name), values)
    return cases


def _spots(cases: DataFrame, ends: DataFrame) -> DataFrame:
    """Returns the locations in the log that the cases are about: a row per case, location and block beside it.

    `acked`: the acknowledged offset in the row of an acknowledged copy that is gone; null in the row of a copy.
    `offset` is then at most the end of the partition, where the last records say as much as records near the offset.
    """
    known = ["case", "arm", "from_us", "until_us"]
    times = {"from_us": F.unix_micros("sent_at"), "until_us": F.unix_micros("settled_at")}
    attempts = cases.where(F.col("outcome").isNotNull()).withColumns(times)
    copies = attempts.select(*known, F.explode(F.arrays_zip("offsets", "partitions")).alias("copy")).select(
        *known,
        F.col("copy.partitions").cast("int").alias("partition"),
        F.col("copy.offsets").alias("offset"),
        F.lit(None).cast("bigint").alias("acked"),
    )
    stands = F.exists(
        F.arrays_zip("offsets", "partitions"),
        lambda copy: (copy["offsets"] == F.col("acked_offset")) & (copy["partitions"] == F.col("partition")),
    )
    gone = (
        attempts.where(F.col("acked_offset").isNotNull() & ~stands)
        .join(F.broadcast(ends), ["arm", "partition"])
        .select(
            *known, "partition", F.least("acked_offset", "end").alias("offset"), F.col("acked_offset").alias("acked")
        )
    )
    block = _block(F.col("offset"))
    beside = F.explode(F.array(block - 1, block, block + 1)).alias("block")
    return copies.unionByName(gone).select("*", beside)


def _placed(spots: DataFrame, ledger: DataFrame, log: DataFrame, few: bool) -> DataFrame:
    """Returns the placed records in the blocks of `spots`. `few`: whether they are few."""
    blocks = F.broadcast(spots.select(*_NEAR).distinct())
    claims = promise(ledger, LEDGER).where((F.col("outcome") == Outcome.ACKED) & F.col("offset").isNotNull())
    claims = claims.select(
        *_IDENTITY, F.unix_micros("sent_at").alias("sent"), F.unix_micros("settled_at").alias("settled")
    )
    lines = believable(promise(log, LOG)).select(*_IDENTITY)
    near_claims, near_lines = (
        rows.withColumn("block", _block(F.col("offset"))).join(blocks, _NEAR, "left_semi") for rows in (claims, lines)
    )
    placed: DataFrame = near_lines.drop("block").join(F.broadcast(near_claims) if few else near_claims, _IDENTITY)
    return placed


def _compared(spots: DataFrame, placed: DataFrame) -> DataFrame:
    """Returns one row per case: `case`, and the columns in _COMPARED, with times in µs since the epoch."""
    records = placed.select("arm", "partition", "block", F.col("offset").alias("at"), "sent", "settled")
    near = F.broadcast(spots).join(records, _NEAR, "left")
    is_copy = F.col("acked").isNull()
    before, behind = F.col("at") < F.col("offset"), F.col("at") > F.col("offset")
    anew = (F.col("at") == F.col("acked")) | (before & (F.col("sent") > F.col("until_us")))
    anew = anew | (behind & (F.col("settled") < F.col("from_us")))
    return near.groupBy("case").agg(
        F.bool_or(F.when(~is_copy, F.coalesce(anew, F.lit(False)))).alias("overwritten"),
        F.max(F.when(is_copy & before, F.col("sent"))).alias("appended_after"),
        F.min(F.when(is_copy & behind, F.col("settled"))).alias("appended_before"),
    )


def _block(offset: Column) -> Column:
    block: Column = F.floor(offset / BLOCK)
    return block
