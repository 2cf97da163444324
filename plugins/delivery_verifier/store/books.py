"""The books as the reconciliation wrote them: small exact tables, read strictly, with everything that is wrong named.

A table that is missing, empty, or has nulls is never read as "nothing found": it becomes a `problem`, and each
problem is a checker doubt.
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

COUNTS = (
    "attempted",
    "acked",
    "sent",
    "failed",
    "indeterminate",
    "reported",
    "found",
    "lost",
    "resolved_present",
    "resolved_absent",
    "resolved_late",
    "log_records",
    "first_copies",
    "extra_copies",
    "phantoms",
    "unattributed",
    *(column(anomaly) for anomaly in Anomaly if anomaly is not Anomaly.LOST),
    *(also_column(anomaly) for anomaly in SECONDARY),
)
"""Columns of books/producers.parquet that count attempts or log records."""

TABLES: dict[str, tuple[str, ...]] = {
    "books/producers.parquet": ("arm", "producer", "session", "partition", *COUNTS),
    "books/partitions.parquet": (
        "arm",
        "topic",
        "partition",
        "start",
        "end",
        "data_records",
        "control_records",
        "tail_records",
    ),
    "books/laws.parquet": ("law", "arm", "partition", "left_name", "left", "right_name", "right"),
    "books/cases.parquet": ("arm", "kind", "cases", "written", "cut"),
    "books/exposure.parquet": ("arm", "injection", "reported", "outstanding"),
    "books/gaps.parquet": ("arm", "partition", "longest_gap_s", "gap_start_us"),
    "timeline/load.parquet": (
        "arm",
        "at_us",
        "sent",
        "reported",
        "indeterminate",
        "failed",
        "latency_ms_p50",
        "latency_ms_p99",
    ),
}
"""The tables and the columns that are read off them (docs/run-directory.md)."""

NULLABLE = frozenset({"latency_ms_p50", "latency_ms_p99", "longest_gap_s", "gap_start_us"})
MAY_BE_EMPTY = frozenset({"books/exposure.parquet", "books/cases.parquet"})
"""Without an injection there is no exposure; whether a case table may be empty is a matter of the laws."""


@dataclass(frozen=True)
class Books:
    """The tables by their path, and what is wrong with them as (name of the doubt, sentence)."""

    tables: Mapping[str, pa.Table]
    problems: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table]) -> Books:
        """Books over tables in memory."""
        problems = [problem for name in TABLES for problem in _problems(name, tables.get(name))]
        return cls({name: tables.get(name, _nothing(name)) for name in TABLES}, problems)

    @classmethod
    def read(cls, run_dir: Path) -> Books:
        """The books of a run directory. A file that is not Parquet raises pyarrow.ArrowInvalid."""
        present = {name: run_dir / name for name in TABLES if (run_dir / name).exists()}
        return cls.of({name: pq.read_table(file) for name, file in present.items()})

    def rows(self, name: str, **where: object) -> pa.Table:
        """Rows of a table (`producers`, `laws` ...) whose columns have the values of `where`."""
        table = self.tables[_path(name)]
        for key, value in where.items():
            if key not in table.column_names:
                return table.slice(0, 0)
            table = table.filter(pc.equal(table[key], value))
        return table

    def values(self, name: str, column_name: str, **where: object) -> list[Any]:
        """A column of those rows, without nulls; empty if there is no such column (which is a problem already)."""
        rows = self.rows(name, **where)
        found = rows[column_name].to_pylist() if column_name in rows.column_names else []
        return [value for value in found if value is not None]

    def totals(self, arm: str) -> dict[str, int]:
        """The arm's counts, each summed over its rows; a column that is missing counts as absent, not as zero."""
        rows = self.rows("producers", arm=arm)
        return {name: _sum(rows[name]) for name in COUNTS if name in rows.column_names}

    def cases_at(self, arm: str, anomaly: Anomaly, partition: int) -> int:
        """Cases of this kind in one partition of the arm, those hidden by a kind of higher precedence among them."""
        names = [column(anomaly), *([also_column(anomaly)] if anomaly in SECONDARY else [])]
        return sum(sum(self.values("producers", name, arm=arm, partition=partition)) for name in names)


def total_column(anomaly: Anomaly) -> str:
    """Column in which Great Expectations sees an anomaly: its cases and those a higher kind hides, per row."""
    return f"{column(anomaly)}_total"


def with_totals(rows: pa.Table) -> pa.Table:
    """Rows of books/producers plus one `<anomaly>_total` per anomaly: `<anomaly>`, plus `also_<anomaly>` if any.

    The total of a column that is missing is missing too, and null where one side is: both must be seen.
    """
    for anomaly in Anomaly:
        parts = [column(anomaly), *([also_column(anomaly)] if anomaly in SECONDARY else [])]
        if set(parts) <= set(rows.column_names):
            total = rows[parts[0]] if len(parts) == 1 else pc.add(rows[parts[0]], rows[parts[1]])
            rows = rows.append_column(total_column(anomaly), total)
    return rows


def _path(name: str) -> str:
    return next(path for path in TABLES if path.endswith(f"/{name}.parquet"))


def _sum(values: pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)


def _nothing(name: str) -> pa.Table:
    return pa.table({column_name: pa.array([], pa.null()) for column_name in TABLES[name]})


def _problems(name: str, table: pa.Table | None) -> list[tuple[str, str]]:
    if table is None:
        return [("table_missing", f"{name} is missing")]
    absent = [wanted for wanted in TABLES[name] if wanted not in table.column_names]
    nulls = [
        wanted
        for wanted in TABLES[name]
        if wanted not in absent and wanted not in NULLABLE and table[wanted].null_count
    ]
    found = [("column_missing", f"{name} has no column {wanted}") for wanted in absent]
    found += [("nulls", f"{name}: column {wanted} has {table[wanted].null_count} nulls") for wanted in nulls]
    if not table.num_rows and name not in MAY_BE_EMPTY:
        found.append(("table_empty", f"{name} is empty"))
    return found
