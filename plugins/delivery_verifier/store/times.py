"""Times in tables: µs since the epoch, whatever unit a table was written in."""

from __future__ import annotations

import pyarrow as pa


def as_us(moments: pa.ChunkedArray) -> pa.ChunkedArray:
    """Timestamps of any unit and zone as int64 µs since the epoch. A column of any other type is returned as it is."""
    if not pa.types.is_timestamp(moments.type):
        return moments
    return moments.cast(pa.timestamp("us", tz=moments.type.tz), safe=False).cast(pa.int64())
