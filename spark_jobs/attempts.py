"""Attempts: ledger and log joined by attempt, with the copies of each attempt and their order."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import TRANSACTIONAL, column
from delivery_verifier.model.outcomes import REPORTED, Outcome
from spark_jobs.parse import is_marker, is_sound
from spark_jobs.schemas import ATTEMPTS, LEDGER, LOCATION_UNIT, LOG, promise

SEQUENCE_KEY = ["arm", "producer", "session", "sequence"]
KEY = [*SEQUENCE_KEY, "attempt"]
BY_KEY = ["sequence", "attempt", "producer", "session", "arm"]
"""The columns of KEY in the order for grouping. Grouping sorts; the first column decides nearly every comparison."""
CLAIMED = {
    "partition": "int",
    "partition_sequence": "bigint",
    "outcome": "string",
    "acked": "bigint",
    "sent_at": "timestamp",
    "settled_at": "timestamp",
    "error": "string",
}
"""Columns of an attempt that only the ledger knows."""


def location(offset: str | Column, partition: str | Column) -> Column:
    """The location of a copy: one number, which sorts by offset first."""
    offset_column, partition_column = (F.col(name) if isinstance(name, str) else name for name in (offset, partition))
    return offset_column * LOCATION_UNIT + partition_column


def reported() -> Column:
    """True on an attempt that was reported as written: ACKED or SENT."""
    return F.coalesce(F.col("outcome").isin(*REPORTED), F.lit(False))


def attempts(
    ledger: DataFrame, lines: DataFrame, owned: DataFrame | None, resends: bool, together: bool = False
) -> DataFrame:
    """LEDGER, believable lines of LOG -> ATTEMPTS: one row per attempt that the ledger or the log names.

    `owned`: corrupted lines with the attempt to which they belong (`attribute`). `resends`: whether any sequence was
    sent more than once. `together`: all rows are in one partition. Without resends, and with `together`, there is one
    shuffle less.
    """
    rows = _claims(ledger).unionByName(_copies(promise(lines, LOG), corrupted=False))
    if owned is not None:
        rows = rows.unionByName(owned)
    # Partitioned by sequence, not by attempt: neither the grouping nor the count of resends then shuffles again.
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
    views = {name: F.lit(False) for name in map(column, TRANSACTIONAL)}  # `committed.with_flags` fills them
    return promise(_ordered(_resent(matched, resends)).withColumns(views), ATTEMPTS)


def believable(log: DataFrame) -> DataFrame:
    """Lines of this run and arm whose checksum agrees: each is a copy of the attempt that its header names."""
    return log.where(is_sound() & ~F.col("foreign") & ~is_marker())


def corrupted(log: DataFrame) -> DataFrame:
    """Lines whose checksum differs, and lines that are no record at all. Nothing in these lines can be believed."""
    return promise(log, LOG).where(~is_sound())


def foreign(log: DataFrame) -> DataFrame:
    """Sound records of another run or another arm."""
    return promise(log, LOG).where(is_sound() & F.col("foreign"))


def attribute(ledger: DataFrame, log: DataFrame, arms: Sequence[str], few: bool, together: bool = False) -> DataFrame:
    """Each corrupted line with the attempt that was acknowledged at its offset, null where there is none.

    `arms` are the arms with corrupted lines. `few`: these lines fit in memory, and the ledger is not shuffled for them.
    `together`: all rows are in one partition, and nothing is shuffled.
    Two attempts can have been acknowledged at one offset, if the first was truncated. The later one owns the line.
    """
    location_columns = ["arm", "partition", "offset"]
    damaged = corrupted(log).where(F.col("arm").isin(*arms)).select(*location_columns)
    acked = ledger.where((F.col("outcome") == Outcome.ACKED) & F.col("offset").isNotNull() & F.col("arm").isin(*arms))
    if not together:
        acked = acked.join(F.broadcast(damaged) if few else damaged, location_columns, "left_semi")
    latest = acked.groupBy(*location_columns).agg(
        F.max(F.struct("settled_at", *KEY[1:])).alias("owner"),
    )
    return damaged.join(latest.hint("shuffle_hash") if together else latest, location_columns, "left").select(
        *location_columns,
        *[F.col("owner")[name].alias(name) for name in KEY[1:]],
    )


def owned_copies(attributed: DataFrame) -> DataFrame:
    """Corrupted lines that have an owner, as copies of the attempt that owns them."""
    return _copies(attributed.where(F.col("sequence").isNotNull()), corrupted=True)


def unowned(attributed: DataFrame) -> DataFrame:
    """Corrupted lines at offsets that no attempt was acknowledged with: arm, partition, offset."""
    return attributed.where(F.col("sequence").isNull()).select("arm", "partition", "offset")


def _claims(ledger: DataFrame) -> DataFrame:
    """LEDGER as rows for the grouping: claims without copies."""
    acked = F.when(F.col("outcome") == Outcome.ACKED, location("offset", "partition"))
    no_copy = {"copy": F.lit(None).cast("bigint"), "corrupted": F.lit(False)}
    no_copy["numbered"] = F.lit(None).cast("bigint")
    return promise(ledger, LEDGER).withColumns({"acked": acked} | no_copy).select(*KEY, *CLAIMED, *no_copy)


def _copies(lines: DataFrame, corrupted: bool) -> DataFrame:
    """Lines of LOG as rows for the grouping: copies without claims."""
    numbered = F.lit(None).cast("bigint") if corrupted else F.col("partition_sequence")
    copy = {"copy": location("offset", "partition"), "corrupted": F.lit(corrupted), "numbered": numbered}
    no_claim = [F.lit(None).cast(kind).alias(name) for name, kind in CLAIMED.items()]
    return lines.select(*KEY, *[value.alias(name) for name, value in copy.items()], *no_claim)


def _astray() -> Column:
    """True where a line has another partition sequence than its claim, or where an owned line has no claim."""
    claimed = F.col("claim").isNotNull()
    expected = F.col("claim.partition_sequence")
    differs = claimed & ((F.col("lowest") != expected) | (F.col("highest") != expected))
    return F.coalesce(differs, F.lit(False)) | (~claimed & F.col("corrupted"))


def _resent(frame: DataFrame, resends: bool) -> DataFrame:
    """Adds `resent`: another attempt of the sequence is in the log, too. (A FAILED one there is a phantom.)"""
    if not resends:
        return frame.withColumn("resent", F.lit(False))
    present = F.col("outcome").isNotNull() & (F.col("outcome") != Outcome.FAILED) & (F.size("copies") > 0)
    present_attempts = F.count_if(present).over(Window.partitionBy(*SEQUENCE_KEY))
    return frame.withColumn("resent", F.coalesce(present, F.lit(False)) & (present_attempts >= 2))


def _ordered(frame: DataFrame) -> DataFrame:
    """Adds `reordered` and `late`: a reported record with a higher partition sequence stands before the first copy."""
    first = F.get("copies", F.lit(0))
    by_partition = Window.partitionBy("arm", "producer", "session", first % LOCATION_UNIT).orderBy(first)
    before = by_partition.rowsBetween(Window.unboundedPreceding, -1)
    overtaker = F.max(F.when(reported() & (F.size("copies") > 0), F.col("partition_sequence"))).over(before)
    behind = F.coalesce((F.size("copies") > 0) & (F.col("partition_sequence") < overtaker), F.lit(False))
    return frame.withColumn("behind", behind).withColumns(
        {
            "reordered": F.col("behind") & reported(),
            "late": F.col("behind") & F.coalesce(F.col("outcome") == Outcome.INDETERMINATE, F.lit(False)),
        }
    )
