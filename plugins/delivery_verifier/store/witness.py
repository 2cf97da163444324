"""Reads the witness of a run, together with the journals of the members. The witness is what the brokers themselves
recorded about the consumer groups."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from delivery_verifier.store.effect_tables import JOURNAL
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory
from delivery_verifier.store.table import Table
from delivery_verifier.store.witness_tables import (
    ASSIGNED_SINCE,
    COMMITS,
    GENERATIONS,
    HELD_BACK_SINCE,
    OUTPUTS,
    OUTPUTS_SINCE,
    POSITIONS,
    WITNESS_SINCE,
)

Row = dict[str, Any]
_UNASSIGNED = replace(GENERATIONS, columns=tuple(column for column in GENERATIONS.columns if column.name != "assigned"))
"""The table of the generations in runs before ASSIGNED_SINCE."""


class Witness(NamedTuple):
    """The rows of the tables witness/commits, witness/generations, witness/positions and journal. The rows of the three
    witness tables are in the order of the log."""

    commits: list[Row]
    generations: list[Row]
    positions: list[Row]
    journal: list[Row]


def read_witness(run: RunDirectory) -> Witness | None:
    """Returns the witness of a run in which an arm has an application. Call `run.require("settle")` before.

    Returns None if the run is of an older format, which has no witness. In runs before ASSIGNED_SINCE, nobody knows
    which member had which partitions. Raises IncompleteRun if a table is missing, and pyarrow.ArrowException if a table
    lacks a column.
    """
    version = run.manifest("settle").format_version
    if version < WITNESS_SINCE:
        return None
    commits, positions = (_rows(run.path, table) for table in (COMMITS, POSITIONS))
    generations = _rows(run.path, GENERATIONS if version >= ASSIGNED_SINCE else _UNASSIGNED)
    journal = [row for file in sorted(run.path.glob(JOURNAL.file)) for row in _of_file(file, JOURNAL)]
    return Witness(commits, generations, positions, journal)


def read_outputs(run: RunDirectory) -> list[Row] | None:
    """Returns the rows of the table witness/outputs of a run in which an arm has an application. Call
    `run.require("settle")` before.

    Returns None if the run is of an older format, which has no such table. Rows of format 6 and 7 have no field
    `held_back`. Raises as `read_witness` does.
    """
    version = run.manifest("settle").format_version
    if version < OUTPUTS_SINCE:
        return None
    without = set() if version >= HELD_BACK_SINCE else {"held_back"}
    return _rows(run.path, OUTPUTS, without)


def last_positions(run: RunDirectory) -> dict[tuple[str, int], int] | None:
    """Maps (arm, partition) to the offset that the arm's group has committed last (see `last_commits`).

    Returns None if the run has no witness.
    """
    file = run.path / COMMITS.file
    return last_commits(_of_file(file, COMMITS)) if file.is_file() else None


def last_commits(commits: list[Row]) -> dict[tuple[str, int], int]:
    """Maps (arm, partition) to the offset that the group has committed last. A partition without a committed offset is
    missing. `commits`: rows of witness/commits of the arms' own topics, in the order of the log.

    For a commit in a transaction, the time at which the commit was sent counts, and not the time at which the
    transaction ended (Kafka: `OffsetMetadataManager.replayEndTransactionMarker`).
    """
    last: dict[tuple[str, int], int | None] = {
        (row["arm"], row["partition"]): row["offset"] for row in commits if row["committed"]
    }
    return {key: offset for key, offset in last.items() if offset is not None}


def _rows(folder: Path, table: Table, without: Set[str] = frozenset()) -> list[Row]:
    file = folder / table.file
    if not file.is_file():
        raise IncompleteRun(f"{table.file} is missing: it is not known what the groups of the applications committed")
    return _of_file(file, table, without)


def _of_file(file: Path, table: Table, without: Set[str] = frozenset()) -> list[Row]:
    """Returns the rows of `file`, but for the columns `without`."""
    names = [name for name in table.column_names if name not in without]
    rows: list[Row] = pq.read_table(file, columns=names).to_pylist()
    return rows
