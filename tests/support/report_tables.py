"""The tables of a made-up run, with the columns of a real run: cases, log, invariants, gaps and timeline."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.run_directory import tables
from delivery_verifier.run_directory.table import arrow_schema

START_US = 1_790_000_000_000_000
S = 1_000_000
PARTITIONS = 3
Row = dict[str, Any]

_TYPES = {
    "str": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "bool": pa.bool_(),
    "time": pa.timestamp("us", tz="UTC"),
}


def _schema(columns: str) -> pa.Schema:
    """Returns a schema from a text of `name:type` pairs."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in (pair.split(":") for pair in columns.split())])


ANOMALIES = arrow_schema(tables.ANOMALIES)
LOG = _schema(
    "arm:str partition:int offset:long view:str timestamp:time header_run:str header_arm:int producer:int "
    "session:int sequence:long attempt:int partition_sequence:long parsed:bool crc_ok:bool foreign:bool"
)
CASES = _schema("arm:str kind:str cases:long written:long cut:bool")
INVARIANTS = {
    "offsets_accounted": ("end - start", "data + control records"),
    "outcomes_sum": ("attempted", "acked + sent + failed + indeterminate"),
    "reported_sum": ("reported", "found + lost"),
    "log_sum": ("log records", "first copies + extra copies + phantoms + unattributed"),
}


def case(arm: str, kind: str, sequence: int, **more: Any) -> Row:
    """Returns one row of anomalies/. `more` overrides columns of the row."""
    sent_us = START_US + int(2.9 * S) + sequence % 1000 * 100
    row: Row = {
        "arm": arm,
        "kind": kind,
        "also": [],
        "producer": 0,
        "session": 0,
        "sequence": sequence,
        "attempt": 0,
        "partition": 1,
        "partition_sequence": sequence // 3,
        "outcome": "ACKED",
        "offsets": [],
        "sent_at": _time(sent_us),
        "settled_at": _time(sent_us + 4200),
        "error": None,
        "detail": "no copy in the log",
    }
    row |= more
    acked = sequence // 3 if row["outcome"] == "ACKED" else None
    return {"acked_offset": acked} | row


def planted() -> list[Row]:
    """Returns one case of every kind in the canary."""
    return [case("canary", kind.value, 10 + place, offsets=[place]) for place, kind in enumerate(Anomaly)]


def write_tables(
    to: Path, plan: Scenario, cases: list[Row], counted: dict[tuple[str, str], int], invariant: str
) -> None:
    """Writes the tables that the step `reconcile` writes, below the folder `to`.

    `cases`: the rows of anomalies/. `counted` overrides the number of cases, by (arm, kind). `invariant` names the
    invariant whose two counts differ.
    """
    written = {
        "timeline/load": pa.Table.from_pylist(_load(plan)),
        "timeline/latency": pa.Table.from_pylist(_latency(plan)),
        "counts/invariants": pa.Table.from_pylist(_invariants(plan, invariant)),
        "counts/cases": pa.Table.from_pylist(_counts(cases, counted), CASES),
        "counts/gaps": pa.Table.from_pylist(_gaps(plan)),
        "anomalies/part-0": pa.Table.from_pylist(cases, ANOMALIES),
        "log/part-0": pa.Table.from_pylist([_logged("acks_all", 4000 // 3, 4077)], LOG),
    }
    for name, table in written.items():
        file = to / f"{name}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, file)


def _time(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us / 1e6, UTC)


def _counts(cases: list[Row], counted: dict[tuple[str, str], int]) -> list[Row]:
    written = Counter((row["arm"], row["kind"]) for row in cases)
    totals = {pair: counted.get(pair, rows) for pair, rows in written.items()}
    return [
        {"arm": arm, "kind": kind, "cases": totals[arm, kind], "written": rows, "cut": totals[arm, kind] > rows}
        for (arm, kind), rows in written.items()
    ]


def _invariants(plan: Scenario, broken: str) -> list[Row]:
    return [
        {
            "invariant": invariant,
            "arm": arm.name,
            "partition": partition,
            "left_name": left,
            "left": 13_737,
            "right_name": right,
            "right": 13_736 if (invariant, partition) == (broken, 1) else 13_737,
        }
        for invariant, (left, right) in INVARIANTS.items()
        for arm in plan.arms
        for partition in range(PARTITIONS)
    ]


def _gaps(plan: Scenario) -> list[Row]:
    return [
        {"arm": arm.name, "partition": p, "longest_gap_s": 3.4 if p == 1 else 0.2, "gap_start_us": START_US + 3 * S}
        for arm in plan.loaded
        for p in range(PARTITIONS)
    ]


def _logged(arm: str, offset: int, sequence: int) -> Row:
    return {
        "arm": arm,
        "partition": 1,
        "offset": offset,
        "view": "raw",
        "timestamp": None,
        "header_run": "x",
        "header_arm": 1,
        "producer": 0,
        "session": 0,
        "sequence": sequence,
        "attempt": 0,
        "partition_sequence": sequence // 3,
        "parsed": True,
        "crc_ok": True,
        "foreign": False,
    }


def _load(plan: Scenario) -> list[Row]:
    """Returns 13 s of load in intervals of 200 ms, with a dip and a backlog around the fault."""
    noise, rows = np.random.default_rng(7), []
    for arm in plan.loaded:
        scale = 650 if arm.role == "subject" else 80
        for step in range(65):
            at = step * 0.2
            slow, silent = 2800 if 6.2 <= at < 6.6 else 9, 3 <= at < 3.4
            level = 0.62 if 3 <= at < 6.2 else 1.7 if 6.2 <= at < 7.6 else 1
            rows.append(
                {
                    "arm": arm.name,
                    "at_us": START_US + step * 200_000,
                    "sent": scale,
                    "reported": int(scale * level * noise.uniform(0.92, 1.08)),
                    "indeterminate": 9 if 4 <= at < 5 else 0,
                    "failed": 3 if 5 <= at < 5.4 else 0,
                    "latency_ms_p50": None if silent else 2.2 * noise.uniform(0.9, 1.2),
                    "latency_ms_p99": None if silent else slow * noise.uniform(0.8, 1.4),
                }
            )
    return rows


def _latency(plan: Scenario) -> list[Row]:
    """Returns latencies around 2 ms outside the fault. Inside the fault, more latencies are around 3 s."""
    hills = {False: [(2.0, 30_000)], True: [(2.0, 8_000), (3_000.0, 3_210)]}
    return [
        {
            "arm": arm.name,
            "inside": inside,
            "latency_ms_from": middle * 10 ** (step / 20),
            "latency_ms_until": middle * 10 ** ((step + 1) / 20),
            "records": int(records / 2 ** (abs(step) + 1)),
        }
        for arm in plan.loaded
        for inside, some in hills.items()
        for middle, records in some
        for step in range(-4, 5)
    ]
