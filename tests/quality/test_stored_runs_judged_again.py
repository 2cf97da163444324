"""Tests that a stored run which is reconciled and validated again, from its ledger and log, gets the results that it
had. If the format, or a rule, changes on purpose: make the stored runs anew (`support.make_stored_runs`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.stored_data import NAMES, RUNS, judgement, stored_judgement, stored_run
from support.stored_runs import judge_again

from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.run_directory import tables
from delivery_verifier.run_directory.effect_tables import EFFECT_TABLES
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.run_directory.table import Table

NOT_REPEATED = (tables.LEDGER, tables.REPLICAS, tables.LOG, tables.SHARED_OFFSETS, tables.CLAIMS, *EFFECT_TABLES)
"""The stored runs have no application, and are no audits. They have no shared offsets, and are older than that list."""
REPEATED = [table for table in tables.TABLES if table not in NOT_REPEATED]
"""The tables that a repeated reconciliation writes again."""


@pytest.fixture(scope="module", params=NAMES)
def judged(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, RunDirectory, RunVerdict]:
    name: str = request.param
    run = stored_run(name, tmp_path_factory.mktemp("runs"))
    for folder in ("anomalies", "counts", "timeline"):  # whatever is compared below was written here and now
        for file in (run.path / folder).iterdir():
            file.unlink()
    (run.path / "validation.json").unlink()
    return name, run, judge_again(run, spark)


def rows(folder: Path, table: Table) -> list[str]:
    """Returns the rows of a table as sorted texts. Floats are rounded to nine significant digits."""
    found = pq.read_table(folder / table.file).to_pylist()
    return sorted(repr({name: _rounded(value) for name, value in row.items()}) for row in found)


def _rounded(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else value


def test_the_verdict_is_the_same(judged: tuple[str, RunDirectory, RunVerdict]) -> None:
    name, _, verdict = judged
    assert judgement(verdict) == stored_judgement(name)


@pytest.mark.parametrize("table", REPEATED, ids=lambda table: str(table.name))
def test_the_tables_are_the_same(judged: tuple[str, RunDirectory, RunVerdict], table: Table) -> None:
    name, run, _ = judged
    assert pq.read_schema(run.path / table.file).equals(pq.read_schema(RUNS / name / table.file))
    assert rows(run.path, table) == rows(RUNS / name, table)
