"""The trend over the runs: two bar charts, with a bar per run and the oldest run on the left.

One chart shows the lost records. The other shows the longest gap, which is the longest time without a report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from delivery_verifier.pages.overview.rows import StoredRunRow

RUNS_DRAWN = 60
"""The greatest number of runs in the trend. If more runs are listed, the trend shows the newest of them."""
WIDTH, HEIGHT, _LEAST = 600.0, 64.0, 2.5
"""Sizes in the units of the SVG drawing. WIDTH, HEIGHT: the size of a chart. _LEAST: the height of a bar for the
value 0."""


class Bar(Struct, frozen=True):
    """The bar of one run.

    `x` and `y`: the place of its upper left corner in the units of the SVG drawing. `y` grows downwards. `width` and
    `height`: its size in these units. `value`: the figure that the bar shows. If the figure is not known, `value` is
    None, and a cross is drawn instead of a bar.
    """

    row: StoredRunRow
    x: float
    width: float
    y: float
    height: float
    value: float | None


class Lane(Struct, frozen=True):
    """One bar chart. `unit`: a space and the unit of the values, or an empty text for counts. `top`: the highest value.

    `logarithmic`: whether the heights of the bars follow the logarithms of their values. Else the heights are in
    proportion to the values.
    """

    title: str
    unit: str
    top: float
    logarithmic: bool
    bars: list[Bar]


def lanes(listed: Sequence[StoredRunRow]) -> list[Lane]:
    """Two bar charts of the newest RUNS_DRAWN runs: lost records, and longest gaps without a report. `listed`: the rows
    of runs, newest first.

    Returns an empty list if the number of lost records is known for fewer than two of these runs, because one bar is no
    trend.
    """
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
    """The height of the bar for `value`. `top`: the highest value.

    The height is never 0, so that the run stays visible even if `value` is 0 or None.
    """
    if not value or top <= 0:
        return _LEAST
    share = math.log1p(value) / math.log1p(top) if logarithmic else value / top
    return max(2 * _LEAST, share * HEIGHT)
