"""The trend over runs: records lost and the longest gap, as two small bar charts, oldest run left."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from delivery_verifier.pages.overview.rows import StoredRunRow

RUNS_DRAWN = 60
"""The trend shows at most this many runs, the newest."""
WIDTH, HEIGHT, _LEAST = 600.0, 64.0, 2.5


class Bar(Struct, frozen=True):
    """One run of the trend, in the units of the drawing. `value` None: not known; the bar is drawn as a cross."""

    row: StoredRunRow
    x: float
    width: float
    y: float
    height: float
    value: float | None


class Lane(Struct, frozen=True):
    """One row of bars. `unit`: of the values. `top`: the highest value. `logarithmic`: how heights scale."""

    title: str
    unit: str
    top: float
    logarithmic: bool
    bars: list[Bar]


def lanes(listed: Sequence[StoredRunRow]) -> list[Lane]:
    """Both lanes over the newest runs of `listed` (newest first). Empty if fewer than two runs have a figure."""
    shown = list(reversed(listed[:RUNS_DRAWN]))
    if sum(row.figures.lost is not None for row in shown) < 2:
        return []
    return [
        _lane("Records lost by the subject", "", shown, lambda row: row.figures.lost, logarithmic=True),
        _lane("Longest gap without a report", " s", shown, lambda row: row.figures.longest_gap_s, logarithmic=False),
    ]


def _lane(
    title: str,
    unit: str,
    shown: list[StoredRunRow],
    value: Callable[[StoredRunRow], float | int | None],
    *,
    logarithmic: bool,
) -> Lane:
    values = [value(row) for row in shown]
    top = max((float(figure) for figure in values if figure is not None), default=0.0)
    pitch = WIDTH / max(len(shown), 12)
    bars = []
    for index, (row, figure) in enumerate(zip(shown, values, strict=True)):
        height = _height(figure, top, logarithmic)
        bars.append(
            Bar(row, index * pitch, pitch * 0.8, HEIGHT - height, height, None if figure is None else float(figure))
        )
    return Lane(title, unit, top, logarithmic, bars)


def _height(value: float | int | None, top: float, logarithmic: bool) -> float:
    """The height of a bar. Zero has a low bar, so that a run that lost nothing is visible."""
    if not value or top <= 0:
        return _LEAST
    share = math.log1p(value) / math.log1p(top) if logarithmic else value / top
    return max(2 * _LEAST, share * HEIGHT)
