"""The part of a run's page that shows a load while the load is being sent: figures of each arm, and a timeline with the
faults."""

from __future__ import annotations

from msgspec import Struct

from delivery_verifier.model.live import LiveLoad

WIDTH, HEIGHT = 1000.0, 150.0
"""The size of the timeline in the units of the SVG drawing."""
SERIES = 8
"""The number of colours for arms. Further arms use the colours again."""


class Curve(Struct, frozen=True):
    """The reports of one arm over time. `points`: the points of the line, as SVG expects them. `colour`: the number of
    the line's colour, from 0 on. `reported` and `records`: see `LiveArm`."""

    name: str
    colour: int
    points: str
    reported: int
    records: int


class Moment(Struct, frozen=True):
    """A mark on the timeline. `x`: the place of the mark in the units of the SVG drawing. `at_s`: the time of the mark,
    in seconds since the first report. `text`: what the fault plan did at this time."""

    x: float
    at_s: float
    text: str


class LiveView(Struct, frozen=True):
    """What the template `live.html.j2` shows of a load. `top`: the reports per second at the upper edge of the
    timeline. `lasted_s`: the time at the right edge of the timeline, in seconds since the first report. `curves`: one
    line per arm. `moments`: the marks of the fault plan. `rate` and `fault`: see `LiveLoad`."""

    curves: list[Curve]
    moments: list[Moment]
    top: float
    lasted_s: float
    rate: float
    fault: str


def view(load: LiveLoad) -> LiveView:
    """Returns what the page shows of `load`. The last interval of the timeline is not drawn, because this interval is
    not over yet."""
    drawn = {arm.name: [count / load.interval_s for count in arm.counts[:-1]] for arm in load.arms}
    lasted_s = max((len(rates) for rates in drawn.values()), default=0) * load.interval_s
    marks = [(mark, (mark.at_us - load.began_us) / 1e6) for mark in load.marks if load.began_us]
    lasted_s = max([lasted_s, *(at_s for _, at_s in marks)])
    top = max((rate for rates in drawn.values() for rate in rates), default=0.0)
    curves = [
        Curve(
            arm.name,
            index % SERIES,
            _points(drawn[arm.name], load.interval_s, lasted_s, top),
            arm.reported,
            arm.records,
        )
        for index, arm in enumerate(load.arms)
    ]
    moments = [Moment(_x(at_s, lasted_s), at_s, mark.text) for mark, at_s in marks]
    return LiveView(curves, moments, top, lasted_s, load.rate, load.fault)


def _points(rates: list[float], interval_s: float, lasted_s: float, top: float) -> str:
    """Returns the points of a line, as SVG expects them: one point in the middle of each interval. `rates`: the value
    of each interval. `top`: the value at the upper edge."""
    return " ".join(
        f"{_x((index + 0.5) * interval_s, lasted_s):.1f},{HEIGHT * (1 - rate / top) if top else HEIGHT:.1f}"
        for index, rate in enumerate(rates)
    )


def _x(at_s: float, lasted_s: float) -> float:
    return round(min(1.0, max(0.0, at_s / lasted_s)) * WIDTH, 1) if lasted_s else 0.0
