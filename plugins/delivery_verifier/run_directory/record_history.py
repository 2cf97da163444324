"""Reads what became of one record behind the log: its effects, and what the members of its arm's application wrote in
their journals about it. In an audit, reads which claims records are of. All times are in µs since the epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from delivery_verifier.run_directory.cases import record_name
from delivery_verifier.run_directory.effect_tables import EFFECTS, JOURNAL
from delivery_verifier.run_directory.tables import CLAIMS
from delivery_verifier.run_directory.times import as_us

Row = dict[str, Any]


def effect_rows(run: Path, row: Mapping[str, Any]) -> list[Row]:
    """Returns the effects of the record in `row`, a row of anomalies/, in the order of time. Returns none if the run
    directory `run` has no effects. Raises OSError or pyarrow.ArrowException if they cannot be read."""
    names = ("arm", "producer", "session", "sequence", "attempt")
    rows = _read(run / EFFECTS.name, {name: row[name] for name in names})
    return sorted(rows, key=lambda effect: int(effect["order"]))


def journal_rows(run: Path, row: Mapping[str, Any]) -> list[Row]:
    """Returns the events in the journals that concern the record in `row`, a row of anomalies/, in the order of time.

    These are all hand-overs of the offsets of the record's copies. For each incarnation of a member, the result also
    has the first commit that covers the lowest of these offsets. Returns none if the run directory `run` has no
    journals. Raises OSError or pyarrow.ArrowException if they cannot be read.
    """
    offsets = row["offsets"] or []
    entries = _read(run / JOURNAL.name, {"arm": row["arm"], "partition": row["partition"]}) if offsets else []
    entries.sort(key=lambda entry: int(entry["at"]))
    chosen, incarnations = [], set[tuple[int, int]]()
    for entry in entries:
        incarnation = entry["member"], entry["incarnation"]
        if entry["what"] == "handed_over" and any(entry["first"] <= offset < entry["until"] for offset in offsets):
            chosen.append(entry)
        if entry["what"] == "committed" and incarnation not in incarnations and entry["until"] > min(offsets):
            incarnations.add(incarnation)
            chosen.append(entry)
    return chosen


def claims_of(run: Path, arm: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Maps the names of records (see `record_name`) to their claims, e.g. `order-17 (acks.jsonl, line 18)`. `rows`:
    rows of anomalies/ of one arm. A record without an identity has no claim.

    Returns no claims if the run directory `run` has no table of claims. Raises OSError or pyarrow.ArrowException if the
    table cannot be read.
    """
    folder, sequences = run / CLAIMS.name, {row["sequence"] for row in rows} - {None}
    if not folder.is_dir() or not sequences:
        return {}
    chosen = (ds.field("arm") == arm) & ds.field("sequence").isin(sorted(sequences))
    claims = ds.dataset(folder, format="parquet").to_table(filter=chosen).to_pylist()
    return {record_name(claim): _claim_text(claim) for claim in claims}


def _claim_text(claim: Row) -> str:
    text: str = claim["claim"]
    return text if claim["file"] is None else f"{text} ({claim['file']}, line {claim['line']})"


def _read(folder: Path, values: Mapping[str, Any]) -> list[Row]:
    """Returns the rows of the Parquet files in `folder` whose columns have the values of `values`. `values` maps the
    name of a column to its value. Returns no rows if a value is None, or if there is no such folder."""
    if not folder.is_dir() or any(value is None for value in values.values()):
        return []
    condition = None
    for name, value in values.items():
        equal = ds.field(name) == value
        condition = equal if condition is None else condition & equal
    table = ds.dataset(folder, format="parquet").to_table(filter=condition)
    rows: list[Row] = pa.table({column: as_us(table[column]) for column in table.column_names}).to_pylist()
    return rows
