"""The smoke scenarios of the catalogue, and a recount of their runs. Each scenario runs once, either through Airflow or
directly."""

from __future__ import annotations

from collections import Counter

import pyarrow.parquet as pq

from delivery_verifier.catalogue import ENTRIES
from delivery_verifier.model.anomalies import Anomaly, also_column, column
from delivery_verifier.model.record import MARKER_PRODUCER
from delivery_verifier.model.scenario import Bound
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.run_directory.tally import Tally
from delivery_verifier.suite import begin, selection
from spark_jobs.reading.write_log import read_offsets_of
from support.effect_histories import Row
from support.effect_histories import judge as judge_effects
from support.oracle import judge

THROUGH_AIRFLOW = "idempotent.killed_producer"
"""The scenario that runs through Airflow: for a fault of the client, one task of Airflow asks another task to kill its
producers. All other kinds of faults work below Airflow. The runs of `make verify` and of the trigger form use signals
and elections."""
DIRECTLY = [name for name, entry in ENTRIES.items() if "smoke" in entry.tags and name != THROUGH_AIRFLOW]
IN_TIME = "effects_in_time"
"""A count by the clock: the recount does not look at clocks."""
_OPERATORS = {"=": int.__eq__, ">=": int.__ge__, "<=": int.__le__}


def expect_unavailable(names: list[str]) -> list[str]:
    """Returns the option that makes `kdv catalogue` expect some of `names` to be unavailable: the scenarios that this
    host cannot run.

    Such a host lacks, for example, root rights or loop devices.
    """
    lacking = [entry.name for entry in selection.entries(names, "") if begin.unavailable(entry)]
    return ["--expect-unavailable", ",".join(lacking)] if lacking else []


def assert_recounted(run: RunDirectory, entry: str) -> None:
    """Recounts ledger and log record by record, in plain Python.

    Asserts that the counts are those of the counts that Spark wrote, and that they meet the bounds of the entry.
    """
    ledger, log = (pq.read_table(run.path / name).to_pylist() for name in ("ledger", "log"))
    tally = Tally.read(run.path, applied=(run.path / "effects").is_dir())
    assert tally.problems == []
    for plan in ENTRIES[entry].arms:
        seen = {
            view: [row for row in log if (row["arm"], row["view"]) == (plan.name, view)]
            for view in ("raw", "committed")
        }
        lines = [row for row in seen["raw"] if row["producer"] != MARKER_PRODUCER]
        found = judge([row for row in ledger if row["arm"] == plan.name], lines, seen["committed"])[0]
        found += _effects(run, plan.name, lines)
        booked = {name: count for name, count in tally.totals(plan.name).items() if count and name != IN_TIME}
        assert booked == +found, (entry, plan.name)
        assert all(_holds(bound, found) for bound in plan.expectation.bounds), (entry, plan.name, found)


def _effects(run: RunDirectory, arm: str, lines: list[Row]) -> Counter[str]:
    """Returns the counts of an arm's effects, by the columns of the counts. The arm writes no transactions."""
    counts = Counter[str]()
    if not (run.path / "effects").is_dir():
        return counts
    effects = [row for row in pq.read_table(run.path / "effects").to_pylist() if row["arm"] == arm]
    if effects:
        ends = {part.partition: part.end for part in read_offsets_of(run).partitions if part.arm == arm}
        cases, tally = judge_effects(lines, effects, ends)
        counts.update({f"effects_{name}": count for name, count in tally.items()})
        for (kind, hidden, *_), count in cases.items():
            counts[column(Anomaly(kind))] += count
            counts[also_column(Anomaly.OVERTAKEN)] += count * hidden
    return counts


def _holds(bound: Bound, found: Counter[str]) -> bool:
    return bool(_OPERATORS[bound.op](found[bound.count.lower()], bound.value))
