"""What is known of a record behind the log if a program of the user's own applies it: what its group has committed, and
when its members were killed. The program itself tells nothing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from delivery_verifier.judgement.causes import cause_of
from delivery_verifier.judgement.causes.group import Commit, Group
from delivery_verifier.model.verdict import Cause
from delivery_verifier.pages.material import Material
from delivery_verifier.store import tables
from delivery_verifier.store.times import as_us
from delivery_verifier.store.witness_tables import COMMITS, GENERATIONS

Row = dict[str, Any]


def group_of(material: Material, arm: str) -> Group | None:
    """Returns the history of the arm's group, or None if the run has no witness that can be read."""
    scenario = material.scenario
    if scenario is None or arm not in scenario.arm_names:
        return None
    parts = [_rows(material, table.file, arm) for table in (COMMITS, GENERATIONS)]
    commits, generations = parts
    if commits is None or generations is None:
        return None
    stopped_us = material.offsets.taken_at_us if material.offsets else None
    return Group.from_rows(scenario.arm(arm).topic_name, commits, generations, material.injections, stopped_us)


def _rows(material: Material, file: str, arm: str) -> list[Row] | None:
    path = material.path / file
    if not path.is_file():
        return None

    def read() -> list[Row]:
        table = ds.dataset(path, format="parquet").to_table(filter=ds.field("arm") == arm)
        rows: list[Row] = pa.table({name: as_us(table[name]) for name in table.column_names}).to_pylist()
        return rows

    return material.take(file, read)


def cover(group: Group, row: Row) -> Commit | None:
    """Returns the first commit after which no member is given the record of the case `row` any more; None if there is
    none."""
    if row["partition"] is None or not row["offsets"]:
        return None
    return group.first_beyond(row["partition"], max(row["offsets"]))


def cause(material: Material, group: Group, row: Row) -> Cause | None:
    """Returns what the program did to the record of the case `row`; None if nothing in hand shows it."""
    anomalies = material.table(tables.ANOMALIES)
    if anomalies is None or material.scenario is None:
        return None
    same = pc.and_(pc.equal(anomalies["arm"], row["arm"]), pc.equal(anomalies["kind"], row["kind"]))
    rows = anomalies.filter(same).to_pylist()
    of_transactions = bool(material.scenario.arm(row["arm"]).transactional_id)
    return cause_of(group, row, rows, of_transactions=of_transactions)
