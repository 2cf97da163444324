"""The timeline: the load of each arm over time, its latencies, and the longest silence of each partition.

A *silence* is the time between two consecutive reports of the client for attempts to the same partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from delivery_verifier.model.history import Injection
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.model.scenario import Scenario
from spark_jobs.attempts import reported
from spark_jobs.schemas import GAPS, LATENCY, LEDGER, LOAD, arrow, promise

FINE_US, COARSE_US = 200_000, 1_000_000
"""Widths of the timeline's intervals in µs. COARSE_US is for runs longer than LONG_RUN_US, FINE_US for all others."""
LONG_RUN_US = 300_000_000
"""Runs longer than this number of µs have intervals of COARSE_US."""
_LATENCY_ACCURACY = 200
"""Accuracy for percentile_approx: the rank of a percentile is off by at most 1/200 of the interval's records."""
BUCKETS_PER_DECADE = 20
"""The number of buckets of latency per decade, i.e. between a latency and ten times this latency. Each bucket is 12 %
wider than the bucket before it."""
_FOREVER_US = 2**62
"""Stands for the time of recovery (µs since the epoch) of an injection that never recovered."""
_COUNTED = ("sent", "reported", "indeterminate", "failed")
"""The names of the columns of LOAD that hold counts of attempts."""


def interval_us(from_us: int, until_us: int) -> int:
    """Width of the timeline's intervals in µs, for a load from `from_us` to `until_us` (both µs since the epoch)."""
    return COARSE_US if until_us - from_us > LONG_RUN_US else FINE_US


def load(ledger: DataFrame, width_us: int) -> DataFrame:
    """Returns LOAD from LEDGER, with only the intervals in which something happened.

    An attempt counts as `sent` in the interval in which it was sent. Its outcome counts in the interval in which the
    client reported the outcome or, without a report, in which the attempt was sent. `width_us`: width of an interval.
    `with_silent_intervals` adds the other intervals.
    """
    rows = promise(ledger, LEDGER)
    known_at = F.coalesce("settled_at", "sent_at")
    sends = rows.groupBy("arm", _interval("sent_at", width_us)).agg(F.count(F.lit(1)).alias("sent"))
    latency = F.when(reported(), F.unix_micros("settled_at") - F.unix_micros("sent_at"))
    quantiles = F.percentile_approx(latency, [0.5, 0.99], _LATENCY_ACCURACY)
    outcomes = rows.groupBy("arm", _interval(known_at, width_us)).agg(
        F.count_if(reported()).alias("reported"),
        F.count_if(F.col("outcome") == Outcome.INDETERMINATE).alias("indeterminate"),
        F.count_if(F.col("outcome") == Outcome.FAILED).alias("failed"),
        quantiles.alias("quantiles"),
    )
    counts = [F.sum(name).alias(name) for name in _COUNTED]
    quantile = F.first("quantiles", ignorenulls=True).alias("quantiles")  # one row per interval has quantiles
    rows_of_both = sends.unionByName(outcomes, allowMissingColumns=True).groupBy("arm", "at_us").agg(*counts, quantile)
    rows_of_both = rows_of_both.na.fill(0, list(_COUNTED))
    in_ms = {f"latency_ms_p{share}": F.get("quantiles", F.lit(index)) / 1000 for index, share in enumerate((50, 99))}
    return promise(rows_of_both.withColumns(in_ms), LOAD)


def latency(ledger: DataFrame, injections: Sequence[Injection]) -> DataFrame:
    """Returns LATENCY from LEDGER: the number of reported records per arm and bucket (range) of latency.

    Each arm and bucket can have two rows. The row in which `inside` is true counts the records that were under way at
    some time between the bite (effect) of an injection and its recovery. The other row counts all other records.
    """
    answered = promise(ledger, LEDGER).where(reported() & F.col("settled_at").isNotNull())
    sent, settled = F.unix_micros("sent_at"), F.unix_micros("settled_at")
    touched = [(sent <= until) & (settled >= since) for since, until in windows(injections)]
    bucket = F.floor(F.log10(F.greatest(settled - sent, F.lit(1))) * BUCKETS_PER_DECADE + 1e-9)
    counted = answered.groupBy("arm", reduce(or_, touched, F.lit(False)).alias("inside"), bucket.alias("bucket")).agg(
        F.count(F.lit(1)).alias("records")
    )
    edges = {
        f"latency_ms_{name}": F.pow(F.lit(10.0), (F.col("bucket") + step) / BUCKETS_PER_DECADE - 3)
        for step, name in enumerate(("from", "until"))
    }
    return promise(counted.withColumns(edges), LATENCY)


def windows(injections: Sequence[Injection]) -> list[tuple[int, int]]:
    """Returns the windows of the injections: (bite, recovery) in µs since the epoch, by time. The bite is the effect.

    Windows that overlap or touch are joined into one. The window of an injection without recovery ends at
    `_FOREVER_US`.
    """
    joined: list[tuple[int, int]] = []
    for injection in sorted(injections, key=lambda injection: injection.bite_at_us):
        until = _FOREVER_US if injection.recovered_at_us is None else injection.recovered_at_us
        if joined and injection.bite_at_us <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], until))
        else:
            joined.append((injection.bite_at_us, until))
    return joined


def collect_both(loads: DataFrame, latencies: DataFrame) -> tuple[pa.Table, pa.Table]:
    """Collects both frames by one query, which is faster than two. Returns LOAD and LATENCY as tables."""
    rows = loads.unionByName(latencies, allowMissingColumns=True).toArrow()
    is_load = pc.is_valid(rows["at_us"])
    parts = [rows.filter(is_load).select(LOAD.names), rows.filter(pc.invert(is_load)).select(LATENCY.names)]
    return parts[0].cast(arrow(LOAD)), parts[1].cast(arrow(LATENCY))


def with_silent_intervals(table: pa.Table, width_us: int) -> pa.Table:
    """Returns LOAD: `table`, and a row of zeros for each interval within an arm's load in which nothing happened.

    `width_us`: width of an interval.
    """
    known = {(row["arm"], row["at_us"]): row for row in table.to_pylist()}
    rows: list[dict[str, Any]] = []
    for arm in sorted({arm for arm, _ in known}):
        begins_us = [at_us for name, at_us in known if name == arm]
        for at_us in range(min(begins_us), max(begins_us) + 1, width_us):
            quiet = {"arm": arm, "at_us": at_us} | dict.fromkeys(_COUNTED, 0)
            rows.append(known.get((arm, at_us), quiet))
    return pa.Table.from_pylist(rows, schema=arrow(LOAD))


def gaps(ledger: DataFrame, began_us: int) -> DataFrame:
    """Returns GAPS from LEDGER: the longest silence between consecutive reports, per arm and partition.

    A partition with fewer than two reports has no silence. Each producer sends a few warm-up records before the load.
    The verifier itself causes the silence between warm-up and load. So only the part of this silence after `began_us`,
    the beginning of the load (µs since the epoch), counts. Reports are first grouped by millisecond, so that only a
    short list per partition is sorted. Silences below 1 ms are not found.
    """
    answered = promise(ledger, LEDGER).where(reported() & F.col("settled_at").isNotNull())
    settled = F.unix_micros("settled_at")
    by_ms = answered.groupBy("arm", "partition", F.floor(settled / 1000).alias("ms")).agg(
        F.min(settled).alias("first_us"), F.max(settled).alias("last_us")
    )
    before = F.lag("last_us").over(Window.partitionBy("arm", "partition").orderBy("ms"))
    start = F.when(before.isNotNull() & (F.col("first_us") > began_us), F.greatest(before, F.lit(began_us)))
    silences = by_ms.withColumn("start_us", start).withColumn("gap_us", F.col("first_us") - F.col("start_us"))
    longest = silences.groupBy("arm", "partition").agg(
        F.max("gap_us").alias("gap_us"), F.max_by("start_us", "gap_us").alias("gap_start_us")
    )
    return promise(longest.withColumn("longest_gap_s", F.col("gap_us") / 1e6), GAPS)


def every_partition(table: pa.Table, scenario: Scenario) -> pa.Table:
    """Returns GAPS: `table`, and a row of nulls for each missing partition of each arm that carries load."""
    known = {(row["arm"], row["partition"]): row for row in table.to_pylist()}
    planned: Sequence[tuple[str, int]] = [
        (arm.name, partition) for arm in scenario.loaded for partition in range(scenario.load.partitions)
    ]
    rows = [known.get((arm, partition), {"arm": arm, "partition": partition}) for arm, partition in planned]
    return pa.Table.from_pylist(rows, schema=arrow(GAPS))


def _interval(moment: Any, width_us: int) -> Any:
    """The time at which the interval that contains `moment` begins, in µs since the epoch."""
    micros = F.unix_micros(moment)
    return (micros - micros % width_us).alias("at_us")
