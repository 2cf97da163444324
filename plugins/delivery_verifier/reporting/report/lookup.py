"""The lookup: finds out which record stands at one offset of a partition.

The lookup reads log/, the folder of the run directory with a copy of the topics. The parameter `row` of the functions
is the row of a case in anomalies/. This row identifies the record, and has its acknowledged offset and the offsets of
its copies.
"""

from __future__ import annotations

from typing import Any

import pyarrow.dataset as ds

from delivery_verifier.model.record import MARKER_PRODUCER
from delivery_verifier.model.snapshot import PartitionSnapshot
from delivery_verifier.reporting.leadership import Clock
from delivery_verifier.reporting.material import Material
from delivery_verifier.reporting.words import number

COPIES_LOOKED_UP = 4
"""The greatest number of copies of a record that are looked up. Later copies are left out."""
_KEY = ("producer", "session", "sequence", "attempt")
"""The columns that identify an attempt within its arm."""


def snapshot_of(material: Material, row: dict[str, Any]) -> PartitionSnapshot | None:
    """Returns the snapshot (start and end offset, leader) of the partition of a case. Returns None if the snapshot is
    not known.

    `row`: the row of the case in anomalies/.
    """
    partitions = material.offsets.partitions if material.offsets else []
    return next(
        (
            partition
            for partition in partitions
            if partition.arm == row["arm"] and partition.partition == row["partition"]
        ),
        None,
    )


def offsets_to_look_up(row: dict[str, Any]) -> list[int]:
    """Returns the offsets to look up for a case, each offset once. `row`: the row of the case in anomalies/.

    If there is an acknowledged offset, it comes first. If the log has several copies of the record, the offsets of the
    first COPIES_LOOKED_UP copies follow, unless they are in another partition than the one to which it was sent.
    """
    acked = [] if row["acked_offset"] is None else [row["acked_offset"]]
    copies = row["offsets"] if row["offsets"] and len(row["offsets"]) > 1 else []
    partitions = row.get("partitions") or [row["partition"]] * len(copies)
    here = [offset for offset, partition in zip(copies, partitions, strict=False) if partition == row["partition"]]
    return list(dict.fromkeys([*acked, *here[:COPIES_LOOKED_UP]]))


def offset_content(
    material: Material, clock: Clock, row: dict[str, Any], offset: int, snapshot: PartitionSnapshot | None
) -> str:
    """Returns the content of log/ at `offset`, as the end of a sentence that begins with `At offset N`.

    `row`: the row of a case in anomalies/. The text says whether the record of this case stands at the offset.
    `snapshot`: the snapshot of the partition, which gives the end of the log, or None if it is not known.
    """
    if snapshot is not None and offset >= snapshot.end:
        return "there is nothing: the log ends before it."
    rows = material.take("log", lambda: _look_up(material, row, offset))
    if rows is None:
        return "the report could not look: log/ cannot be read."
    return _description(clock, row, rows[0]) if rows else "the log that was read holds no record."


def _description(clock: Clock, row: dict[str, Any], logged: dict[str, Any]) -> str:
    """Returns in words what stands in `logged`, a row of log/.

    There are four possibilities: the record of the case in `row`, another record of the load, a marker (a record that
    the verifier writes after the load), or no record of the verifier.
    """
    if not logged["parsed"]:
        return "stands something that is no record of this tool."
    if logged["producer"] == MARKER_PRODUCER:
        return "stands a marker of the snapshot."
    if all(logged[name] == row[name] for name in _KEY):
        return "stands this record."
    timestamp = logged.get("timestamp")
    since = "" if timestamp is None else f", made at {clock.text(int(timestamp.timestamp() * 1e6))}"
    other = f"another record: number {number(logged['sequence'])} of producer {logged['producer']}"
    return f"now stands {other}, session {logged['session']}{since}."


def _look_up(material: Material, row: dict[str, Any], offset: int) -> list[dict[str, Any]]:
    """Returns a list with the row of log/ at `offset` in the partition of a case. The list is empty if there is no such
    row.

    Raises FileNotFoundError if there is no log/.
    """
    path = material.path / "log"
    if not path.is_dir():
        raise FileNotFoundError(path)
    condition = (
        (ds.field("offset") == offset)
        & (ds.field("partition") == row["partition"])
        & (ds.field("arm") == row["arm"])
        & (ds.field("view") == "raw")
    )
    columns = ["parsed", "timestamp", *_KEY]
    rows: list[dict[str, Any]] = (
        ds.dataset(path, format="parquet").head(1, columns=columns, filter=condition).to_pylist()
    )
    return rows
