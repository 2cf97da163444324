"""Times in tables, as µs since the epoch. Tables may be written with other units."""

from __future__ import annotations

import pyarrow as pa


def as_us(moments: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns timestamps of any unit and zone as int64 µs since the epoch. Returns other columns unchanged."""
    if not pa.types.is_timestamp(moments.type):
        return moments
    return moments.cast(pa.timestamp("us", tz=moments.type.tz), safe=False).cast(pa.int64())
