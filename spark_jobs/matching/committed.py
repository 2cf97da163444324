"""The committed view of the log: the records that a read_committed consumer sees. This module compares the view with
the ledger, which says how each transaction ended.

The view `raw` has the records that a read_uncommitted consumer sees. Only the arms in `Scenario.transactional` have
both views. For all other arms, the two views would be equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import TRANSACTIONAL, column
from delivery_verifier.model.outcomes import Outcome, TransactionOutcome
from delivery_verifier.model.snapshot import Offsets
from spark_jobs.matching.attempts import BY_KEY, KEY, attribute, believable, owned_copies
from spark_jobs.reading.read_topic import COMMITTED
from spark_jobs.schemas import ATTEMPTS, LEDGER, LOCATION_UNIT, LOG, promise

RECORD_KEY = ["arm", "partition", "offset"]
"""The columns that identify a record of the log."""


class Views(NamedTuple):
    """Counts of the views and of the ledger, for the arms in `Scenario.transactional`.

    * `rows`: the number of rows of the committed view per (arm, partition).
    * `equal_rows`: per arm, the number of offsets at which each view has one record and the two records are equal.
    * `transactions`: the number of transactions in the ledger per (arm, producer, session, outcome of the transaction).
    """

    rows: Counter[tuple[str, int]]
    equal_rows: Counter[str]
    transactions: Counter[tuple[str, int, int, str]]


NONE = Views(Counter(), Counter(), Counter())
"""The counts for a run in which no arm writes transactions."""


def count(ledger: DataFrame, raw: DataFrame, committed: DataFrame, arms: Sequence[str]) -> Views:
    """Returns the counts of LEDGER and of both views, for `arms`.

    `raw` and `committed`: the rows of LOG of view `raw` and of view `committed`. `committed` must hold only rows of
    `arms`.
    """
    in_arms = F.col("arm").isin(*arms)
    rows = promise(committed, LOG).groupBy("arm", "partition").agg(F.count(F.lit(1)).alias("rows"))
    same = _equal_records(raw.where(in_arms), committed).groupBy("arm").agg(F.count(F.lit(1)).alias("rows"))
    transaction_keys = ["arm", "producer", "session", "transaction_outcome"]
    ended = (
        promise(ledger, LEDGER)
        .where(in_arms & F.col("transaction").isNotNull())
        .groupBy(*transaction_keys)
        .agg(F.count_distinct("transaction").alias("transactions"))
    )
    return Views(
        Counter({(row["arm"], row["partition"]): row["rows"] for row in rows.toArrow().to_pylist()}),
        Counter({row["arm"]: row["rows"] for row in same.toArrow().to_pylist()}),
        Counter(
            {tuple(row[name] for name in transaction_keys): row["transactions"] for row in ended.toArrow().to_pylist()}
        ),
    )


def visibility_anomalies(
    ledger: DataFrame, committed: DataFrame, arms: Sequence[str], damaged: Sequence[str], few: bool
) -> DataFrame:
    """Returns the columns KEY, `aborted_visible` and `torn` of each attempt for which `aborted_visible` or `torn` is
    true.

    * `aborted_visible`: the attempt is visible, though its transaction was aborted.
    * `torn`: the attempt is not visible, though its transaction was committed.

    An attempt is visible if a believable record of the committed view names it, or if a corrupted record of this view
    stands at its acknowledged offset. FAILED attempts are left out, because they are not part of any transaction.

    `ledger`: LEDGER. `committed`: the rows of LOG of view `committed`. `damaged`: the arms with corrupted records.
    `few`: whether the corrupted records fit in memory; if so, the ledger is not shuffled.
    """
    claims = promise(ledger, LEDGER).where(
        F.col("arm").isin(*arms) & F.col("transaction").isNotNull() & (F.col("outcome") != Outcome.FAILED)
    )
    lines = believable(promise(committed, LOG)).select(*KEY)
    if damaged:
        lines = lines.unionByName(owned_copies(attribute(ledger, committed, damaged, few)).select(*KEY))
    no_claim = [F.lit(None).cast("string").alias(name) for name in ("transaction", "transaction_outcome")]
    claimed = claims.select(*KEY, "transaction", "transaction_outcome", F.lit(False).alias("visible"))
    both = claimed.unionByName(lines.select(*KEY, *no_claim, F.lit(True).alias("visible")))
    attempts = both.groupBy(*BY_KEY).agg(
        F.max("transaction").alias("transaction"),
        F.max("transaction_outcome").alias("transaction_outcome"),
        F.bool_or("visible").alias("visible"),
    )
    by_transaction = Window.partitionBy("arm", "producer", "session", "transaction")
    flagged = (
        attempts.where(F.col("transaction").isNotNull())
        .withColumn("any_visible", F.bool_or("visible").over(by_transaction))
        .select(*KEY, _aborted_visible().alias("aborted_visible"), _torn().alias("torn"))
    )
    return flagged.where(F.col("aborted_visible") | F.col("torn"))


def is_undecided(offsets: Offsets) -> Column:
    """Returns a column that is true for an attempt (row of ATTEMPTS), if nobody can say yet whether a read_committed
    consumer will see it.

    This is so if an open transaction holds back the attempt's partition, and no record of the attempt stands before the
    last stable offset.
    """
    undecided = F.lit(False)
    for part in offsets.partitions:
        if part.held_back is not None:
            first = F.coalesce(F.floor(F.array_min("copies") / LOCATION_UNIT) >= part.visible_end, F.lit(True))
            undecided |= (F.col("arm") == part.arm) & (F.col("partition") == part.partition) & first
    return undecided


def with_flags(matched: DataFrame, flagged: DataFrame) -> DataFrame:
    """Returns `matched` (rows of ATTEMPTS), in which the columns `aborted_visible` and `torn` have the values of
    `flagged`.

    `flagged`: the result of `visibility_anomalies`. Both columns are false for an attempt that `flagged` lacks.
    """
    flags = [column(anomaly) for anomaly in TRANSACTIONAL]
    both = matched.drop(*flags).join(flagged, KEY, "left")
    return promise(both.withColumns({flag: F.coalesce(flag, F.lit(False)) for flag in flags}), ATTEMPTS)


def _aborted_visible() -> Column:
    """Returns a column that is true for a visible attempt of an aborted transaction. An attempt is visible if a
    read_committed consumer sees it."""
    return F.col("visible") & (F.col("transaction_outcome") == TransactionOutcome.ABORTED)


def _torn() -> Column:
    """Returns a column that is true for an attempt of a committed transaction, if a read_committed consumer does not
    see the attempt.

    An INDETERMINATE transaction counts as committed if the consumer sees one of its records. The consumer must then see
    all records of the transaction.
    """
    end = F.col("transaction_outcome")
    unknown = end == TransactionOutcome.INDETERMINATE
    return ~F.col("visible") & ((end == TransactionOutcome.COMMITTED) | (unknown & F.col("any_visible")))


def _equal_records(raw: DataFrame, committed: DataFrame) -> DataFrame:
    """Returns the offsets at which `raw` and `committed` have one record each, if these two records are equal.

    Two records are equal if their headers are equal, and if their checksums are both right or both wrong. Two values
    that are no records of the verifier count as equal.
    """
    header = F.xxhash64("header_run", "header_arm", *KEY[1:], "partition_sequence", "parsed", "crc_ok")
    sides = [
        side.select(*RECORD_KEY, header.alias("header"), F.lit(name == COMMITTED).alias("committed"))
        for name, side in (("raw", raw), (COMMITTED, committed))
    ]
    both = (
        sides[0]
        .unionByName(sides[1])
        .groupBy(*RECORD_KEY)
        .agg(
            F.count_if("committed").alias("in_committed"),
            F.count_if(~F.col("committed")).alias("in_raw"),
            F.min("header").alias("lowest"),
            F.max("header").alias("highest"),
        )
    )
    return both.where((F.col("in_committed") == 1) & (F.col("in_raw") == 1) & (F.col("lowest") == F.col("highest")))
