"""The counts: small tables of exact counts that the step reconcile wrote. This module checks the tables strictly.

A missing table, an empty table, or a null in a column that forbids nulls never means "nothing found". Each of these
problems is listed in `Tally.problems`, and forbids the verdicts HELD and VIOLATED. Only two tables may be empty:

* counts/exposure.parquet, if there was no injection.
* counts/cases.parquet. Its rows are also counted in counts/invariants.parquet, where the column `invariant` is
  `anomaly_rows`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delivery_verifier.model.anomalies import SECONDARY, Anomaly, also_column, column
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.run_directory import tables as declared
from delivery_verifier.run_directory.effect_tables import EFFECT_COUNTS, EFFECT_TALLY
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.run_directory.table import Table

COUNTS = tuple(count.name for count in declared.COUNTS)
"""The names of the columns of counts/producers.parquet that count attempts, records or cases."""

FOREIGN_WRITERS = "foreign_writers/"
"""The prefix of some keys in the counts of reconcile.json. The count `foreign_writers/<arm>` is the number of records
in the arm's topic that another client wrote."""
MISSING = "missing/"
"""The prefix of some keys in the counts of reconcile.json. The count `missing/<arm>/<partition>` is the number of
reported attempts that were not found, but are not proven LOST, because the partition has unreadable offsets. Counts of
0 are left out."""
SECOND_OPINION = "second_opinion"
"""The name of an invariant: a second program counts the same as Spark (`spark_jobs.checks.second_opinion`)."""
START_ZERO = "start_zero"
"""The name of an invariant: the log begins at offset 0. An audit does not have it."""
SECOND_OPINION_RECORDS = 10_000_000
"""The greatest number of records of a run whose counts have the invariant SECOND_OPINION."""

TALLY = (
    declared.PRODUCERS,
    declared.PARTITIONS,
    declared.INVARIANTS,
    declared.CASES,
    declared.EXPOSURE,
    declared.GAPS,
    declared.LOAD,
    EFFECT_TALLY,
)
"""The declarations of all tables that are needed to judge a run."""

TABLES: dict[str, tuple[str, ...]] = {table.file: table.column_names for table in TALLY}
"""Maps the file of each table in TALLY to the names of the table's columns."""


@dataclass(frozen=True)
class Tally:
    """The counts of one run.

    `tables` maps the file of each table in TALLY to the table. A missing table has no rows. `problems` lists what is
    wrong with the tables, as pairs (name of the doubt, sentence). A doubt is a reason to give no verdict.
    """

    tables: Mapping[str, pa.Table]
    problems: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def from_tables(cls, tables: Mapping[str, pa.Table], applied: bool = False) -> Tally:
        """Returns the counts with the tables `tables`. Each key of `tables` is the file of a table, as in TABLES.

        `applied`: whether an arm of the run has an application. If it is false, the table counts/effects may be
        missing. The tables must have exactly the declared columns. `problems` lists whatever is wrong with the tables.
        No error is raised.
        """
        needed = TALLY if applied else tuple(table for table in TALLY if table is not EFFECT_TALLY)
        problems = [problem for table in needed for problem in _problems(table, tables.get(table.file))]
        whole = {table.file: tables[table.file] if table.file in tables else _empty(table) for table in TALLY}
        return cls(whole, problems)

    @classmethod
    def read(cls, run_dir: Path, applied: bool = False) -> Tally:
        """Reads the counts of the run directory `run_dir`. If a file is missing, lists it in `problems` and raises no
        error. `applied`: whether an arm has an application.

        Raises pyarrow.ArrowInvalid if a file is not Parquet.
        """
        present = {file: run_dir / file for file in TABLES if (run_dir / file).exists()}
        return cls.from_tables({file: pq.read_table(path) for file, path in present.items()}, applied)

    def rows(self, name: str, **where: object) -> pa.Table:
        """Returns the rows of the table called `name`, e.g. `invariants`, that match `where`. `where` maps columns to
        values. If the table lacks a column of `where`, returns no rows. `problems` then names the missing column."""
        table = self.tables[_file(name)]
        for key, value in where.items():
            if key not in table.column_names:
                return table.slice(0, 0)
            table = table.filter(pc.equal(table[key], value))
        return table

    def values(self, name: str, column_name: str, **where: object) -> list[Any]:
        """Returns the values of one column of `rows(name, **where)`, without nulls. If the column is missing, the
        result is empty, and `problems` names the column."""
        rows = self.rows(name, **where)
        values = rows[column_name].to_pylist() if column_name in rows.column_names else []
        return [value for value in values if value is not None]

    def totals(self, arm: str) -> dict[str, int]:
        """Maps each column of COUNTS to the sum of this column over the arm's rows of counts/producers.

        A column that the table lacks is missing in the result, because 0 would say that nothing was found. If the arm
        has rows in counts/effects, the result also has the sums of their columns, under the keys `effects_<column>`.
        """
        effects = self.rows("effects", arm=arm)
        names = [count.name for count in EFFECT_COUNTS if effects.num_rows]
        of_effects = {f"effects_{name}": total for name, total in _sums(effects, names).items()}
        return _sums(self.rows("producers", arm=arm), COUNTS) | of_effects

    def cases_at(self, arm: str, anomaly: Anomaly, partition: int) -> int:
        """Returns how many attempts and records in `partition` of the arm show `anomaly`, even as cases of another
        anomaly.

        An attempt or record that shows several anomalies is a case of only the first of them, in order of precedence
        (see `Anomaly`). The first anomaly hides the others.
        """
        return sum(sum(self.values("producers", name, arm=arm, partition=partition)) for name in _columns(anomaly))


def count_foreign_writers(run: RunDirectory, arms: Collection[str]) -> dict[str, int]:
    """Maps each arm to the number of records that clients other than the verifier wrote to its topic. Raises
    IncompleteRun if reconcile.json lacks the count of an arm."""
    counts = run.manifest("reconcile").counts
    if missing := [arm for arm in arms if FOREIGN_WRITERS + arm not in counts]:
        raise IncompleteRun(f"reconcile.json does not say how many foreign writers wrote to the topic of {missing[0]}")
    return {arm: counts[FOREIGN_WRITERS + arm] for arm in arms}


def count_missing(run: RunDirectory) -> dict[tuple[str, int], int]:
    """Maps (arm, partition) to the number of missing attempts (see MISSING), from reconcile.json."""
    counts = run.manifest("reconcile").counts
    keys = {name: name.removeprefix(MISSING).rsplit("/", 1) for name in counts if name.startswith(MISSING)}
    return {(arm, int(partition)): counts[name] for name, (arm, partition) in keys.items()}


def has_second_opinion(offsets: Offsets) -> bool:
    """Returns whether the counts of a run have the invariant SECOND_OPINION. `offsets`: the snapshot, which says how
    many records the run has."""
    return offsets.records <= SECOND_OPINION_RECORDS


def total_column(anomaly: Anomaly) -> str:
    """Returns the name of the column that `with_totals` adds for `anomaly`, e.g. `lost_total`. Great Expectations
    judges this column.

    The column counts the cases of the anomaly, and the records that show the anomaly but are cases of an anomaly of
    higher precedence.
    """
    return f"{column(anomaly)}_total"


def with_totals(rows: pa.Table, late_convicts: bool = False) -> pa.Table:
    """Returns rows of counts/producers with one more column per anomaly, `<anomaly>_total`. The total is the sum of

    * the column `<anomaly>`
    * the column `also_<anomaly>`, if another anomaly can hide this one (see `Tally.cases_at`)
    * the column `resolved_late`, only for REORDERED. It counts INDETERMINATE attempts that came late. They are included
      only if `late_convicts` is true.

    If a column of the sum is missing, the column of the total is missing, too. If a value of the sum is null, the total
    is null. So Great Expectations never takes a missing value for 0.
    """
    for anomaly in Anomaly:
        parts = _columns(anomaly) + (["resolved_late"] if late_convicts and anomaly is Anomaly.REORDERED else [])
        if set(parts) <= set(rows.column_names):
            total = reduce(pc.add, (rows[part] for part in parts))
            rows = rows.append_column(total_column(anomaly), total)
    return rows


def _columns(anomaly: Anomaly) -> list[str]:
    """Returns the columns of counts/producers.parquet that count `anomaly`, also cases that another anomaly hides."""
    return [column(anomaly), also_column(anomaly)] if anomaly in SECONDARY else [column(anomaly)]


def _file(name: str) -> str:
    return next(file for file in TABLES if file.endswith(f"/{name}.parquet"))


def _sums(rows: pa.Table, columns: Collection[str]) -> dict[str, int]:
    present = set(rows.column_names)  # plain Python sums a few rows faster than Arrow
    values = {name: rows[name].to_pylist() for name in columns if name in present}
    return {name: int(sum(value for value in cells if value is not None)) for name, cells in values.items()}


def _empty(table: Table) -> pa.Table:
    return pa.table({name: pa.array([], pa.null()) for name in table.column_names})


def _problems(declaration: Table, table: pa.Table | None) -> list[tuple[str, str]]:
    """Returns what is wrong with a table: pairs of a doubt's name and a sentence. A doubt is a reason to give no
    verdict. `table` is None if its file is missing.
    """
    file = declaration.file
    if table is None:
        return [("table_missing", f"{file} is missing")]
    present = set(table.column_names)
    problems = [
        ("column_missing", f"{file} has no column {name}") for name in declaration.column_names if name not in present
    ]
    problems += [
        ("column_unplanned", f"{file} has a column {name}, which its format does not have")
        for name in sorted(present - set(declaration.column_names))
    ]
    problems += [
        ("nulls", f"{file}: column {item.name} has {table[item.name].null_count} nulls")
        for item in declaration.columns
        if item.name in present and not item.nullable and table[item.name].null_count
    ]
    if not table.num_rows and not declaration.may_be_empty:
        problems.append(("table_empty", f"{file} is empty"))
    return problems
