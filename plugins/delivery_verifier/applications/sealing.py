"""Sealing effects: writes the effects of one incarnation, which were read back from their sink, to a file of the table
effects/."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from delivery_verifier.applications.sink import CRC_OK, FOREIGN, PARSED, IncarnationEffects
from delivery_verifier.run_directory.effect_tables import EFFECTS
from delivery_verifier.run_directory.table import arrow_schema


def effects_key(arm: str, member: int, incarnation: int) -> str:
    """Returns the name of the count in settle.json that says how many effects one incarnation must have."""
    return f"applied/{arm}/{member}/{incarnation}"


BLOCK = 1 << 20
"""The number of effects that are written at once."""


def seal_effects(effects: IncarnationEffects, arm: str, file: Path) -> None:
    """Writes the effects of one incarnation to `file`, as rows of the schema EFFECTS. `arm` is the name of the arm."""
    schema = arrow_schema(EFFECTS)
    nth = _nth(effects.rows["partition"], effects.rows["order"])
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for begin in range(0, len(nth), BLOCK):
            rows = effects.rows[begin : begin + BLOCK]
            columns: dict[str, object] = {
                "arm": pa.repeat(arm, len(rows)),
                "member": np.full(len(rows), -1 if effects.is_shared else effects.member, np.int32),
                "incarnation": np.full(len(rows), effects.incarnation, np.int32),
                "nth": nth[begin : begin + BLOCK],
                "applied_at": pa.array(rows["applied_at"], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
            }
            columns |= {name: rows["flags"] & flag != 0 for name, flag in _FLAGS.items()}
            columns |= {name: rows[name] for name in EFFECTS.column_names if name not in columns}
            arrays = [pa.array(columns[field.name], field.type) for field in schema]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


_FLAGS = {"parsed": PARSED, "crc_ok": CRC_OK, "foreign": FOREIGN}


def _nth(partitions: npt.NDArray[np.int32], order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns, for each effect, how many effects of its partition came before it in the order of the column `order`.

    The screen of effects relies on this: within a partition, `nth` and `order` agree (see
    `spark_jobs.effects.effect_screen`).
    """
    in_time = np.lexsort((order, partitions))
    places = partitions[in_time]
    nth = np.empty(len(order), np.int64)
    nth[in_time] = np.arange(len(order)) - np.searchsorted(places, places)
    return nth
