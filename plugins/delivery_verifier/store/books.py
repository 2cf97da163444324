"""The books: small tables of exact counts that the step reconcile wrote. This module reads the tables strictly.

A missing table, an empty table, or a null in a column that forbids nulls never means "nothing found". It becomes a
`problem`. Each problem is a doubt that forbids the verdicts HELD and VIOLATED. Only two tables may be empty.
books/exposure.parquet is empty if there was no injection. books/cases.parquet may be empty, because books/laws.parquet
has the same counts in its rows for the law `anomaly_rows`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delivery_verifier.model.anomalies import SECONDARY, Anomaly, also_column, column
from delivery_verifier.store import tables as declared
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.store.table import Table

COUNTS = tuple(count.name for count in declared.COUNTS)
"""The columns of books/producers.parquet that count attempts, records or cases."""

STRANGERS = "strangers/"
"""The prefix of counts of reconcile.json: `strangers/<arm>` is the number of records in the arm's topic that another
client wrote."""
STRANGERS_SINCE = 2
"""The first version of the format with counts of STRANGERS. Before, such a record counted as a corrupted record."""

BOOKS = (
    declared.PRODUCERS,
    declared.PARTITIONS,
    declared.LAWS,
    declared.CASES,
    declared.EXPOSURE,
    declared.GAPS,
    declared.LOAD,
)
"""The declarations of the tables that a judgement needs."""

TABLES: dict[str, tuple[str, ...]] = {table.file: table.column_names for table in BOOKS}
"""The names of the columns of each table in BOOKS. The keys are the files of the tables."""


@dataclass(frozen=True)
class Books:
    """The books of one run.

    `tables` maps the file of each table in BOOKS to the table. A missing table has no rows. `problems` lists what is
    wrong with the tables, as pairs (name of the doubt, sentence). A doubt is a reason to give no verdict.
    """

    tables: Mapping[str, pa.Table]
    problems: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def from_tables(cls, tables: Mapping[str, pa.Table]) -> Books:
        """Returns the books that consist of `tables`, which maps the file of a table (a key of TABLES) to the table.

        Whatever is wrong with the tables becomes a problem. No error is raised.
        """
        problems = [problem for table in BOOKS for problem in _problems(table, tables.get(table.file))]
        return cls({table.file: tables.get(table.file, _empty(table)) for table in BOOKS}, problems)

    @classmethod
    def read(cls, run_dir: Path) -> Books:
        """Reads the books of the run directory `run_dir`. A missing file becomes a problem.

        Raises pyarrow.ArrowInvalid if a file is not Parquet.
        """
        present = {file: run_dir / file for file in TABLES if (run_dir / file).exists()}
        return cls.from_tables({file: pq.read_table(path) for file, path in present.items()})

    def rows(self, name: str, **where: object) -> pa.Table:
        """The rows of the table called `name` (`producers`, `laws`, ...) whose columns equal the values of `where`.

        If the table lacks one of these columns, no rows are returned. `problems` names the missing column.
        """
        table = self.tables[_file(name)]
        for key, value in where.items():
            if key not in table.column_names:
                return table.slice(0, 0)
            table = table.filter(pc.equal(table[key], value))
        return table

    def values(self, name: str, column_name: str, **where: object) -> list[Any]:
        """The values of one column of `rows(name, **where)`, without nulls.

        Empty if the column is missing. `problems` then names the column.
        """
        rows = self.rows(name, **where)
        values = rows[column_name].to_pylist() if column_name in rows.column_names else []
        return [value for value in values if value is not None]

    def totals(self, arm: str) -> dict[str, int]:
        """The sum of each column of COUNTS over the arm's rows of books/producers, by column.

        A column that the table lacks has no entry, because 0 would say that nothing was found.
        """
        rows = self.rows("producers", arm=arm)
        return {name: _sum(rows[name]) for name in COUNTS if name in rows.column_names}

    def cases_at(self, arm: str, anomaly: Anomaly, partition: int) -> int:
        """The number of cases of `anomaly` in `partition` of the arm, including hidden cases.

        A record can show several kinds of anomaly. It is a case of the first of these kinds in order of precedence (see
        `Anomaly`). This first kind hides the others.
        """
        return sum(sum(self.values("producers", name, arm=arm, partition=partition)) for name in _columns(anomaly))


def count_strangers(run: RunDirectory, arms: Collection[str]) -> dict[str, int]:
    """Returns by arm how many records in its topic another client wrote. Empty if the books are of format version 1.

    Raises IncompleteRun if reconcile.json of a later version lacks the count of an arm.
    """
    manifest = run.manifest("reconcile")
    if manifest.format_version < STRANGERS_SINCE:
        return {}
    if missing := [arm for arm in arms if STRANGERS + arm not in manifest.counts]:
        raise IncompleteRun(f"reconcile.json does not say how many strangers wrote to the topic of {missing[0]}")
    return {arm: manifest.counts[STRANGERS + arm] for arm in arms}


def total_column(anomaly: Anomaly) -> str:
    """The column that `with_totals` adds for `anomaly`, e.g. `lost_total`. Great Expectations judges this column.

    The column counts the cases of the anomaly. It also counts the records that show the anomaly, but are cases of a
    kind of higher precedence.
    """
    return f"{column(anomaly)}_total"


def with_totals(rows: pa.Table) -> pa.Table:
    """Returns rows of books/producers with one more column per anomaly, `<anomaly>_total`.

    The total is `<anomaly>`, plus `also_<anomaly>` if another kind can hide the anomaly (see `Books.cases_at`). If one
    of these columns is missing, the total is missing. If one of the values is null, the total is null. So a missing
    column and a null cannot pass for 0 when Great Expectations evaluates the totals.
    """
    for anomaly in Anomaly:
        parts = _columns(anomaly)
        if set(parts) <= set(rows.column_names):
            total = rows[parts[0]] if len(parts) == 1 else pc.add(rows[parts[0]], rows[parts[1]])
            rows = rows.append_column(total_column(anomaly), total)
    return rows


def _columns(anomaly: Anomaly) -> list[str]:
    """The columns of books/producers.parquet that count an anomaly."""
    return [column(anomaly), also_column(anomaly)] if anomaly in SECONDARY else [column(anomaly)]


def _file(name: str) -> str:
    """The file of the table called `name`, e.g. `laws`."""
    return next(file for file in TABLES if file.endswith(f"/{name}.parquet"))


def _sum(values: pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)


def _empty(table: Table) -> pa.Table:
    """A table without rows, with the columns of the declaration `table`."""
    return pa.table({name: pa.array([], pa.null()) for name in table.column_names})


def _problems(declaration: Table, table: pa.Table | None) -> list[tuple[str, str]]:
    """What is wrong with a table, as (name of the doubt, sentence). `table` is None if its file is missing."""
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
