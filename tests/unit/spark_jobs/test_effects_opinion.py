"""Compares DuckDB's count of the anomalies of effects with the oracle, over random histories."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.applications import applied
from support.effect_histories import END, PARTITIONS, effect, judge, marker, random_history
from support.run_directories import Row, line, scenario

from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from spark_jobs.checks.effects_opinion import NAMES, QUERY, parameters
from spark_jobs.schemas import EFFECTS, LOG, arrow

RANDOM, SEED = 1000, 20_261_123
History = tuple[list[Row], list[Row]]
"""The log and the effects of an arm."""


def counted(folder: Path, histories: dict[str, History]) -> dict[str, dict[str, int]]:
    """Returns what DuckDB counts in each arm."""
    for number, (name, schema) in enumerate((("log", LOG), ("effects", EFFECTS))):
        rows = [row for history in histories.values() for row in history[number]]
        if name == "log":  # DuckDB looks at the header itself
            rows = [row | {"header_run": "otherrun"} if row["foreign"] else row for row in rows]
        (folder / name).mkdir()
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow(schema)), folder / name / "all.parquet")
    of = applied(scenario(list(histories), partitions=PARTITIONS, producers=2))
    bounds = {"start": 0, "end": END, "live_end": END + 2, "leader": 1, "leader_epoch": 0}
    ends = [PartitionSnapshot(arm=arm, topic="t", partition=at, **bounds) for arm in histories for at in (0, 1)]
    offsets = Offsets(bootstrap_servers="", taken_at_us=0, partitions=ends)
    found = duckdb.connect().execute(QUERY, parameters(folder, of, offsets)).fetchall()
    return {arm: dict(zip(NAMES, counts, strict=True)) for arm, *counts in found}


def expected(history: History) -> dict[str, int]:
    """Returns what the oracle counts."""
    cases, _ = judge(*history)
    counts = Counter[str]()
    for (kind, is_also_late, *_), number in cases.items():
        counts[kind.lower()] += number
        counts["overtaken"] += number * bool(is_also_late)
    return {name: counts[name] for name in NAMES}


@pytest.mark.slow
def test_duckdb_counts_in_random_histories_what_the_oracle_counts(tmp_path: Path) -> None:
    drawn = {f"h{at}": random_history(f"h{at}", at, SEED + at)[1:] for at in range(1, RANDOM + 1)}
    found = counted(tmp_path, drawn)
    wrong = {arm: (found[arm], expected(history)) for arm, history in drawn.items() if found[arm] != expected(history)}
    assert not wrong


def test_what_is_applied_again_from_the_first_record_on_is_not_overtaken(tmp_path: Path) -> None:
    """The effect of the first record has none before it, with which it could be compared."""
    lines = [line("rewound", 1, offset, offset) for offset in range(3)]
    lines += [marker("rewound", 1, 0)]
    rows = [effect("rewound", row, order) for order, row in enumerate([*lines[:3], *lines])]
    history = lines[:3], rows
    found = counted(tmp_path, {"rewound": history})["rewound"]
    assert found == expected(history) == {"skipped": 0, "reapplied": 3, "ghost": 0, "overtaken": 0}
