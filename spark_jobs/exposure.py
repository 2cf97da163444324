"""Exposure: how much of each arm an injection could have hurt."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from delivery_verifier.injection import LEAD_US, Injection
from delivery_verifier.scenario import Scenario
from spark_jobs.attempts import reported
from spark_jobs.schemas import EXPOSURE, LEDGER, promise

_FOREVER_US = 2**62
_WINDOWS = "arm string, injection bigint, hit array<int>, bite_us bigint, recovered_us bigint"


def exposure(ledger: DataFrame, injections: Sequence[Injection], scenario: Scenario) -> DataFrame:
    """LEDGER -> EXPOSURE, one row per loaded arm and injection, zeros included.

    reported: on a partition that was hit, sent before recovery and settled from one second before the bite
    on.
    outstanding: sent before the bite, and not settled by then, on any partition.
    """
    windows = F.broadcast(ledger.sparkSession.createDataFrame(_windows(injections, scenario), _WINDOWS))
    sent, settled = F.unix_micros("sent_at"), F.unix_micros("settled_at")
    inside = (sent <= F.col("recovered_us")) & (settled >= F.col("bite_us") - LEAD_US)
    hit = reported() & F.array_contains("hit", F.col("partition")) & inside
    open_ = (sent < F.col("bite_us")) & (settled.isNull() | (settled > F.col("bite_us")))
    counted = (
        promise(ledger, LEDGER)
        .join(windows, "arm")
        .groupBy("arm", "injection")
        .agg(F.count_if(hit).alias("reported"), F.count_if(open_).alias("outstanding"))
    )
    every = windows.select("arm", "injection").join(F.broadcast(counted), ["arm", "injection"], "left")
    return promise(every.na.fill(0, ["reported", "outstanding"]), EXPOSURE)


def _windows(injections: Sequence[Injection], scenario: Scenario) -> list[tuple[object, ...]]:
    return [
        (arm.name, one.id, list(one.hit.get(arm.topic_name, [])), one.bite_at_us,
         _FOREVER_US if one.recovered_at_us is None else one.recovered_at_us)
        for arm in scenario.loaded
        for one in injections
    ]  # fmt: skip
