"""The committed view: the records of a transaction that a read_committed consumer sees, against its end in the ledger.

Only arms that write transactions have this view: for other arms the two views are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import TRANSACTIONAL, column
from delivery_verifier.model.outcomes import Outcome, TransactionOutcome
from spark_jobs.attempts import BY_KEY, KEY, attribute, believable, owned_copies
from spark_jobs.schemas import ATTEMPTS, LEDGER, LOG, promise

VIEW, TAIL = "committed", "committed_tail"
RECORD_KEY = ["arm", "partition", "offset"]


class Views(NamedTuple):
    """Both views of the arms that write transactions, counted without any matching.

    `rows`: rows of the committed view per (arm, partition). `equal_rows`: per arm, the offsets at which both views have
    one record, and equal records. `transactions`: those in the ledger per (arm, producer, session, outcome).
    """

    rows: Counter[tuple[str, int]]
    equal_rows: Counter[str]
    transactions: Counter[tuple[str, int, int, str]]


NONE = Views(Counter(), Counter(), Counter())
"""The views of a run in which no arm writes transactions."""


def count(ledger: DataFrame, raw: DataFrame, committed: DataFrame, arms: Sequence[str]) -> Views:
    """Counts LEDGER and both views of LOG; `committed` holds only rows of `arms`."""
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
    """LEDGER, LOG of view committed -> the attempts (KEY) that are `aborted_visible` or `torn`, and no others.

    An attempt is visible if a believable line of the view names it, or if a corrupted line stands at the offset with
    which the attempt was acknowledged. `damaged`: the arms with corrupted lines; `few`: as in `attribute`. A FAILED
    attempt was never part of its transaction.
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


def with_flags(matched: DataFrame, flagged: DataFrame) -> DataFrame:
    """ATTEMPTS with the flags of `flagged`, the result of `visibility_anomalies`."""
    flags = [column(anomaly) for anomaly in TRANSACTIONAL]
    both = matched.drop(*flags).join(flagged, KEY, "left")
    return promise(both.withColumns({flag: F.coalesce(flag, F.lit(False)) for flag in flags}), ATTEMPTS)


def _aborted_visible() -> Column:
    """True on a visible attempt of an aborted transaction."""
    return F.col("visible") & (F.col("transaction_outcome") == TransactionOutcome.ABORTED)


def _torn() -> Column:
    """True on an invisible attempt of a committed transaction.

    One visible record of an INDETERMINATE transaction proves that the transaction was committed: all of its records
    must be visible.
    """
    end = F.col("transaction_outcome")
    unknown = end == TransactionOutcome.INDETERMINATE
    return ~F.col("visible") & ((end == TransactionOutcome.COMMITTED) | (unknown & F.col("any_visible")))


def _equal_records(raw: DataFrame, committed: DataFrame) -> DataFrame:
    """The offsets at which each view has one record, and both records are equal. Bytes that are no record are equal."""
    header = F.xxhash64("header_run", "header_arm", *KEY[1:], "partition_sequence", "parsed", "crc_ok")
    sides = [
        side.select(*RECORD_KEY, header.alias("header"), F.lit(name == VIEW).alias("committed"))
        for name, side in (("raw", raw), (VIEW, committed))
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
