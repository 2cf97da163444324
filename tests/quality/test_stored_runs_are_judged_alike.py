"""Tests that reconcile and validate runs of an older version again, from their ledger and log. All results must stay
the same.

tests/unit/judgement/test_older_runs.py tests that these runs are judged as before if their stored books and validation
are kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.older_runs import NAMES, RUNS, VERSION, judgement, judgement_today, older_run
from support.stored_runs import judge_again

from delivery_verifier.model.anomalies import Anomaly, searched_for
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.store import tables
from delivery_verifier.store.anomalies import PLACES
from delivery_verifier.store.books import COUNTS, counts_of
from delivery_verifier.store.effect_tables import EFFECT_TABLES
from delivery_verifier.store.run_directory import RunDirectory
from delivery_verifier.store.table import Table

JudgedAgain = tuple[str, RunDirectory, RunVerdict]
QUANTILES = {"latency_ms_p50", "latency_ms_p99"}
"""The columns of timeline/load that are estimates. Earlier programs estimated them in another way, with an error of
their own. tests/spark/test_one_pass.py compares them with the exact percentiles of these runs."""
NOT_REPEATED = (tables.LEDGER, tables.REPLICAS, tables.LOG, *EFFECT_TABLES)  # the stored runs have no application
REPEATED = [table for table in tables.TABLES if table not in NOT_REPEATED]
"""The tables that a repeated reconciliation writes again."""


@pytest.fixture(scope="module", params=NAMES)
def judged(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> JudgedAgain:
    name: str = request.param
    run = older_run(name, tmp_path_factory.mktemp("runs"))
    for folder in ("anomalies", "books", "timeline"):  # whatever is compared below was written here and now
        for file in (run.path / folder).iterdir():
            file.unlink()
    (run.path / "validation.json").unlink()
    return name, run, judge_again(run, spark)


NEWER = set(Anomaly) - set(searched_for(VERSION))
"""The anomalies for which the stored runs were not searched, because they are older than that search."""
NEWER_COUNTS = ("attempts in the timeline", "attempts in silences and exposure")
"""The counts of equations that the programs of that time did not have."""


def rows(run_dir: Path, table: Table, columns: list[str]) -> list[str]:
    """Returns the rows of a table as sorted texts, without the rows about NEWER and NEWER_COUNTS.

    Floats are rounded to nine significant digits.
    """
    found = pq.read_table(run_dir / table.file, columns=columns).to_pylist()
    written = [repr([_rounded(row[name]) for name in columns]) for row in found]
    return sorted(row for row in written if not any(name in row for name in (*NEWER, *NEWER_COUNTS)))


def _rounded(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else value


def test_a_run_that_is_reconciled_and_validated_anew_is_judged_as_before_but_for_rules_that_changed(
    judged: JudgedAgain,
) -> None:
    name, _, verdict = judged
    assert judgement(verdict) == judgement_today(name, validated_anew=True)


@pytest.mark.parametrize("table", REPEATED, ids=lambda table: str(table.name))
def test_a_reconciliation_from_the_log_writes_the_same_rows_as_before(judged: JudgedAgain, table: Table) -> None:
    name, run, _ = judged
    before, after = (pq.read_schema(folder / table.file) for folder in (RUNS / name, run.path))
    newer = {*COUNTS, *PLACES} - set(counts_of(VERSION))
    assert list(before) == [column for column in after if column.name not in newer]
    exact = [column for column in before.names if column not in QUANTILES]
    assert rows(run.path, table, exact) == rows(RUNS / name, table, exact)
