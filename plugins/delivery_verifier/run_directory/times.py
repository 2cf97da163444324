"""Converts times in tables to µs since the epoch. Other programs may write tables with other units of time."""

from __future__ import annotations

import pyarrow as pa


def as_us(moments: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a column of timestamps, of any unit and time zone, as int64 µs since the epoch.

    Finer units are truncated to µs. A column that has no timestamps is returned unchanged.
    """
    if not pa.types.is_timestamp(moments.type):
        return moments
    return moments.cast(pa.timestamp("us", tz=moments.type.tz), safe=False).cast(pa.int64())
