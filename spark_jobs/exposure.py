"""Exposure: how many attempts of each arm each injection could have hurt.

If no attempt was exposed to any injection, a run without anomalies proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.history import LEAD_US, Injection
from delivery_verifier.model.outcomes import TransactionOutcome
from delivery_verifier.model.scenario import Scenario
from spark_jobs.attempts import reported
from spark_jobs.schemas import EXPOSURE, LEDGER, arrow, promise

_FOREVER_US = 2**62
"""Stands for the time of recovery (µs since the epoch) of an injection that never recovered."""


def exposure(ledger: DataFrame, injections: Sequence[Injection], scenario: Scenario) -> DataFrame:
    """Returns EXPOSURE from LEDGER: one row per injection and arm with attempts. `every_injection` adds the other rows.

    The column `reported` counts reported attempts for which all of these conditions hold:

    * The attempt went to a partition that the injection touched (`Injection.hit`).
    * It was sent before the recovery, and settled no earlier than one second (LEAD_US) before the bite.
    * It is in no transaction or in a committed one, because only a committed transaction can be torn.

    The column `outstanding` counts, in all partitions, the attempts that were sent before the bite and settled after
    the bite or never.
    """
    sent, settled, window = F.unix_micros("sent_at"), F.unix_micros("settled_at"), F.col("window")
    inside = (sent <= window["recovered_us"]) & (settled >= window["bite_us"] - LEAD_US)
    may_be_torn = F.coalesce(
        F.col("transaction_outcome") == TransactionOutcome.COMMITTED, F.col("transaction").isNull()
    )
    hit = reported() & may_be_torn & F.array_contains(window["hit"][F.col("arm")], F.col("partition")) & inside
    outstanding = (sent < window["bite_us"]) & (settled.isNull() | (settled > window["bite_us"]))
    return promise(
        promise(ledger, LEDGER)
        .withColumn("window", F.explode(F.array(*[_window(injection, scenario) for injection in injections])))
        .groupBy("arm", window["injection"].alias("injection"))
        .agg(F.count_if(hit).alias("reported"), F.count_if(outstanding).alias("outstanding")),
        EXPOSURE,
    )


def every_injection(table: pa.Table, injections: Sequence[Injection], scenario: Scenario) -> pa.Table:
    """Returns EXPOSURE: `table`, and a row of zeros for each injection and arm with load that `table` lacks."""
    known = {(row["arm"], row["injection"]): row for row in table.to_pylist()}
    rows = [
        known.get((arm.name, injection.id), _nothing_exposed(arm.name, injection.id))
        for arm in scenario.loaded
        for injection in injections
    ]
    return pa.Table.from_pylist(rows, schema=arrow(EXPOSURE))


def _nothing_exposed(arm: str, injection_id: int) -> dict[str, object]:
    return {"arm": arm, "injection": injection_id, "reported": 0, "outstanding": 0}


def _window(injection: Injection, scenario: Scenario) -> Column:
    """Returns the data of an injection as a column with the same value in every row.

    The value has four fields. `injection`: the id. `hit`: maps each arm to the partitions that the injection touched.
    `bite_us`: the time of the bite (effect). `recovered_us`: the time of the recovery. Both are in µs since the epoch.
    """
    recovered_us = _FOREVER_US if injection.recovered_at_us is None else injection.recovered_at_us
    hit = [
        F.lit(part)
        for arm in scenario.loaded
        for part in (arm.name, F.array(*map(F.lit, injection.hit.get(arm.topic_name, []))).cast("array<int>"))
    ]
    return F.struct(
        F.lit(injection.id).cast("bigint").alias("injection"),
        F.create_map(*hit).alias("hit"),
        F.lit(injection.bite_at_us).cast("bigint").alias("bite_us"),
        F.lit(recovered_us).cast("bigint").alias("recovered_us"),
    )
