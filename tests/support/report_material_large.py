"""A made-up run of several hours with 1,000 partitions, many faults and many arms. Every list of cases is full."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier.model.history import Injection, Observation, read_observations
from delivery_verifier.store.run_directory import RunDirectory
from support import report_material
from support.report_tables import ANOMALIES, START_US, S, case

PARTITIONS, FAULTS, HOURS, ARMS, BOUND = 1000, 24, 5, 12, 10_000
EVERY_S = HOURS * 3600 // FAULTS


def huge(runs: Path) -> report_material.Made:
    """Makes the run of `report_material.violated`, as large as the bounds of a scenario permit."""
    path, verdict = report_material.violated(runs, "2026-11-21-huge")
    plan = RunDirectory(path).read_scenario()
    topic = plan.subjects[0].topic_name
    seen = [one for one in read_observations((path / "observations.json").read_bytes()) if one.kind == "process"]
    (path / "injections.json").write_bytes(msgspec.json.encode([_fault(number, topic) for number in range(FAULTS)]))
    (path / "observations.json").write_bytes(msgspec.json.encode([*seen, *_moves(topic)]))
    pq.write_table(_load(), path / "timeline" / "load.parquet")
    pq.write_table(_cases(), path / "anomalies" / "part-0.parquet")
    counted = [
        {"arm": "acks_all", "kind": kind, "cases": 10_000_000, "written": BOUND, "cut": True}
        for kind in ("LOST", "DUPLICATED", "REORDERED")
    ]
    pq.write_table(pa.Table.from_pylist(counted), path / "books" / "cases.parquet")
    return path, verdict


def _fault(number: int, topic: str) -> Injection:
    bite = START_US + (number * EVERY_S + 60) * S
    return Injection(
        id=number,
        cycle=number,
        action="kill",
        brokers=[number % 3 + 1],
        hit={topic: list(range(number % 3, PARTITIONS, 3))},
        requested_at_us=bite - S,
        bite_at_us=bite,
        healed_at_us=bite + 20 * S,
        recovered_at_us=bite + 40 * S,
        bit=True,
        proof={"leader_epoch": {f"{topic}-{p}": [number, number + 1] for p in range(number % 3, PARTITIONS, 3)}},
    )


def _moves(topic: str) -> list[Observation]:
    found = [(START_US - S, p, p % 3 + 1, 0, [1, 2, 3]) for p in range(PARTITIONS)]
    for number in range(FAULTS):
        bite = START_US + (number * EVERY_S + 60) * S
        broker = number % 3 + 1
        for p in range(number % 3, PARTITIONS, 3):
            others = [one for one in (1, 2, 3) if one != broker]
            found.append((bite + 3 * S + p, p, others[p % 2], number + 1, others))
            found.append((bite + 39 * S + p, p, others[p % 2], number + 1, [1, 2, 3]))
    return [
        Observation(at_us=at, kind="partition", topic=topic, partition=p, leader=leader, leader_epoch=epoch, isr=isr)
        for at, p, leader, epoch, isr in found
    ]


def _load() -> pa.Table:
    count = HOURS * 3600
    noise = np.random.default_rng(7)
    arms = ["acks_all", "control-acks_0", *(f"arm-{number}" for number in range(ARMS - 2))]
    steps = {"sent": 500, "reported": 500, "indeterminate": 0, "failed": 0}
    columns = {"arm": np.repeat(arms, count), "at_us": np.tile(START_US + np.arange(count) * S, ARMS)}
    columns |= {name: np.full(count * ARMS, value) for name, value in steps.items()}
    columns |= {f"latency_ms_p{share}": share * noise.uniform(0.9, 1.2, count * ARMS) for share in (50, 99)}
    return pa.table(columns)


def _cases() -> pa.Table:
    one = [case("acks_all", kind, 4000) for kind in ("LOST", "DUPLICATED", "REORDERED")]
    rows = pa.Table.from_pylist(one, ANOMALIES).to_pandas()
    rows = rows.loc[rows.index.repeat(BOUND)].reset_index(drop=True)
    rows["sequence"] = np.tile(np.arange(BOUND), len(one))
    return pa.Table.from_pandas(rows, ANOMALIES, preserve_index=False)
