"""Reads the group log of a run, together with the journals of the members. The group log is what the brokers themselves
recorded about the consumer groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from delivery_verifier.run_directory.effect_tables import JOURNAL
from delivery_verifier.run_directory.group_log_tables import COMMITS, GENERATIONS, OUTPUTS, POSITIONS
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.run_directory.table import Table

Row = dict[str, Any]


class GroupLog(NamedTuple):
    """The rows of the tables group_log/commits, group_log/generations, group_log/positions and journal. The rows of the
    three group log tables are in the order of the log."""

    commits: list[Row]
    generations: list[Row]
    positions: list[Row]
    journal: list[Row]


def read_group_log(run: RunDirectory) -> GroupLog:
    """Returns the group log of a run in which an arm has an application. Call `run.require("settle")` before.

    Raises IncompleteRun if a table is missing, and pyarrow.ArrowException if a table lacks a column.
    """
    commits, generations, positions = (_rows(run.path, table) for table in (COMMITS, GENERATIONS, POSITIONS))
    journal = [row for file in sorted(run.path.glob(JOURNAL.file)) for row in _of_file(file, JOURNAL)]
    return GroupLog(commits, generations, positions, journal)


def read_outputs(run: RunDirectory) -> list[Row]:
    """Returns the rows of the table group_log/outputs of a run in which an arm has an application. Call
    `run.require("settle")` before. Raises as `read_group_log` does.
    """
    return _rows(run.path, OUTPUTS)


def last_positions(run: RunDirectory) -> dict[tuple[str, int], int] | None:
    """Maps (arm, partition) to the offset that the arm's group has committed last (see `last_commits`).

    Returns None if the run has no group log.
    """
    file = run.path / COMMITS.file
    return last_commits(_of_file(file, COMMITS)) if file.is_file() else None


def last_commits(commits: list[Row]) -> dict[tuple[str, int], int]:
    """Maps (arm, partition) to the offset that the group has committed last. A partition without a committed offset is
    missing. `commits`: rows of group_log/commits of the arms' own topics, in the order of the log.

    For a commit in a transaction, the time at which the commit was sent counts, and not the time at which the
    transaction ended (Kafka: `OffsetMetadataManager.replayEndTransactionMarker`).
    """
    last: dict[tuple[str, int], int | None] = {
        (row["arm"], row["partition"]): row["offset"] for row in commits if row["committed"]
    }
    return {key: offset for key, offset in last.items() if offset is not None}


def _rows(folder: Path, table: Table) -> list[Row]:
    file = folder / table.file
    if not file.is_file():
        raise IncompleteRun(f"{table.file} is missing: it is not known what the groups of the applications committed")
    return _of_file(file, table)


def _of_file(file: Path, table: Table) -> list[Row]:
    rows: list[Row] = pq.read_table(file, columns=list(table.column_names)).to_pylist()
    return rows
