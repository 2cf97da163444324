"""The timeline: the load of each arm over time, its latencies, and the longest silence of each partition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import Outcome
from delivery_verifier.model.history import Injection
from delivery_verifier.model.scenario import Scenario
from spark_jobs.attempts import reported
from spark_jobs.schemas import GAPS, LATENCY, LEDGER, LOAD, arrow, promise

FINE_US, COARSE_US = 200_000, 1_000_000
LONG_RUN_US = 300_000_000
"""Runs longer than this have a coarse timeline."""
_LATENCY_ACCURACY = 200
"""percentile_approx: the rank is off by at most 1/200 of the interval's records."""
BUCKETS_PER_DECADE = 20
"""Buckets of latency, each 12 % wider than the one before."""
_FOREVER_US = 2**62
_COUNTED = ("sent", "reported", "indeterminate", "failed")


def interval_us(from_us: int, until_us: int) -> int:
    """Width of the timeline's intervals for a run between two moments in µs."""
    return COARSE_US if until_us - from_us > LONG_RUN_US else FINE_US


def load(ledger: DataFrame, width_us: int) -> DataFrame:
    """LEDGER -> LOAD: sends by when they were sent, results by when they were heard (or sent, if never
    heard).

    Only intervals in which something happened; `filled` adds the silent ones.
    """
    rows = promise(ledger, LEDGER)
    heard = F.coalesce("settled_at", "sent_at")
    sends = rows.groupBy("arm", _interval("sent_at", width_us)).agg(F.count(F.lit(1)).alias("sent"))
    latency = F.when(reported(), F.unix_micros("settled_at") - F.unix_micros("sent_at"))
    quantiles = F.percentile_approx(latency, [0.5, 0.99], _LATENCY_ACCURACY)
    results = rows.groupBy("arm", _interval(heard, width_us)).agg(
        F.count_if(reported()).alias("reported"),
        F.count_if(F.col("outcome") == Outcome.INDETERMINATE).alias("indeterminate"),
        F.count_if(F.col("outcome") == Outcome.FAILED).alias("failed"),
        quantiles.alias("quantiles"),
    )
    counts = [F.sum(name).alias(name) for name in _COUNTED]
    quantile = F.first("quantiles", ignorenulls=True).alias("quantiles")  # one side has some, and once per interval
    both = sends.unionByName(results, allowMissingColumns=True).groupBy("arm", "at_us").agg(*counts, quantile)
    both = both.na.fill(0, list(_COUNTED))
    in_ms = {f"latency_ms_p{share}": F.get("quantiles", F.lit(at)) / 1000 for at, share in enumerate((50, 99))}
    return promise(both.withColumns(in_ms), LOAD)


def latency(ledger: DataFrame, injections: Sequence[Injection]) -> DataFrame:
    """LEDGER -> LATENCY: how many reported records took how long, apart for those that were under way during a
    fault."""
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
    """From bite to recovery in µs, those that meet joined; a fault without a recovery lasts for ever."""
    found: list[tuple[int, int]] = []
    for one in sorted(injections, key=lambda one: one.bite_at_us):
        until = _FOREVER_US if one.recovered_at_us is None else one.recovered_at_us
        if found and one.bite_at_us <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        else:
            found.append((one.bite_at_us, until))
    return found


def both(loads: DataFrame, latencies: DataFrame) -> tuple[pa.Table, pa.Table]:
    """LOAD and LATENCY, by one query."""
    rows = loads.unionByName(latencies, allowMissingColumns=True).toArrow()
    of_load = pc.is_valid(rows["at_us"])
    found = [rows.filter(of_load).select(LOAD.names), rows.filter(pc.invert(of_load)).select(LATENCY.names)]
    return found[0].cast(arrow(LOAD)), found[1].cast(arrow(LATENCY))


def filled(table: pa.Table, width_us: int) -> pa.Table:
    """LOAD with a row of zeros for each interval of an arm's load in which nothing happened."""
    known = {(row["arm"], row["at_us"]): row for row in table.to_pylist()}
    rows: list[dict[str, Any]] = []
    for arm in sorted({arm for arm, _ in known}):
        moments = [at for name, at in known if name == arm]
        for at_us in range(min(moments), max(moments) + 1, width_us):
            quiet = {"arm": arm, "at_us": at_us} | dict.fromkeys(_COUNTED, 0)
            rows.append(known.get((arm, at_us), quiet))
    return pa.Table.from_pylist(rows, schema=arrow(LOAD))


def gaps(ledger: DataFrame, began_us: int) -> DataFrame:
    """LEDGER -> GAPS: the longest silence between consecutive reports, per arm and partition that has two or more.

    Of the silence between the warm-up and the load, which is the verifier's own, only what is left of it when the load
    began, at `began_us`, counts. Reports are first gathered by millisecond, so that only a short list per partition is
    put in order: silences below 1 ms are not looked for.
    """
    heard = promise(ledger, LEDGER).where(reported() & F.col("settled_at").isNotNull())
    settled = F.unix_micros("settled_at")
    by_ms = heard.groupBy("arm", "partition", F.floor(settled / 1000).alias("ms")).agg(
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
    """GAPS with a row for each partition of each loaded arm, null where it had fewer than two reports."""
    known = {(row["arm"], row["partition"]): row for row in table.to_pylist()}
    places: Sequence[tuple[str, int]] = [
        (arm.name, partition) for arm in scenario.loaded for partition in range(scenario.load.partitions)
    ]
    rows = [known.get(place, {"arm": place[0], "partition": place[1]}) for place in places]
    return pa.Table.from_pylist(rows, schema=arrow(GAPS))


def _interval(moment: Any, width_us: int) -> Any:
    micros = F.unix_micros(moment)
    return (micros - micros % width_us).alias("at_us")
