"""Attempts: ledger and log brought together by attempt, with the copies of each and their order."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import REPORTED, TRANSACTIONAL, Outcome, column
from spark_jobs.parse import is_marker, is_sound
from spark_jobs.schemas import ATTEMPTS, LEDGER, LOCATION_UNIT, LOG, promise

SEQUENCE_KEY = ["arm", "producer", "session", "sequence"]
KEY = [*SEQUENCE_KEY, "attempt"]
BY_KEY = ["sequence", "attempt", "producer", "session", "arm"]
"""The same columns for grouping: it sorts, and the first column's digits decide nearly every comparison."""
CLAIMED = {
    "partition": "int",
    "partition_sequence": "bigint",
    "outcome": "string",
    "acked": "bigint",
    "sent_at": "timestamp",
    "settled_at": "timestamp",
    "error": "string",
}
"""What only the ledger says of an attempt."""


def location(offset: str | Column, partition: str | Column) -> Column:
    """Where a copy stands, as one number that sorts by offset first."""
    at, of = (F.col(name) if isinstance(name, str) else name for name in (offset, partition))
    return at * LOCATION_UNIT + of


def reported() -> Column:
    """True on an attempt that the client was told is written."""
    return F.coalesce(F.col("outcome").isin(*REPORTED), F.lit(False))


def attempts(
    ledger: DataFrame, lines: DataFrame, owned: DataFrame | None, resends: bool, together: bool = False
) -> DataFrame:
    """LEDGER, believable lines of LOG -> ATTEMPTS: one row per attempt that either names.

    `owned` are corrupted lines with the attempt they belong to (`attribute`), `resends` whether any sequence was sent
    more than once, `together` that all rows are in one partition: each spares a shuffle.
    """
    rows = _claims(ledger).unionByName(_copies(promise(lines, LOG), corrupted=False))
    if owned is not None:
        rows = rows.unionByName(owned)
    # by sequence, not by attempt: then neither the grouping nor the count of resends shuffles again
    matched = (
        (rows if together else rows.repartition(*SEQUENCE_KEY))
        .groupBy(*BY_KEY)
        .agg(
            F.max(F.when(F.col("outcome").isNotNull(), F.struct(*CLAIMED))).alias("claim"),
            F.max("corrupted").alias("corrupted"),
            F.sort_array(F.collect_list("copy")).alias("copies"),
            F.min("numbered").alias("lowest"),
            F.max("numbered").alias("highest"),
        )
        .select(*KEY, "claim.*", "corrupted", "copies", _astray().alias("astray"))
    )
    views = {name: F.lit(False) for name in map(column, TRANSACTIONAL)}  # for `committed.judged` to say
    return promise(_ordered(_resent(matched, resends)).withColumns(views), ATTEMPTS)


def believable(log: DataFrame) -> DataFrame:
    """Lines of this run and arm whose checksum agrees: they are the attempt that their header names."""
    return log.where(is_sound() & ~F.col("foreign") & ~is_marker())


def corrupted(log: DataFrame) -> DataFrame:
    """Lines whose checksum differs, and those that are no record at all: nothing they say can be believed."""
    return promise(log, LOG).where(~is_sound())


def foreign(log: DataFrame) -> DataFrame:
    """Sound records of another run or another arm."""
    return promise(log, LOG).where(is_sound() & F.col("foreign"))


def attribute(ledger: DataFrame, log: DataFrame, arms: Sequence[str], few: bool, together: bool = False) -> DataFrame:
    """Each corrupted line with the attempt that was acknowledged at its place, null where there is none.

    `arms` are those with corrupted lines, `few` whether these fit in memory: then the ledger is not shuffled for them;
    `together` that all rows are in one partition: then nothing is.
    Two attempts can have been acknowledged at one offset, if the first was truncated: the later one has it.
    """
    place = ["arm", "partition", "offset"]
    damaged = corrupted(log).where(F.col("arm").isin(*arms)).select(*place)
    acked = ledger.where((F.col("outcome") == Outcome.ACKED) & F.col("offset").isNotNull() & F.col("arm").isin(*arms))
    if not together:
        acked = acked.join(F.broadcast(damaged) if few else damaged, place, "left_semi")
    latest = acked.groupBy(*place).agg(
        F.max(F.struct("settled_at", *KEY[1:])).alias("owner"),
    )
    return damaged.join(latest.hint("shuffle_hash") if together else latest, place, "left").select(
        *place,
        *[F.col("owner")[name].alias(name) for name in KEY[1:]],
    )


def owned_copies(attributed: DataFrame) -> DataFrame:
    """Corrupted lines that have an owner, as copies of it."""
    return _copies(attributed.where(F.col("sequence").isNotNull()), corrupted=True)


def unowned(attributed: DataFrame) -> DataFrame:
    """Corrupted lines that nobody's acknowledgement stands for: arm, partition, offset."""
    return attributed.where(F.col("sequence").isNull()).select("arm", "partition", "offset")


def _claims(ledger: DataFrame) -> DataFrame:
    acked = F.when(F.col("outcome") == Outcome.ACKED, location("offset", "partition"))
    nothing = {"copy": F.lit(None).cast("bigint"), "corrupted": F.lit(False)}
    nothing["numbered"] = F.lit(None).cast("bigint")
    return promise(ledger, LEDGER).withColumns({"acked": acked} | nothing).select(*KEY, *CLAIMED, *nothing)


def _copies(lines: DataFrame, corrupted: bool) -> DataFrame:
    numbered = F.lit(None).cast("bigint") if corrupted else F.col("partition_sequence")
    found = {"copy": location("offset", "partition"), "corrupted": F.lit(corrupted), "numbered": numbered}
    nothing = [F.lit(None).cast(kind).alias(name) for name, kind in CLAIMED.items()]
    return lines.select(*KEY, *[value.alias(name) for name, value in found.items()], *nothing)


def _astray() -> Column:
    """A line has another partition sequence than its claim; or it is owned, but its claim is not among the rows."""
    claimed = F.col("claim").isNotNull()
    told = F.col("claim.partition_sequence")
    other = claimed & ((F.col("lowest") != told) | (F.col("highest") != told))
    return F.coalesce(other, F.lit(False)) | (~claimed & F.col("corrupted"))


def _resent(frame: DataFrame, resends: bool) -> DataFrame:
    """Adds `resent`: another attempt of the sequence is in the log too. A FAILED one is a phantom instead."""
    if not resends:
        return frame.withColumn("resent", F.lit(False))
    present = F.col("outcome").isNotNull() & (F.col("outcome") != Outcome.FAILED) & (F.size("copies") > 0)
    together = F.count_if(present).over(Window.partitionBy(*SEQUENCE_KEY))
    return frame.withColumn("resent", F.coalesce(present, F.lit(False)) & (together >= 2))


def _ordered(frame: DataFrame) -> DataFrame:
    """Adds `reordered` and `late`: a reported record of higher partition sequence stands before the first
    copy."""
    first = F.get("copies", F.lit(0))
    by_place = Window.partitionBy("arm", "producer", "session", first % LOCATION_UNIT).orderBy(first)
    before = by_place.rowsBetween(Window.unboundedPreceding, -1)
    overtaker = F.max(F.when(reported() & (F.size("copies") > 0), F.col("partition_sequence"))).over(before)
    behind = F.coalesce((F.size("copies") > 0) & (F.col("partition_sequence") < overtaker), F.lit(False))
    return frame.withColumn("behind", behind).withColumns(
        {
            "reordered": F.col("behind") & reported(),
            "late": F.col("behind") & F.coalesce(F.col("outcome") == Outcome.INDETERMINATE, F.lit(False)),
        }
    )
