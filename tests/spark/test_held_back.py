"""Tests of a reconciliation while a transaction stays open: the raw view is judged as ever, the committed view up to
the last stable offset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from support.run_directories import Row, attempt, line, scenario, table, write

from delivery_verifier.model.held_back import HeldBack
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from spark_jobs.reading import unreadable
from spark_jobs.reading.read_topic import _reads
from spark_jobs.reconcile import reconcile

STABLE, RECORDS = 6, 12


def sent(sequence: int, transaction: int, outcome: str = "COMMITTED", **more: Any) -> Row:
    return attempt("one", sequence, offset=sequence, transaction=str(transaction), transaction_outcome=outcome, **more)


def unbalanced(rows: list[Row]) -> set[str]:
    return {row["invariant"] for row in rows if row["left"] != row["right"]}


def held(parts: list[PartitionSnapshot]) -> list[PartitionSnapshot]:
    """Leaves a transaction open at the offset STABLE of partition 0 of arm `one`. No record was aborted."""
    return [
        msgspec.structs.replace(part, held_back=HeldBack(last_stable_offset=STABLE), aborted_records=0)
        if (part.arm, part.partition) == ("one", 0)
        else part
        for part in parts
    ]


def reconciled(path: Path, spark: SparkSession, visible: set[int], absent: int | None = None) -> tuple[Row, set[str]]:
    """Reconciles a run of 12 records in transactions of three. Returns the sums of the counts, and the broken
    invariants.

    `visible`: the offsets that a read_committed consumer saw. `absent`: a record that is in no view.
    """
    there = [n for n in range(RECORDS) if n != absent]
    log = [line("one", 1, n, n) for n in there] + [line("one", 1, n, n, view="committed") for n in visible]
    run = write(
        path,
        scenario(["one"], transactional=["one"]),
        [sent(n, n // 3) for n in range(RECORDS)],
        log,
        snapshot=lambda parts: held(
            [msgspec.structs.replace(part, end=RECORDS) if part.end else part for part in parts]
        ),
    )
    reconcile(run.path, True, spark)
    rows = [row for row in table(run, "counts/producers.parquet") if row["arm"] == "one"]
    sums = {name: sum(row[name] for row in rows) for name in ("torn", "lost", "found", "also_torn", "duplicated")}
    return sums, unbalanced(table(run, "counts/invariants.parquet"))


def test_records_behind_the_last_stable_offset_are_found_and_not_called_torn(
    spark: SparkSession, tmp_path: Path
) -> None:
    sums, broken = reconciled(tmp_path, spark, visible={*range(STABLE)})
    assert sums == {"torn": 0, "also_torn": 0, "lost": 0, "found": RECORDS, "duplicated": 0} and broken == set()


def test_a_torn_transaction_before_the_last_stable_offset_is_still_found(spark: SparkSession, tmp_path: Path) -> None:
    sums, broken = reconciled(tmp_path, spark, visible={*range(STABLE)} - {4})
    assert sums["torn"] == 1 and broken == {"view_rows"}, "settle counted a record more than the consumer saw"


def test_a_record_behind_the_last_stable_offset_that_is_in_no_view_is_still_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    sums, broken = reconciled(tmp_path, spark, visible={*range(STABLE)}, absent=9)
    assert (sums["lost"], sums["torn"], sums["found"]) == (1, 0, RECORDS - 1)
    assert broken == {"offsets_accounted"}, "the offset of the lost record, which stays empty in this log"


@pytest.mark.parametrize(
    ("stable", "ranges"), [(6, [(0, 6)]), (0, [(0, 0)]), (20, [(0, 20)]), (-1, [(0, -1)])], ids=str
)
def test_a_committed_read_of_a_partition_that_is_held_back_ends_at_the_last_stable_offset(
    stable: int, ranges: list[tuple[int, int]]
) -> None:
    part = PartitionSnapshot(arm="one", topic="t", partition=0, start=0, end=30, live_end=32, leader=1, leader_epoch=0)
    assert unreadable.readable(part, stable) == ranges
    other = msgspec.structs.replace(part, partition=1)
    held_back = msgspec.structs.replace(part, held_back=HeldBack(last_stable_offset=max(stable, 0)))
    offsets = Offsets(bootstrap_servers="nowhere:1", taken_at_us=0, partitions=[held_back, other])
    ((_, starts, ends),) = _reads(offsets, "read_uncommitted")
    assert (starts, ends) == ({"t": {"0": 0, "1": 0}}, {}), "the raw view is read to its present end"
    ((selected, starts, ends),) = _reads(offsets, "read_committed")
    assert selected == ("assign", '{"t": [0, 1]}') and ends == {"t": {"0": max(stable, 0), "1": -1}}
