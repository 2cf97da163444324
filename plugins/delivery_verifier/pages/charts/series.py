"""The series: the load's timeline as evenly spaced arrays, thinned to what a screen can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from delivery_verifier.pages.leadership import Clock

if TYPE_CHECKING:  # pandas takes long to import, and most callers need none of it
    import pandas as pd

POINTS = 1200
"""At most this many points are drawn per line. In longer runs, neighbouring intervals are joined."""


_Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Series:
    """One arm over time: `x` interval starts in s, rates in records/s, latencies in ms (NaN: none)."""

    arm: str
    interval_s: float
    x: _Floats
    reported: _Floats
    errors: _Floats
    p50: _Floats
    p99: _Floats


def series(frame: pd.DataFrame, clock: Clock, arms: list[str]) -> list[Series]:
    """One Series per arm, in the order of `arms`, all on one grid; intervals without a row count as zero."""
    steps = np.diff(np.unique(frame["at_us"].to_numpy()))
    interval_us = int(steps.min()) if len(steps) else 200_000
    count = int((frame["at_us"].max() - clock.start_us) // interval_us) + 1
    joined_intervals = -(-count // POINTS)
    return [
        _series_of(
            arm, frame[frame["arm"] == arm], clock, interval_us * joined_intervals, -(-count // joined_intervals)
        )
        for arm in arms
    ]


def _series_of(arm: str, rows: pd.DataFrame, clock: Clock, interval_us: int, count: int) -> Series:
    """Counts add up over joined intervals. Of latencies the largest counts, so that no peak is lost."""
    index = (rows["at_us"] - clock.start_us) // interval_us
    grid = np.arange(count)
    sums = rows.groupby(index)[["reported", "failed", "indeterminate"]].sum().reindex(grid, fill_value=0)
    peaks = rows.groupby(index)[["latency_ms_p50", "latency_ms_p99"]].max().reindex(grid)
    seconds = interval_us / 1e6
    return Series(
        arm=arm,
        interval_s=seconds,
        x=_floats(np.arange(count) * seconds),
        reported=_floats(sums["reported"] / seconds),
        errors=_floats((sums["failed"] + sums["indeterminate"]) / seconds),
        p50=_floats(peaks["latency_ms_p50"]),
        p99=_floats(peaks["latency_ms_p99"]),
    )


def _floats(values: object) -> _Floats:
    return np.asarray(values, dtype=np.float32)
