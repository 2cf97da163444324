"""The summary of the load: counts of the ledger from which timeline, latencies, silences and exposure are computed.

One query computes the summary, with one pass over the ledger. The tables that follow from the summary are computed
without Spark (`spark_jobs.summaries.timeline`, `spark_jobs.summaries.silences`, `spark_jobs.summaries.exposure`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.history import LEAD_US, Injection
from delivery_verifier.model.outcomes import Outcome, TransactionOutcome
from spark_jobs.literals import numbers_of_run
from spark_jobs.matching.attempts import reported
from spark_jobs.schemas import LEDGER, promise

BUCKETS_PER_DECADE = 80
"""The number of buckets of latency per decade, i.e. between a latency and ten times this latency. Each bucket is 2.9 %
wider than the previous bucket. So the geometric middle of a bucket is at most 1.45 % off any latency in the bucket."""
FOREVER_US = 2**62
"""The time of recovery (µs since the epoch) of an injection that never recovered."""
LONG_AGO_US = -(2**62)
"""Stands in `sent_since` and `settled_since` for every time before the first edge (see `since`)."""
MOST_MOMENTS = 300
"""The greatest number of times of injections that come as an array. An injection has up to six of them."""
_MOMENTS = "moments_us"
"""The column with all times of the injections: an array."""
_PER_INTERVAL = ["sent_us", "known_us", "inside", "bucket"]
_PER_SLOT = ["partition", "slot", "sent_since", "settled_since", "exposable"]


class Summary(NamedTuple):
    """Counts of attempts, as two tables. Times are in µs since the epoch.

    `intervals` has the counts `attempts`, `reported`, `indeterminate` and `failed` for each combination of these
    columns:

    * `arm`.
    * `sent_us`: the beginning of the interval in which the attempts were sent.
    * `known_us`: the beginning of the interval in which the client reported the outcomes; `sent_us` if it reported
      none.
    * `bucket`: the bucket of latency; null unless the attempts are reported (ACKED or SENT).
    * `inside`: whether the attempts are reported, and were under way between the effect and the recovery of an
      injection.

    `slots` has the count `attempts`, and the first and the last time of a report of success (`first_us`, `last_us`),
    for each combination of these columns:

    * `arm`, `partition`.
    * `slot`: the beginning of the slot with the report of success; null if there is none.
    * `sent_since`, `settled_since`: stand for the times of sending and settling (see `since`). `settled_since` is null
      if the attempts never settled.
    * `exposable`: whether the attempts are reported, and in no transaction or in a committed transaction.
    """

    intervals: pa.Table
    slots: pa.Table


def summarize(ledger: DataFrame, injections: Sequence[Injection], width_us: int, slot_us: int) -> Summary:
    """Returns the summary of LEDGER. `width_us`: width of an interval. `slot_us`: width of a slot."""
    rows = _measured(promise(ledger, LEDGER), injections, width_us, slot_us)
    per_interval, per_slot = ["arm", *_PER_INTERVAL], ["arm", *_PER_SLOT]
    counted = rows.groupingSets([per_interval, per_slot], "arm", *_PER_INTERVAL, *_PER_SLOT).agg(
        F.grouping("partition").alias("is_interval"),
        F.count(F.lit(1)).alias("attempts"),
        F.count_if("reported").alias("reported"),
        F.count_if("indeterminate").alias("indeterminate"),
        F.count_if("failed").alias("failed"),
        F.min("report_us").alias("first_us"),
        F.max("report_us").alias("last_us"),
    )
    table = counted.toArrow()
    is_interval = pc.equal(table["is_interval"], 1)
    return Summary(
        table.filter(is_interval).select([*per_interval, "attempts", "reported", "indeterminate", "failed"]),
        table.filter(pc.invert(is_interval)).select([*per_slot, "attempts", "first_us", "last_us"]),
    )


def windows(injections: Sequence[Injection]) -> list[tuple[int, int]]:
    """Returns the windows of the injections, ascending: (take effect, recovery) in µs since the epoch. The effect is
    the time at which the injection took effect.

    Windows that overlap or touch are joined into one. If an injection never recovered, its window ends at FOREVER_US.
    """
    joined: list[tuple[int, int]] = []
    for injection in sorted(injections, key=lambda injection: injection.effect_at_us):
        until = recovered_us(injection)
        if joined and injection.effect_at_us <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], until))
        else:
            joined.append((injection.effect_at_us, until))
    return joined


def recovered_us(injection: Injection) -> int:
    """Returns the time of an injection's recovery in µs since the epoch; FOREVER_US if there was no recovery."""
    return FOREVER_US if injection.recovered_at_us is None else injection.recovered_at_us


def _measured(rows: DataFrame, injections: Sequence[Injection], width_us: int, slot_us: int) -> DataFrame:
    """Returns one row per attempt, with two groups of columns: those by which `summarize` groups the attempts, and
    those that it counts."""
    sent, settled = F.unix_micros("sent_at"), F.unix_micros("settled_at")
    report_us = F.when(reported(), settled)
    known = F.coalesce(settled, sent)
    bounds, edges = [moment for window in windows(injections) for moment in window], edges_of(injections)
    rows, moments = _with_moments(rows, [*bounds, *edges])
    effects_at, recoveries, edge_columns = (
        moments[: len(bounds) : 2],
        moments[1 : len(bounds) : 2],
        moments[len(bounds) :],
    )
    touched = [
        (sent <= until) & (settled >= effect_at) for effect_at, until in zip(effects_at, recoveries, strict=True)
    ]
    fine = F.floor(F.log10(F.greatest(report_us - sent, F.lit(1))) * BUCKETS_PER_DECADE + 4e-9)
    committed = F.col("transaction_outcome") == TransactionOutcome.COMMITTED
    return rows.select(
        "arm",
        "partition",
        (sent - sent % width_us).alias("sent_us"),
        (known - known % width_us).alias("known_us"),
        (_any_of(touched) & report_us.isNotNull()).alias("inside"),
        F.when(report_us.isNotNull(), fine).alias("bucket"),
        (report_us - report_us % slot_us).alias("slot"),
        since(sent, edge_columns).alias("sent_since"),
        F.when(settled.isNotNull(), since(settled, edge_columns)).alias("settled_since"),
        (reported() & F.coalesce(committed, F.col("transaction").isNull())).alias("exposable"),
        reported().alias("reported"),
        (F.col("outcome") == Outcome.INDETERMINATE).alias("indeterminate"),
        (F.col("outcome") == Outcome.FAILED).alias("failed"),
        report_us.alias("report_us"),
    )


def _with_moments(rows: DataFrame, moments: Sequence[int]) -> tuple[DataFrame, list[Column]]:
    """Returns `rows`, to which a column may be added, and a column for each of `moments`.

    More than MOST_MOMENTS are literals, although Spark then compiles the query anew for each run: it would copy the
    array for each of its elements, and run out of memory with thousands.
    """
    if len(moments) > MOST_MOMENTS:
        return rows, [F.lit(moment).cast("bigint") for moment in moments]
    columns = [F.get(_MOMENTS, F.lit(index)) for index in range(len(moments))]
    return rows.withColumn(_MOMENTS, numbers_of_run(moments)), columns


def _any_of(conditions: Sequence[Column]) -> Column:
    """Returns a column that is true if one of `conditions` is. Halves them again and again: a chain of a thousand
    conditions overflows the stack of Spark's analyser."""
    if len(conditions) < 2:
        return conditions[0] if conditions else F.lit(False)
    middle = len(conditions) // 2
    return _any_of(conditions[:middle]) | _any_of(conditions[middle:])


def edges_of(injections: Sequence[Injection]) -> list[int]:
    """Returns the edges of the injections, ascending: see `since`."""
    return sorted(
        {
            edge
            for injection in injections
            for edge in (
                injection.exposed_at_us - LEAD_US,
                injection.exposed_at_us,
                injection.exposed_at_us + 1,
                recovered_us(injection) + 1,
            )
        }
    )


def since(moment: Column, edges: Sequence[Column]) -> Column:
    """Returns, instead of `moment`, the last edge that is not after `moment`. If there is no such edge, returns
    LONG_AGO_US. Null stays null.

    `spark_jobs.summaries.exposure` asks only whether a moment is before or after certain times of the injections, e.g.
    the effect. An edge is a moment at which the answer to such a question changes. So for the last edge, the answers
    are the same as for `moment`.
    """
    past = [F.when(moment >= edge, edge) for edge in edges]  # null if `moment` is before
    long_ago = F.lit(LONG_AGO_US).cast("bigint")
    return F.when(moment.isNotNull(), F.greatest(long_ago, *past) if past else long_ago)
