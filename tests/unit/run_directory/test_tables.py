"""Tests that the tables of the run directory are declared once, and that the documentation shows exactly the declared
tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from delivery_verifier.reporting import material
from delivery_verifier.run_directory import effect_tables, ledger, tables, tally
from delivery_verifier.run_directory.group_log_tables import GROUP_LOG_TABLES
from delivery_verifier.run_directory.table import Table, arrow_schema
from docs.generate.run_directory import MARK, document, main
from spark_jobs import schemas

PAGE = Path(__file__).parents[3] / "docs/reference/run-directory.md"
IN_SPARK = {
    tables.LEDGER: schemas.LEDGER,
    tables.LOG: schemas.LOG,
    tables.ANOMALIES: schemas.ANOMALIES,
    tables.PRODUCERS: schemas.PRODUCERS,
    tables.PARTITIONS: schemas.PARTITIONS,
    tables.INVARIANTS: schemas.INVARIANTS,
    tables.CASES: schemas.CASES,
    tables.EXPOSURE: schemas.EXPOSURE,
    tables.GAPS: schemas.GAPS,
    tables.LOAD: schemas.LOAD,
    tables.LATENCY: schemas.LATENCY,
    effect_tables.EFFECTS: schemas.EFFECTS,
    effect_tables.EFFECT_TALLY: schemas.EFFECT_TALLY,
}
NOT_IN_SPARK = [tables.REPLICAS, tables.SHARED_OFFSETS, tables.CLAIMS, effect_tables.JOURNAL, *GROUP_LOG_TABLES]
"""The step settle, or DuckDB, writes these tables, and no job reads them."""


def test_the_page_of_the_run_directory_has_the_tables_as_they_are_declared(tmp_path: Path) -> None:
    remedy = "run `python -m docs.generate.run_directory`"
    assert PAGE.read_text() == document(PAGE.read_text()), remedy
    stale = tmp_path / "page.md"
    stale.write_text(PAGE.read_text().replace("| `offset` |", "| `place` |"))
    main([str(stale)])
    assert stale.read_text() == PAGE.read_text()
    with pytest.raises(ValueError, match="lacks the comment"):
        document(PAGE.read_text().replace(MARK, ""))


def test_every_table_is_derived_and_nothing_in_a_cell_breaks_its_row() -> None:
    assert {*IN_SPARK, *NOT_IN_SPARK} == set(tables.TABLES)
    assert arrow_schema(tables.LEDGER) == ledger.SCHEMA
    for table in tables.TABLES:
        assert len(set(table.column_names)) == len(table.columns)
        assert not [item for item in table.columns if "|" in item.meaning + item.unit or not item.meaning]


@pytest.mark.parametrize("table", IN_SPARK, ids=lambda table: str(table.name))
def test_spark_and_arrow_write_one_and_the_same_table(table: Table) -> None:
    schema = IN_SPARK[table]
    assert schemas.arrow(schema).equals(arrow_schema(table))
    assert [field.nullable for field in schema] == [item.nullable for item in table.columns]


def test_what_is_read_of_a_table_is_what_is_declared() -> None:
    declared = {table.file: table.column_names for table in tables.TABLES}
    assert tally.TABLES.items() <= declared.items()
    assert material.COLUMNS.items() <= {table.name: table.column_names for table in tables.TABLES}.items()
    assert tables.LEDGER.column("offset").nullable
    with pytest.raises(KeyError, match="ledger has no column place"):
        tables.LEDGER.column("place")


def test_the_run_directory_is_read_without_pyarrow_until_a_table_is_written() -> None:
    modules = "delivery_verifier.run_directory.run_directory, delivery_verifier.run_directory.tables"
    code = f"import sys, {modules}; sys.exit(bool({{'pyarrow', 'pandas', 'numpy'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
