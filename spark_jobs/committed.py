"""The committed view: what a consumer that reads committed sees of each transaction, against how the ledger says it
ended.

Only arms that write transactions have it: elsewhere the two views are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import TRANSACTIONAL, Outcome, TransactionOutcome, column
from spark_jobs.attempts import BY_KEY, KEY, attribute, believable, owned_copies
from spark_jobs.schemas import ATTEMPTS, LEDGER, LOG, promise

VIEW, TAIL = "committed", "committed_tail"
PLACE = ["arm", "partition", "offset"]


class Views(NamedTuple):
    """Both views of the arms that write transactions, counted apart from any matching.

    `rows`: of the committed view, per (arm, partition). `same`: offsets at which both views have one and the same
    record, per arm. `ended`: transactions in the ledger per (arm, producer, session) and outcome.
    """

    rows: Counter[tuple[str, int]]
    same: Counter[str]
    ended: Counter[tuple[str, int, int, str]]


NONE = Views(Counter(), Counter(), Counter())
"""Of a run in which nobody writes transactions."""


def count(ledger: DataFrame, raw: DataFrame, committed: DataFrame, arms: Sequence[str]) -> Views:
    """Counts LEDGER and both views of LOG; `committed` holds `arms` alone."""
    mine = F.col("arm").isin(*arms)
    rows = promise(committed, LOG).groupBy("arm", "partition").agg(F.count(F.lit(1)).alias("rows"))
    same = _places(raw.where(mine), committed).groupBy("arm").agg(F.count(F.lit(1)).alias("rows"))
    who = ["arm", "producer", "session", "transaction_outcome"]
    ended = (
        promise(ledger, LEDGER)
        .where(mine & F.col("transaction").isNotNull())
        .groupBy(*who)
        .agg(F.count_distinct("transaction").alias("transactions"))
    )
    return Views(
        Counter({(row["arm"], row["partition"]): row["rows"] for row in rows.toArrow().to_pylist()}),
        Counter({row["arm"]: row["rows"] for row in same.toArrow().to_pylist()}),
        Counter({tuple(row[name] for name in who): row["transactions"] for row in ended.toArrow().to_pylist()}),
    )


def strange(
    ledger: DataFrame, committed: DataFrame, arms: Sequence[str], damaged: Sequence[str], few: bool
) -> DataFrame:
    """LEDGER, LOG of view committed -> the attempts (KEY) that are `aborted_visible` or `torn`, and no others.

    An attempt is visible if a believable line of the view names it, or a corrupted one stands where it was acknowledged
    (in the arms `damaged`, which have such; see `attribute`). One that is FAILED was never part of its transaction.
    """
    claims = promise(ledger, LEDGER).where(
        F.col("arm").isin(*arms) & F.col("transaction").isNotNull() & (F.col("outcome") != Outcome.FAILED)
    )
    lines = believable(promise(committed, LOG)).select(*KEY)
    if damaged:
        lines = lines.unionByName(owned_copies(attribute(ledger, committed, damaged, few)).select(*KEY))
    nothing = [F.lit(None).cast("string").alias(name) for name in ("transaction", "transaction_outcome")]
    told = claims.select(*KEY, "transaction", "transaction_outcome", F.lit(False).alias("seen"))
    both = told.unionByName(lines.select(*KEY, *nothing, F.lit(True).alias("seen")))
    attempts = both.groupBy(*BY_KEY).agg(
        F.max("transaction").alias("transaction"),
        F.max("transaction_outcome").alias("ended"),
        F.bool_or("seen").alias("seen"),
    )
    together = Window.partitionBy("arm", "producer", "session", "transaction")
    judged = (
        attempts.where(F.col("transaction").isNotNull())
        .withColumn("any_seen", F.bool_or("seen").over(together))
        .select(*KEY, _aborted_visible().alias("aborted_visible"), _torn().alias("torn"))
    )
    return judged.where(F.col("aborted_visible") | F.col("torn"))


def judged(matched: DataFrame, found: DataFrame) -> DataFrame:
    """ATTEMPTS with what `strange` found of them."""
    flags = [column(anomaly) for anomaly in TRANSACTIONAL]
    both = matched.drop(*flags).join(found, KEY, "left")
    return promise(both.withColumns({flag: F.coalesce(flag, F.lit(False)) for flag in flags}), ATTEMPTS)


def _aborted_visible() -> Column:
    return F.col("seen") & (F.col("ended") == TransactionOutcome.ABORTED)


def _torn() -> Column:
    """Of an INDETERMINATE transaction one visible record proves that it was committed, hence that all must be
    visible."""
    unknown = F.col("ended") == TransactionOutcome.INDETERMINATE
    return ~F.col("seen") & ((F.col("ended") == TransactionOutcome.COMMITTED) | (unknown & F.col("any_seen")))


def _places(raw: DataFrame, committed: DataFrame) -> DataFrame:
    """Offsets at which both views have one record, and the same. Bytes that are no record are compared as such."""
    header = F.xxhash64("header_run", "header_arm", *KEY[1:], "partition_sequence", "parsed", "crc_ok")
    sides = [
        side.select(*PLACE, header.alias("header"), F.lit(name == VIEW).alias("committed"))
        for name, side in (("raw", raw), (VIEW, committed))
    ]
    both = (
        sides[0]
        .unionByName(sides[1])
        .groupBy(*PLACE)
        .agg(
            F.count_if("committed").alias("here"),
            F.count_if(~F.col("committed")).alias("there"),
            F.min("header").alias("lowest"),
            F.max("header").alias("highest"),
        )
    )
    return both.where((F.col("here") == 1) & (F.col("there") == 1) & (F.col("lowest") == F.col("highest")))
