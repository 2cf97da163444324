"""The series: the load of each arm over time, as arrays with one value per interval of time.

The source of the series is the table timeline/load, which has counts and latencies per arm and interval of time. There
are at most POINTS intervals, because a screen cannot show more points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from delivery_verifier.reporting.leadership import Clock

if TYPE_CHECKING:  # pandas takes long to import, and most callers do not need pandas
    import pandas as pd

POINTS = 1200
"""The greatest number of points that are drawn per line. If the table timeline/load has more intervals, consecutive
intervals are joined."""


_Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Series:
    """The load of one arm over time. `x`: the start of each interval, in s. `interval_s`: the length of an interval.

    * `reported`: the reported records per second.
    * `errors`: the attempts that became FAILED or INDETERMINATE, per second.
    * `p50`: the median of the latency, in ms. `p99`: the 99th percentile of the latency, in ms. A value is NaN if the
      interval has no reports. If intervals were joined, each value is the greatest value of the joined intervals.
    """

    arm: str
    interval_s: float
    x: _Floats
    reported: _Floats
    errors: _Floats
    p50: _Floats
    p99: _Floats


def series(frame: pd.DataFrame, clock: Clock, arms: list[str]) -> list[Series]:
    """Returns one Series per arm, in the order of `arms`. All Series have the same intervals.

    `frame`: the table timeline/load. `clock`: the clock of the run. If the table has no row for an interval, nothing
    was sent or reported in the interval, and the rates of the interval are zero.
    """
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
    """Returns the Series of one arm. `rows`: the rows of the arm in timeline/load.

    `interval_us`: the length of an interval in µs. `count`: the number of intervals. If an interval joins several rows,
    their counts are added up, and the greatest latency is kept, so that no peak disappears.
    """
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
