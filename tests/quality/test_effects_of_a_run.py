"""Reconciles whole runs with an application: the canary's cases are found, the invariants hold, and what is cut short
breaks one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession, functions
from support.applications import applied
from support.run_directories import Row, attempt, canary_lines, line, scenario, table, write

from delivery_verifier import canary
from delivery_verifier.applications.sink import IncarnationEffects
from delivery_verifier.applications.slots import SlotWriter, read_slots
from delivery_verifier.model import record
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.run_directory.run_directory import RunDirectory, StepOutput
from delivery_verifier.settlement.applications import seal_incarnation
from delivery_verifier.settlement.canary_effects import apply_canary
from spark_jobs import reconcile as job
from spark_jobs.effects import effect_attempts

RECORDS = 40


def a_scenario(transactional: bool) -> Scenario:
    """Returns a scenario whose arm has an application. Beside transactions, its effects are rows of a database."""
    plain = scenario(["a"], partitions=2, transactional=["a"] if transactional else [])
    return applied(plain, "database_compared" if transactional else "commit_after")


def apply_subject(made: Scenario, folder: Path, output: StepOutput, skip: int, twice: int) -> None:
    """Applies the subject's records in two incarnations: without the last `skip` of the first, and the last `twice`
    once more."""
    half = RECORDS // 2
    begin = half - twice
    for incarnation, numbers in enumerate((range(half - skip), range(begin, RECORDS))):
        writer = SlotWriter(folder / str(incarnation))
        for number in numbers if not (incarnation and skip) else range(half, RECORDS):
            value = record.encode(made.run_token, 1, 0, 0, number, 0, number, 100)
            writer.append(0, number, number // 10, value, made.run_token, 1)
        if incarnation:
            marker = record.encode(made.run_token, 1, record.MARKER_PRODUCER, 0, 0, 0, 0, 100)
            for partition in range(2):
                writer.append(partition, RECORDS, 0, marker, made.run_token, 1)
        seal_incarnation(
            IncarnationEffects(0, incarnation, read_slots(folder / str(incarnation)), writer.count), "a", output
        )
    output.counts |= {"incarnations/a": 2, "killed/a": 1, "kill_orders/a": 1}


def reconciled(
    path: Path, spark: SparkSession, transactional: bool, skip: int = 0, twice: int = 0, claimed: Row | None = None
) -> tuple[Scenario, RunDirectory]:
    """Returns a run that was reconciled. `claimed` overrides counts of settle.json."""
    made = a_scenario(transactional)
    layout = canary.lay_out(made)
    lines, offsets = canary_lines(made, layout)
    ended = {"transaction": "0", "transaction_outcome": "COMMITTED"} if transactional else {}
    attempts = [attempt("a", number, offset=number, **ended) for number in range(RECORDS)]
    attempts += [
        attempt("canary", 0) | {name: row[name] for name in row if name not in ("sent_at", "settled_at")}
        for row in canary.ledger_table(made, layout, offsets).to_pylist()
    ]
    mine = [line("a", 1, number, number) for number in range(RECORDS)]
    lines += mine + [row | {"view": "committed"} for row in mine if transactional]

    def effects(snapshot: Offsets, output: StepOutput) -> None:
        apply_canary(made, layout, offsets, snapshot, path.parent / "canary", {}, output)
        apply_subject(made, path.parent / "slots", output, skip, twice)
        output.counts |= claimed or {}

    run = write(path, made, attempts, lines, effects=effects)
    job.reconcile(path, True, spark)
    return made, run


def broken(run: RunDirectory) -> set[str]:
    return {row["invariant"] for row in table(run, "counts/invariants.parquet") if row["left"] != row["right"]}


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
def test_the_canary_is_found_exactly_and_every_invariant_holds(
    transactional: bool, spark: SparkSession, tmp_path: Path
) -> None:
    made, run = reconciled(tmp_path / "run", spark, transactional, twice=4)
    totals: Counter[str] = Counter()
    for row in table(run, "counts/producers.parquet"):
        totals.update({name: count for name, count in row.items() if row["arm"] == "canary" and isinstance(count, int)})
    for row in table(run, "counts/effects.parquet"):
        if row["arm"] == "canary":
            totals.update({f"effects_{name}": count for name, count in row.items() if isinstance(count, int)})
    expected = canary.expected_counts(made)
    for name in ("attempted", "acked", "reported", "lost"):
        expected[name] -= canary.FORGOTTEN  # no producer process took part here
    assert {name: totals[name] for name in expected} == expected
    assert broken(run) == set()
    subject = [row for row in table(run, "counts/effects.parquet") if row["arm"] == "a"]
    assert sum(row["again"] for row in subject) == 4
    assert sum(row["reapplied"] for row in table(run, "counts/producers.parquet") if row["arm"] == "a") == 4
    cases = [row for row in pq.read_table(run.path / "anomalies").to_pylist() if row["arm"] == "a"]
    assert [row["sequence"] for row in cases] == [16, 17, 18, 19]
    place = "at 0:16 by member 0 in incarnation"
    assert cases[0]["detail"] == f"in the log at 0:16; applied {place} 0, {place} 1"
    assert (cases[0]["outcome"], cases[0]["acked_offset"], cases[0]["offsets"]) == ("ACKED", 16, [16])


@pytest.mark.parametrize(("transactional", "proven"), [(False, RECORDS), (True, 0)], ids=["plain", "transactional"])
def test_effects_that_agree_with_the_log_are_proven_by_sums(
    transactional: bool, proven: int, spark: SparkSession, tmp_path: Path
) -> None:
    _, run = reconciled(tmp_path / "run", spark, transactional)
    assert run.manifest("reconcile").counts["screen/effects"] == proven
    assert broken(run) == set()
    subject = [row for row in table(run, "counts/effects.parquet") if row["arm"] == "a"]
    assert sum(row["applied"] for row in subject) == sum(row["lines"] for row in subject) == RECORDS


def test_what_a_crash_skipped_is_counted_and_the_invariants_hold(spark: SparkSession, tmp_path: Path) -> None:
    _, run = reconciled(tmp_path / "run", spark, transactional=False, skip=6)
    assert sum(row["skipped"] for row in table(run, "counts/producers.parquet") if row["arm"] == "a") == 6
    assert broken(run) == set()
    invariants = {row["left_name"]: row["left"] for row in table(run, "counts/invariants.parquet") if row["arm"] == "a"}
    by_duckdb = {
        name: invariants[f"{name}, counted by DuckDB"] for name in ("skipped", "reapplied", "ghost", "overtaken")
    }
    assert by_duckdb == {"skipped": 6, "reapplied": 0, "ghost": 0, "overtaken": 0}


def test_a_group_that_is_set_back_to_offset_0_overtakes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    _, run = reconciled(tmp_path / "run", spark, transactional=False, twice=RECORDS // 2)
    assert sum(row["reapplied"] for row in table(run, "counts/producers.parquet") if row["arm"] == "a") == RECORDS // 2
    assert broken(run) == set()


@pytest.mark.parametrize("kind", [Anomaly.SKIPPED, Anomaly.REAPPLIED])
def test_anomalies_of_effects_that_spark_does_not_count_are_noticed_by_the_second_opinion(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Anomaly
) -> None:
    monkeypatch.setitem(effect_attempts.DETECTORS, kind, lambda: functions.lit(False))
    _, run = reconciled(tmp_path / "run", spark, transactional=False, skip=6 * (kind == "SKIPPED"), twice=4)
    assert "second_opinion" in broken(run)


def test_effects_cut_short_an_incarnation_nobody_counted_and_a_kill_nobody_ordered_each_break_an_invariant(
    spark: SparkSession, tmp_path: Path
) -> None:
    claimed = {"applied/a/0/1": 23, "incarnations/a": 3, "kill_orders/a": 0}
    _, run = reconciled(tmp_path / "run", spark, transactional=False, claimed=claimed)
    assert broken(run) == {"effects_read", "incarnations"}
