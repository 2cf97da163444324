"""The books as the reconciliation wrote them: small exact tables, read strictly. Every problem with them is named.

A table that is missing or empty, or that has nulls, is never read as "nothing found". It becomes a `problem`, and each
problem is a checker doubt. (Without an injection books/exposure.parquet may be empty; whether books/cases.parquet may
be empty is a matter of the laws.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delivery_verifier.model.anomalies import SECONDARY, Anomaly, also_column, column
from delivery_verifier.store import tables as declared
from delivery_verifier.store.table import Table

COUNTS = tuple(count.name for count in declared.COUNTS)
"""Columns of books/producers.parquet that count attempts, records or cases."""

BOOKS = (
    declared.PRODUCERS,
    declared.PARTITIONS,
    declared.LAWS,
    declared.CASES,
    declared.EXPOSURE,
    declared.GAPS,
    declared.LOAD,
)
"""The tables that a judgement needs."""

TABLES: dict[str, tuple[str, ...]] = {table.file: table.column_names for table in BOOKS}
"""The files of these tables, with their columns."""


@dataclass(frozen=True)
class Books:
    """The tables by their file, and the problems with these tables as pairs of (name of the doubt, sentence)."""

    tables: Mapping[str, pa.Table]
    problems: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def from_tables(cls, tables: Mapping[str, pa.Table]) -> Books:
        """Books over tables in memory, by their file (see TABLES)."""
        problems = [problem for table in BOOKS for problem in _problems(table, tables.get(table.file))]
        return cls({table.file: tables.get(table.file, _empty(table)) for table in BOOKS}, problems)

    @classmethod
    def read(cls, run_dir: Path) -> Books:
        """The books of a run directory. A file that is not Parquet raises pyarrow.ArrowInvalid."""
        present = {file: run_dir / file for file in TABLES if (run_dir / file).exists()}
        return cls.from_tables({file: pq.read_table(path) for file, path in present.items()})

    def rows(self, name: str, **where: object) -> pa.Table:
        """The rows of a table (`producers`, `laws`, ...) whose columns equal the values of `where`.

        There is no row if the table lacks one of these columns, which is a problem already.
        """
        table = self.tables[_file(name)]
        for key, value in where.items():
            if key not in table.column_names:
                return table.slice(0, 0)
            table = table.filter(pc.equal(table[key], value))
        return table

    def values(self, name: str, column_name: str, **where: object) -> list[Any]:
        """One column of those rows, without nulls. Empty if the column is missing, which is a problem already."""
        rows = self.rows(name, **where)
        values = rows[column_name].to_pylist() if column_name in rows.column_names else []
        return [value for value in values if value is not None]

    def totals(self, arm: str) -> dict[str, int]:
        """The arm's counts, each summed over its rows. A missing column has no total: absent is not zero."""
        rows = self.rows("producers", arm=arm)
        return {name: _sum(rows[name]) for name in COUNTS if name in rows.column_names}

    def cases_at(self, arm: str, anomaly: Anomaly, partition: int) -> int:
        """Cases of this kind in one partition of the arm, including those that a kind of higher precedence hides."""
        return sum(sum(self.values("producers", name, arm=arm, partition=partition)) for name in _columns(anomaly))


def total_column(anomaly: Anomaly) -> str:
    """The column in which Great Expectations sees an anomaly: per row, its cases and those that a higher kind hides."""
    return f"{column(anomaly)}_total"


def with_totals(rows: pa.Table) -> pa.Table:
    """Rows of books/producers with one more column per anomaly, `<anomaly>_total`.

    The total is `<anomaly>`, plus `also_<anomaly>` where there is such a column. If one of the two is missing, so is
    the total; where one of the two is null, so is the total. Whatever evaluates the rows must see both problems.
    """
    for anomaly in Anomaly:
        parts = _columns(anomaly)
        if set(parts) <= set(rows.column_names):
            total = rows[parts[0]] if len(parts) == 1 else pc.add(rows[parts[0]], rows[parts[1]])
            rows = rows.append_column(total_column(anomaly), total)
    return rows


def _columns(anomaly: Anomaly) -> list[str]:
    """The columns that count an anomaly."""
    return [column(anomaly), also_column(anomaly)] if anomaly in SECONDARY else [column(anomaly)]


def _file(name: str) -> str:
    return next(file for file in TABLES if file.endswith(f"/{name}.parquet"))


def _sum(values: pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)


def _empty(table: Table) -> pa.Table:
    return pa.table({name: pa.array([], pa.null()) for name in table.column_names})


def _problems(declaration: Table, table: pa.Table | None) -> list[tuple[str, str]]:
    file = declaration.file
    if table is None:
        return [("table_missing", f"{file} is missing")]
    present = set(table.column_names)
    problems = [
        ("column_missing", f"{file} has no column {item.name}")
        for item in declaration.columns
        if item.name not in present
    ]
    problems += [
        ("nulls", f"{file}: column {item.name} has {table[item.name].null_count} nulls")
        for item in declaration.columns
        if item.name in present and not item.nullable and table[item.name].null_count
    ]
    if not table.num_rows and not declaration.may_be_empty:
        problems.append(("table_empty", f"{file} is empty"))
    return problems
