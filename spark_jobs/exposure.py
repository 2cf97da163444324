"""Exposure: how much of each arm an injection could have hurt."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import TransactionOutcome
from delivery_verifier.model.history import LEAD_US, Injection
from delivery_verifier.model.scenario import Scenario
from spark_jobs.attempts import reported
from spark_jobs.schemas import EXPOSURE, LEDGER, arrow, promise

_FOREVER_US = 2**62


def exposure(ledger: DataFrame, injections: Sequence[Injection], scenario: Scenario) -> DataFrame:
    """LEDGER -> EXPOSURE, one row per injection and arm that has claims; `every_injection` adds the others.

    reported: on a partition that was hit, sent before recovery and settled from one second before the bite on; in a
    transaction only if that was committed: no other can be torn.
    outstanding: sent before the bite, and not settled by then, on any partition.
    """
    sent, settled, window = F.unix_micros("sent_at"), F.unix_micros("settled_at"), F.col("window")
    inside = (sent <= window["recovered_us"]) & (settled >= window["bite_us"] - LEAD_US)
    kept = F.coalesce(F.col("transaction_outcome") == TransactionOutcome.COMMITTED, F.col("transaction").isNull())
    hit = reported() & kept & F.array_contains(window["hit"][F.col("arm")], F.col("partition")) & inside
    open_ = (sent < window["bite_us"]) & (settled.isNull() | (settled > window["bite_us"]))
    return promise(
        promise(ledger, LEDGER)
        .withColumn("window", F.explode(F.array(*[_window(one, scenario) for one in injections])))
        .groupBy("arm", window["injection"].alias("injection"))
        .agg(F.count_if(hit).alias("reported"), F.count_if(open_).alias("outstanding")),
        EXPOSURE,
    )


def every_injection(table: pa.Table, injections: Sequence[Injection], scenario: Scenario) -> pa.Table:
    """EXPOSURE with a row for each loaded arm and injection, zeros where the arm sent nothing."""
    known = {(row["arm"], row["injection"]): row for row in table.to_pylist()}
    rows = [
        known.get((arm.name, one.id), {"arm": arm.name, "injection": one.id, "reported": 0, "outstanding": 0})
        for arm in scenario.loaded
        for one in injections
    ]
    return pa.Table.from_pylist(rows, schema=arrow(EXPOSURE))


def _window(one: Injection, scenario: Scenario) -> Column:
    """One injection as a literal: its id, the partitions it hit per arm, bite and recovery in µs."""
    recovered_us = _FOREVER_US if one.recovered_at_us is None else one.recovered_at_us
    hit = [
        F.lit(part)
        for arm in scenario.loaded
        for part in (arm.name, F.array(*map(F.lit, one.hit.get(arm.topic_name, []))).cast("array<int>"))
    ]
    return F.struct(
        F.lit(one.id).cast("bigint").alias("injection"),
        F.create_map(*hit).alias("hit"),
        F.lit(one.bite_at_us).cast("bigint").alias("bite_us"),
        F.lit(recovered_us).cast("bigint").alias("recovered_us"),
    )
