"""Reads the figures of a run from its run directory. A catalogue run keeps these figures in its file catalogue.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from delivery_verifier.host import folders
from delivery_verifier.model.anomalies import SECONDARY, Anomaly, also_column, column
from delivery_verifier.model.catalogue_run import ArmResult, Attempt
from delivery_verifier.model.client import CLIENTS
from delivery_verifier.model.verdict import ArmVerdict
from delivery_verifier.reporting.latency import Bucket, Spread
from delivery_verifier.reporting.throughput import known_records_per_s
from delivery_verifier.run_directory.judgeable import how_to_judge
from delivery_verifier.run_directory.run_directory import RunDirectory

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
"""The names of the counts that a catalogue run keeps of every arm. The counts come from the counts of the run. They
count the sends of records, the sends with each outcome, and the cases of each anomaly."""


def attempt(run_dir: Path) -> Attempt:
    """Returns the judged run in `run_dir` as an `Attempt` (one run of an entry of the catalogue).

    The `Attempt` holds all arms except the canary, and at most 20 doubts. Its `seconds` are the time from the start of
    the step `plan` to the end of the step `conclude`. Raises IncompleteRun if the run has no verdict, or if a file of
    the verdict was altered.
    """
    run = RunDirectory(run_dir)
    verdict = run.verdict()
    latency = _rows(run, "timeline/latency")
    applications = {arm.name: arm.application.title for arm in run.read_scenario().loaded if arm.application}
    arms = [_arm(run, arm, applications.get(arm.arm, ""), latency) for arm in verdict.arms if arm.role != "canary"]
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
    """Returns the `Attempt` for a run that ended with `error` and without a verdict. An `Attempt` is one run of an
    entry.

    `run` is the name of the run. `started_at` says when the run began, as ISO 8601. `seconds` says how long the run
    took. The `Attempt` keeps at most 600 characters of the error, and says how to judge the run if its evidence is
    complete.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    parts = [" | ".join(lines)[:600], how_to_judge(folders.runs_dir() / run)]
    return Attempt(run=run, started_at=started_at, seconds=round(seconds, 1), error=" | ".join(filter(None, parts)))


def _arm(run: RunDirectory, arm: ArmVerdict, application: str, latency: list[dict[str, Any]]) -> ArmResult:
    return ArmResult(
        arm=arm.arm,
        role=arm.role,
        profile=arm.profile,
        application=application,
        client="" if arm.client == CLIENTS["librdkafka"].title else arm.client,
        claim=arm.claim,
        verdict=arm.verdict,
        as_expected=arm.as_expected,
        expected=arm.expected,
        sentence=arm.sentence,
        longest_gap_s=arm.longest_gap_s,
        counts={name: arm.tally[name] for name in COUNTS if name in arm.tally},
        latency_ms_p99=p99(row for row in latency if row["arm"] == arm.arm),
        records_per_s=known_records_per_s(run, arm.arm),
        explained=sum(finding.explained for finding in arm.findings),
        doubtful=sum(finding.doubtful for finding in arm.findings),
    )


def _rows(run: RunDirectory, table: str) -> list[dict[str, Any]]:
    """Returns the rows of `table`, for example `timeline/latency`.

    Returns an empty list if the run lacks this table.
    """
    file = run.path / f"{table}.parquet"
    rows: list[dict[str, Any]] = pq.read_table(file).to_pylist() if file.is_file() else []
    return rows


def p99(buckets: Iterable[Mapping[str, Any]]) -> float | None:
    """Returns the 99th percentile of the latency in ms, or None if no record was reported.

    `buckets` are rows of the table timeline/latency. Each row counts the reported records within a range of latencies.
    The result is the upper end of the range that contains the percentile, because the table holds no exact latencies.
    """
    filled = sorted(
        (Bucket(row["latency_ms_from"], row["latency_ms_until"], row["records"]) for row in buckets if row["records"]),
        key=lambda bucket: bucket.from_ms,
    )
    return Spread("", False, filled).bounds_ms[1] if filled else None
