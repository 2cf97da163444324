"""The results: what one finished run tells a catalogue run, read off its run directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from delivery_verifier.model.anomalies import SECONDARY, Anomaly, also_column, column
from delivery_verifier.model.catalogue_run import ArmResult, Attempt
from delivery_verifier.model.verdict import ArmVerdict
from delivery_verifier.pages.latency import Bucket, Spread
from delivery_verifier.store.run_directory import RunDirectory

COUNTS = (
    "attempted",
    "acked",
    "sent",
    "failed",
    "indeterminate",
    "reported",
    *(column(anomaly) for anomaly in Anomaly),
    *(also_column(anomaly) for anomaly in SECONDARY),
)
"""The columns of the books that a catalogue run keeps of every arm."""


def attempt(run_dir: Path) -> Attempt:
    """What the judged run in `run_dir` ended with; its seconds are those from plan to conclude.

    Raises IncompleteRun if it has no verdict that is sealed.
    """
    run = RunDirectory(run_dir)
    verdict = run.verdict()
    latency, load = _rows(run, "timeline/latency"), _rows(run, "timeline/load")
    arms = [_arm(arm, latency, load) for arm in verdict.arms if arm.role != "canary"]
    doubts = sorted({f"{doubt.name}: {doubt.detail}" for arm in verdict.arms for doubt in arm.doubts})
    begun_us, ended_us = run.manifest("plan").started_at_us, run.manifest("conclude").finished_at_us
    started_at = datetime.fromtimestamp(begun_us / 1e6, UTC).isoformat(timespec="seconds")
    return Attempt(
        run=run_dir.name,
        started_at=started_at,
        seconds=round((ended_us - begun_us) / 1e6, 1),
        verdict=verdict.verdict,
        green=verdict.green,
        sentence=verdict.sentence,
        doubts=doubts[:20],
        arms=arms,
    )


def failed(run: str, started_at: str, seconds: float, error: BaseException | str) -> Attempt:
    """An attempt without a verdict."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return Attempt(run=run, started_at=started_at, seconds=round(seconds, 1), error=" | ".join(lines)[:600])


def _arm(arm: ArmVerdict, latency: list[dict[str, Any]], load: list[dict[str, Any]]) -> ArmResult:
    return ArmResult(
        arm=arm.arm,
        role=arm.role,
        profile=arm.profile,
        claim=arm.claim,
        verdict=arm.verdict,
        as_expected=arm.as_expected,
        expected=arm.expected,
        sentence=arm.sentence,
        longest_gap_s=arm.longest_gap_s,
        counts={name: arm.books[name] for name in COUNTS if name in arm.books},
        latency_ms_p99=p99(row for row in latency if row["arm"] == arm.arm),
        records_per_s=throughput(row for row in load if row["arm"] == arm.arm),
    )


def _rows(run: RunDirectory, table: str) -> list[dict[str, Any]]:
    """A table of the timeline, a row per interval or bucket; empty where the run has none."""
    file = run.path / f"{table}.parquet"
    rows: list[dict[str, Any]] = pq.read_table(file).to_pylist() if file.is_file() else []
    return rows


def p99(buckets: Iterable[Mapping[str, Any]]) -> float | None:
    """Within how many ms 99 % of the records were reported, from above; None without records."""
    found = sorted(
        (Bucket(row["latency_ms_from"], row["latency_ms_until"], row["records"]) for row in buckets if row["records"]),
        key=lambda bucket: bucket.from_ms,
    )
    return Spread("", False, found).within[1] if found else None


def throughput(load: Iterable[Mapping[str, Any]]) -> float | None:
    """Reported records per second from the first interval in which one was reported to the last; None for less than
    two."""
    rows = sorted((row["at_us"], row["reported"]) for row in load if row["reported"])
    if len(rows) < 2:
        return None
    return float(sum(reported for _, reported in rows) / ((rows[-1][0] - rows[0][0]) / 1e6))
