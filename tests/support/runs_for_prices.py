"""Made-up runs of price scenarios (scenarios that measure what a guarantee costs), with the files that hold their
figures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier import catalogue
from delivery_verifier.model.scenario import VerdictName
from delivery_verifier.model.verdict import ArmVerdict, Doubt, RunVerdict
from delivery_verifier.store.ledger import LOAD_BEGAN
from delivery_verifier.store.run_directory import RunDirectory
from support import run_builder

BEGUN = datetime(2026, 11, 21, 12, tzinfo=UTC)
SILENCE = timedelta(seconds=5)
"""The silence between the warm-up and the load."""
LATENCIES = [(False, 1.0, 1.12, 980), (True, 1000.0, 1122.0, 15), (True, 5000.0, 5623.0, 5)]


def made(
    runs: Path,
    name: str,
    verdict: VerdictName = "HELD",
    *,
    run_id: str = "",
    doubt: str = "",
    latencies: Any = LATENCIES,
    **counts: int,
) -> Path:
    """Makes a finished run of a price scenario. Returns the run directory.

    The ledger has a warm-up and, after five silent seconds, 1,001 records, one record each millisecond.
    """
    plan = catalogue.build(catalogue.PRICES[name], run_id or f"run-{name}", created_at="2026-11-21T12:00:00+00:00")
    run, profile = RunDirectory(runs / plan.run_id), name.split(".")[2]
    with run.writing("plan") as output:
        output.write_json("scenario.json", plan)
    with run.writing("produce") as output:
        output.counts[LOAD_BEGAN] = int((BEGUN + SILENCE).timestamp() * 1e6)
        (output.staging / "ledger").mkdir()
        pq.write_table(
            _ledger(profile, plan.load.block * plan.load.partitions), output.staging / "ledger" / "one.parquet"
        )
    with run.writing("reconcile") as output:
        (output.staging / "timeline").mkdir()
        names = ("inside", "latency_ms_from", "latency_ms_until", "records")
        rows = [{"arm": profile, **dict(zip(names, row, strict=True))} for row in latencies]
        pq.write_table(pa.Table.from_pylist(rows), output.staging / "timeline" / "latency.parquet")
    books = {"reported": 1000, "lost": 0, "duplicated": 0, "reordered": 0, "failed": 0, "indeterminate": 0} | counts
    arm = ArmVerdict(
        arm=profile,
        role="subject",
        profile=profile,
        claim="contract",
        verdict=verdict,
        as_expected=True,
        expected="HELD",
        sentence="",
        doubts=[Doubt(kind="checker", name=doubt, detail="")] if doubt else [],
        findings=[],
        books=books,
        exposure=[],
        longest_gap_s=3.25,
    )
    told = RunVerdict(
        run_id=plan.run_id, scenario=name, verdict=verdict, green=True, sentence="", limits=[], arms=[arm]
    )
    with run.writing("conclude") as output:
        run_builder.write_verdict(output, told)
    return run.path


def _ledger(arm: str, warm_up: int) -> pa.Table:
    moments = [BEGUN] * warm_up + [BEGUN + SILENCE + timedelta(milliseconds=at) for at in range(1001)]
    time, count = pa.timestamp("us", tz="UTC"), len(moments)
    return pa.table(
        {
            "arm": [arm] * count,
            "sequence": list(range(count)),
            "outcome": ["ACKED"] * count,
            "sent_at": pa.array(moments, time),
            "settled_at": pa.array(moments, time),
        }
    )
