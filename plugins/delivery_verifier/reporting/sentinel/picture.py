"""The picture of a sentinel's history: three charts over time with a bar per run, the oldest run on the left. Where no
run was, there is a gap."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from delivery_verifier.model.sentinel import IN_TIME_MS, STATES, SentinelResult
from delivery_verifier.reporting.sentinel import figures
from delivery_verifier.reporting.words import latency

RUNS_DRAWN = 300
"""The greatest number of runs in the picture: a little more than a day of a run each five minutes."""
WIDTH, HEIGHT, _LEAST = 1000.0, 40.0, 2.5
"""Sizes in the units of the SVG drawing. WIDTH, HEIGHT: the size of a chart. _LEAST: the least height of a bar."""
_FEWEST, _NARROWEST = 30, 2.5
"""The bars are as narrow as if there were at least _FEWEST. _NARROWEST: the least width of a bar, in units of the SVG
drawing."""


class Bar(Struct, frozen=True):
    """The bar of one run. `x`, `y`, `width` and `height`: its place and size. `mark`: the height of a line in the bar,
    for a second figure, or None. `text`: the figure in words. `is_known`: whether there is a figure; a cross is drawn
    if there is none. All sizes are in the units of the SVG drawing, and `y` grows downwards."""

    result: SentinelResult
    x: float
    y: float
    width: float
    height: float
    text: str
    mark: float | None = None
    is_known: bool = True


class Lane(Struct, frozen=True):
    """One chart. `scale`: what the height of the chart means. `summary`: what the chart shows, in words."""

    title: str
    scale: str
    summary: str
    bars: list[Bar]


def lanes(results: Sequence[SentinelResult]) -> list[Lane]:
    """Returns the charts of the newest RUNS_DRAWN of `results`, which are newest first. Returns an empty list if there
    are fewer than two."""
    shown = list(reversed(results[:RUNS_DRAWN]))
    if len(shown) < 2:
        return []
    return [_states(shown), _late(shown), _latencies(shown)]


def _states(shown: list[SentinelResult]) -> Lane:
    counts = Counter(result.state for result in shown)
    summary = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    bars = [
        _bar(shown, index, HEIGHT / 4 if result.state == "SKIPPED" else HEIGHT, result.state)
        for index, result in enumerate(shown)
    ]
    return Lane("Result", "", summary, bars)


def _late(shown: list[SentinelResult]) -> Lane:
    title = f"Records not acknowledged within {IN_TIME_MS / 1e3:g} s"
    values = [figures.late(result) for result in shown]
    top = max((value for value in values if value is not None), default=0)
    bars = [
        _bar(shown, index, _LEAST + (HEIGHT - _LEAST) * _share(value, top), f"{value:,} {title[8:]}")
        if value is not None
        else _unknown(shown, index)
        for index, value in enumerate(values)
    ]
    scale = f"up to {top:,}, log scale" if top else "none in these runs"
    return Lane(title, scale, scale, bars)


def _latencies(shown: list[SentinelResult]) -> Lane:
    known = [value for result in shown if (value := figures.p99(result)) is not None]
    top, bars = max(known, default=0.0), list[Bar]()
    for index, result in enumerate(shown):
        half, most = figures.p50(result), figures.p99(result)
        if half is None or most is None:
            bars.append(_unknown(shown, index))
            continue
        height = max(_LEAST, HEIGHT * _share(most, top))
        said = f"p50 {latency(half)}, p99 {latency(most)}"
        bars.append(_bar(shown, index, height, said, HEIGHT * (1 - _share(half, top))))
    scale = f"p99 up to {latency(top)}, log scale; the line in a bar is p50" if known else "not known"
    return Lane("Time to the acknowledgement", scale, scale, bars)


def _share(value: float, top: float) -> float:
    return math.log1p(value) / math.log1p(top) if top > 0 else 0.0


def _unknown(shown: list[SentinelResult], index: int) -> Bar:
    bar = _bar(shown, index, _LEAST, "no figure")
    return Bar(bar.result, bar.x, HEIGHT - 8, bar.width, 6.0, bar.text, is_known=False)


def _width(shown: list[SentinelResult]) -> float:
    """Returns the width of all bars: four of five runs that follow each other do not overlap."""
    widest, lasted_us = 0.8 * WIDTH / max(len(shown), _FEWEST), shown[-1].at_us - shown[0].at_us
    gaps_us = sorted(newer.at_us - older.at_us for older, newer in pairwise(shown))
    close = 0.9 * WIDTH * gaps_us[len(gaps_us) // 5] / lasted_us if lasted_us else widest
    return min(widest, max(_NARROWEST, close))


def _bar(shown: list[SentinelResult], index: int, height: float, text: str, mark: float | None = None) -> Bar:
    result, began_us, lasted_us = shown[index], shown[0].at_us, shown[-1].at_us - shown[0].at_us
    width = _width(shown)
    x = (result.at_us - began_us) / lasted_us * (WIDTH - width) if lasted_us else 0.0
    return Bar(result, round(x, 2), round(HEIGHT - height, 2), round(width, 2), round(height, 2), text, mark)
