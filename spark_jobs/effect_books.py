"""The books of effects: counts per partition, and the counts of their anomalies, added to the books of the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import Anomaly, also_column, column
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.store.effect_tables import EFFECT_COUNTS
from delivery_verifier.store.run_directory import StepOutput
from spark_jobs import committed, effects
from spark_jobs.books import NOBODY, SESSIONS, BookKey
from spark_jobs.schemas import ANOMALIES, EFFECT_BOOKS, EFFECTS, arrow

COUNTS = tuple(count.name for count in EFFECT_COUNTS)
Row = dict[str, Any]


class Effects(NamedTuple):
    """What the effects show. `books`: EFFECT_BOOKS. `anomalies`: for each row and column of PRODUCERS, the number of
    cases. `cases`: ANOMALIES."""

    books: pa.Table
    anomalies: Counter[tuple[BookKey, str]]
    cases: pa.Table


def read(spark: SparkSession, folder: Path, together: bool) -> DataFrame:
    """Returns EFFECTS from the files in `folder`. `together`: whether all rows shall be in one Spark partition."""
    rows = spark.read.schema(EFFECTS).parquet(str(folder))
    return rows.coalesce(1) if together else rows


def compare(
    rows: DataFrame, ledger: DataFrame, views: DataFrame, scenario: Scenario, offsets: Offsets, bound: int
) -> Effects:
    """Compares effects with the log. `rows`: EFFECTS. `ledger`: LEDGER. `views`: LOG. `bound`: the most cases per arm
    and kind. Reads only arms of `Scenario.applied`."""
    in_arms = F.col("arm").isin(*scenario.applied)
    in_view = F.col("view") == F.when(F.col("arm").isin(*scenario.transactional), committed.VIEW).otherwise("raw")
    lines = views.where(in_arms & (in_view if scenario.transactional else F.col("view") == "raw"))
    rows = rows.where(in_arms)
    parts = [*effects.census(rows).toArrow().to_pylist(), *effects.lines_census(lines).toArrow().to_pylist()]
    drained = {(row["arm"], row["partition"]) for row in parts if row.get("markers")}
    hidden = {(part.arm, part.partition) for part in offsets.partitions if part.unreadable}
    attempts = effects.applied_attempts(rows, lines, effects.Places(drained, hidden)).persist(
        StorageLevel.MEMORY_AND_DISK
    )
    try:
        counted = effects.counts(attempts).toArrow().to_pylist()
        found = arrow(ANOMALIES).empty_table()
        if any(row["kind"] for row in counted):
            claims = ledger.where(in_arms)
            found = effects.cases(attempts, claims, bound).toArrow().cast(found.schema)
    finally:
        attempts.unpersist()
    return Effects(_books(scenario, [*parts, *counted]), _anomalies(scenario, counted), found)


def write(found: Effects, producers: pa.Table, output: StepOutput) -> tuple[pa.Table, Counter[tuple[str, str]]]:
    """Writes books/effects, and the cases to anomalies/.

    Returns PRODUCERS: `producers` with the counts of the kinds of effects; and how many cases were written, per (arm,
    kind).
    """
    output.write_table("books/effects", found.books)
    output.write_table("anomalies/effects", found.cases)
    rows = producers.to_pylist()
    by_key = {(row["arm"], row["producer"], row["session"], row["partition"]): row for row in rows}
    for (key, name), count in found.anomalies.items():
        by_key[key][name] += count
    written = Counter(zip(found.cases["arm"].to_pylist(), found.cases["kind"].to_pylist(), strict=True))
    return pa.Table.from_pylist(rows, schema=producers.schema), written


def _books(scenario: Scenario, counted: Iterable[Row]) -> pa.Table:
    books = {(arm, part): Counter[str]() for arm in scenario.applied for part in range(scenario.load.partitions)}
    for row in counted:
        books.setdefault((row["arm"], row["partition"]), Counter()).update(
            {name: row[name] for name in COUNTS if row.get(name)}
        )
    rows = [
        {"arm": arm, "partition": partition} | {name: counts[name] for name in COUNTS}
        for (arm, partition), counts in sorted(books.items())
    ]
    return pa.Table.from_pylist(rows, schema=arrow(EFFECT_BOOKS))


def _anomalies(scenario: Scenario, counted: Iterable[Row]) -> Counter[tuple[BookKey, str]]:
    """Counts the cases per row and column of PRODUCERS. What no planned producer sent is counted for NOBODY."""
    planned = {arm.name: arm.producers for arm in scenario.arms}
    cases: Counter[tuple[BookKey, str]] = Counter()
    for row in counted:
        if row["kind"] is None:
            continue
        is_planned = row["producer"] < planned[row["arm"]] and row["session"] < SESSIONS
        owner = (row["producer"], row["session"]) if is_planned else (NOBODY, NOBODY)
        key = (row["arm"], *owner, row["partition"])
        cases[key, column(Anomaly(row["kind"]))] += row["attempts"]
        for kind in row["also"]:
            cases[key, also_column(Anomaly(kind))] += row["attempts"]
    return cases
