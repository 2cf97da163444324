"""The result of one run of a sentinel, from its verdict and its latencies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from delivery_verifier.model.scenario import VerdictName
from delivery_verifier.model.sentinel import IN_TIME_MS, SentinelArm
from delivery_verifier.model.verdict import WORST_FIRST, RunVerdict
from delivery_verifier.reporting.latency import Bucket, Spread
from delivery_verifier.run_directory import tables

_ALMOST = 1 + 1e-9
"""The limits of buckets are powers of ten, computed in floating point."""


def state_of(verdict: RunVerdict) -> VerdictName:
    """Returns the state of a run with this verdict. If the run is not green, it is the worst verdict of the arms that
    did not end as expected, so a run that is not green is never HELD."""
    unexpected = {arm.verdict for arm in verdict.arms if not arm.as_expected}
    if verdict.green:
        return verdict.verdict
    return next((name for name in WORST_FIRST if name in unexpected and name != "HELD"), "INCONCLUSIVE")


def arms_of(run: Path, verdict: RunVerdict) -> list[SentinelArm]:
    """Returns the arms of the run with settings under test. Raises OSError or pyarrow.ArrowException if
    timeline/latency cannot be read."""
    rows = pq.read_table(run / tables.LATENCY.file).to_pylist()
    return [_arm(rows, arm.arm, arm.verdict, arm.tally) for arm in verdict.arms if arm.role == "subject"]


def _arm(rows: list[dict[str, Any]], name: str, verdict: VerdictName, tally: dict[str, int]) -> SentinelArm:
    of_arm = sorted((row for row in rows if row["arm"] == name), key=lambda row: row["latency_ms_from"])
    spread = Spread(
        name, False, [Bucket(row["latency_ms_from"], row["latency_ms_until"], row["records"]) for row in of_arm]
    )
    in_time = sum(bucket.records for bucket in spread.buckets if bucket.until_ms <= IN_TIME_MS * _ALMOST)
    acknowledged = tally["acked"]
    p50, p99 = spread.bounds_ms[:2] if acknowledged else (None, None)
    return SentinelArm(
        arm=name,
        verdict=verdict,
        attempted=tally["attempted"],
        acknowledged=acknowledged,
        in_time=in_time if acknowledged else 0,
        latency_ms_p50=p50,
        latency_ms_p99=p99,
    )
