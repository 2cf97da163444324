"""The trend over the runs: two bar charts per Kafka version, with a bar per run and the oldest run on the left.

One chart shows the lost records. The other shows the longest gap, which is the longest time without a report. The
charts of all versions have the same scale.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from delivery_verifier.reporting.overview.rows import StoredRunRow, kafka_versions

RUNS_DRAWN = 60
"""The greatest number of runs in the trend. If more runs are listed, the trend shows the newest of them."""
WIDTH, HEIGHT, _LEAST = 600.0, 40.0, 2.5
"""Sizes in the units of the SVG drawing. WIDTH, HEIGHT: the size of a chart. _LEAST: the height of a bar for the
value 0."""


class Bar(Struct, frozen=True):
    """The bar of one run.

    `x` and `y`: the place of the bar's upper left corner in the units of the SVG drawing. `y` grows downwards. `width`
    and `height`: the size of the bar in these units. `value`: the figure that the bar shows. If the figure is not
    known, `value` is None, and a cross is drawn instead of a bar.
    """

    row: StoredRunRow
    x: float
    width: float
    y: float
    height: float
    value: float | None


class Lane(Struct, frozen=True):
    """One bar chart. `unit`: a space and the unit of the values, or an empty text for counts. `top`: the highest value.

    `logarithmic`: whether the heights of the bars follow the logarithms of the values. If it is false, the heights are
    in proportion to the values.
    """

    title: str
    unit: str
    top: float
    logarithmic: bool
    bars: list[Bar]


class VersionTrend(Struct, frozen=True):
    """The trend of the runs with one Kafka version.

    `kafka_version` is empty for runs that do not name their version. `verdicts`: for each verdict, the number of runs
    with this verdict. The most frequent verdict comes first.
    """

    kafka_version: str
    verdicts: list[tuple[str, int]]
    lanes: list[Lane]


class _Measure(Struct, frozen=True):
    """A figure of runs that a chart shows. `logarithmic` and `unit` are as in Lane."""

    title: str
    unit: str
    logarithmic: bool
    value: Callable[[StoredRunRow], float | int | None]


_MEASURES = (
    _Measure("Records lost by the subject", "", True, lambda row: row.figures.lost),
    _Measure("Longest gap without a report", " s", False, lambda row: row.figures.longest_gap_s),
)


def trends(listed: Sequence[StoredRunRow]) -> list[VersionTrend]:
    """Returns one trend per Kafka version, the newest version first. `listed`: the rows of runs, newest run first.

    All trends together show the newest RUNS_DRAWN runs. Returns an empty list if the number of lost records is known
    for fewer than two of these runs, because a single bar is no trend.
    """
    shown = list(reversed([row for row in listed if row.kafka_version or row.scenario][:RUNS_DRAWN]))
    if sum(row.figures.lost is not None for row in shown) < 2:
        return []
    versions = [*kafka_versions(shown), *([""] if any(not row.kafka_version for row in shown) else [])]
    of_versions = [[row for row in shown if row.kafka_version == version] for version in versions]
    most = max(len(rows) for rows in of_versions)
    tops = [
        max((figure for row in shown if (figure := measure.value(row)) is not None), default=0.0)
        for measure in _MEASURES
    ]
    return [
        VersionTrend(
            version,
            Counter(row.verdict for row in rows).most_common(),
            [_lane(measure, rows, float(top), most) for measure, top in zip(_MEASURES, tops, strict=True)],
        )
        for version, rows in zip(versions, of_versions, strict=True)
    ]


def _lane(measure: _Measure, shown: list[StoredRunRow], top: float, most: int) -> Lane:
    """Returns the chart of `measure` for the runs `shown`, which have one Kafka version.

    `top`: the highest value in the charts of all versions. `most`: the greatest number of runs with one version. The
    width of a bar depends on `most`.
    """
    pitch = WIDTH / max(most, 12)
    bars = []
    for index, row in enumerate(shown):
        figure = measure.value(row)
        height = _height(figure, top, measure.logarithmic)
        bars.append(
            Bar(row, index * pitch, pitch * 0.8, HEIGHT - height, height, None if figure is None else float(figure))
        )
    return Lane(measure.title, measure.unit, top, measure.logarithmic, bars)


def _height(value: float | int | None, top: float, logarithmic: bool) -> float:
    """Returns the height of the bar for `value`. `top`: the highest value.

    The height is never 0, so that the run stays visible even if `value` is 0 or None.
    """
    if not value or top <= 0:
        return _LEAST
    share = math.log1p(value) / math.log1p(top) if logarithmic else value / top
    return max(2 * _LEAST, share * HEIGHT)
