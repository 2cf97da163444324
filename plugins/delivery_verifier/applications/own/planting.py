"""Writes the effects of the canary, in which the verifier plants errors. Writes them as a user application (a program
of the user's own) would: to lines or files, to an output topic, or to a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from delivery_verifier.applications.own.files import WORK, Files
from delivery_verifier.applications.own.readers import EffectReader
from delivery_verifier.applications.own.topic import Topic
from delivery_verifier.applications.sink import CRC_OK, PARSED
from delivery_verifier.model import record
from delivery_verifier.model.sink_location import IN_FOLDER, OF_COLUMNS, STDOUT, SinkLocation


def in_folder(location: SinkLocation) -> SinkLocation:
    """Returns `location`, changed to a place of the verifier: files move into the folder of the member, and a table
    loses its schema. So the verifier plants nothing in the files and tables of the user."""
    if location.kind == "table":
        return replace(
            location, table=location.table.rpartition(".")[2]
        )  # without the schema, which SQLite does not have
    return replace(location, where=IN_FOLDER + location.where[1:]) if location.where.startswith("/") else location


def plant_values(reader: EffectReader, location: SinkLocation, folder: Path, values: Sequence[bytes]) -> None:
    """Writes the records `values` to the place `location`, as effects of incarnation 0. `location` comes from
    `in_folder`. `reader` is the reader of this place. `folder` is the folder of the member.

    Also writes some lines without the text `location.containing`. These lines are no effects.
    """
    contents = [value[: record.HEADER_BYTES] for value in values] if location.identity == "header" else values
    if isinstance(reader, Files):
        _plant_in_file(location, folder, contents)
    elif isinstance(reader, Topic):
        reader.plant(contents)
    else:
        from delivery_verifier.applications.own.table import Table

        if isinstance(reader, Table):
            reader.plant(contents)


def _plant_in_file(location: SinkLocation, folder: Path, contents: Sequence[bytes]) -> None:
    name = location.where.removeprefix(IN_FOLDER).replace("**/", "").replace("*", "0")
    file = folder / "0" / STDOUT if location.where == STDOUT else folder / WORK / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if location.kind == "lines":
        text, plain = location.containing.encode(), [b'{"value":"%s"}\n' % value for value in contents]
        decoys = [line for line in plain[:3] if text not in line]
        file.write_bytes(b"".join([*decoys, *[b"%s %s" % (text, line) if text else line for line in plain]]))
    elif location.identity == "columns":
        headers = [record.parse(value) for value in contents]
        pq.write_table(
            pa.table({name: [getattr(header, name, None) for header in headers] for name in OF_COLUMNS}), file
        )
    else:
        pq.write_table(pa.table({location.column: contents}), file)


def as_kept(rows: npt.NDArray[np.void], location: SinkLocation) -> npt.NDArray[np.void]:
    """Returns effects as they look after they were written to `location` and read back. `rows` has the form EFFECT (the
    NumPy type of an effect).

    * If `location` keeps only the headers of records, an effect that names a record gets the flag CRC_OK, because there
      is no checksum to check.
    * If `location` keeps columns, an effect that names a record gets this flag, too, and keeps only three numbers of
      the record. An effect that names no record keeps neither numbers nor flags.
    """
    rows = rows.copy()
    is_parsed = rows["flags"] & PARSED != 0
    if location.identity == "header":
        rows["flags"][is_parsed] |= CRC_OK
    if location.identity == "columns":
        for name in OF_COLUMNS:
            rows[name] = np.where(is_parsed, rows[name], 0)
        rows["partition_sequence"] = rows["session"] = 0
        rows["flags"] = is_parsed * (PARSED | CRC_OK)
    return rows
