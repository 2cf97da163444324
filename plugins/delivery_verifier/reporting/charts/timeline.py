"""The timeline: plots of load, errors, latency, faults and leadership over one zoomable axis in seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, DataRange1d, NumeralTickFormatter, Range1d

from delivery_verifier.reporting.charts import bands
from delivery_verifier.reporting.charts.figures import Figure, arm_colour, blank, column, hover, safe, seconds_axis
from delivery_verifier.reporting.charts.lane_charts import lane_plots
from delivery_verifier.reporting.charts.series import Series, series
from delivery_verifier.reporting.leadership import Clock
from delivery_verifier.reporting.material import Material, arms_drawn


def timeline(material: Material, clock: Clock, target: str) -> dict[str, Any] | None:
    """Returns the timeline as a JSON item of Bokeh: the plots of the faults, the load and the leaders. The item belongs
    into the HTML element with the id `target`.

    `clock`: the clock of the run. Returns None if the table timeline/load is missing or empty, because then there is no
    load to draw.
    """
    lines = _lines(material, clock)
    if not lines:
        return None
    end_s = _end_s(material, clock, lines)
    x_range = seconds_axis(end_s)
    reported = _rates("reported", x_range, lines, 112)
    bands.mark_leaders(reported, material, clock)
    plots = [bands.strip(material, clock, x_range, end_s), reported, *lane_plots(material, clock, x_range, end_s)]
    return _column(plots, material, clock, end_s, target)


def rates(material: Material, clock: Clock, target: str) -> dict[str, Any] | None:
    """Returns two plots as a JSON item of Bokeh: errors over time, and latency over time. Parameters and result are
    like those of `timeline`."""
    lines = _lines(material, clock)
    if not lines:
        return None
    end_s = _end_s(material, clock, lines)
    x_range = seconds_axis(end_s)
    plots = [_rates("errors", x_range, lines, 110), _latency(x_range, lines)]
    for plot in plots:
        bands.mark_leaders(plot, material, clock)
    return _column(plots, material, clock, end_s, target)


def _lines(material: Material, clock: Clock) -> list[Series]:
    frame = material.frame("timeline/load")
    return [] if frame is None or frame.empty else series(frame, clock, arms_drawn(material))


def _column(plots: list[Figure], material: Material, clock: Clock, end_s: float, target: str) -> dict[str, Any]:
    for plot in plots:
        bands.shade(plot, material, clock, end_s)
    return column(plots, target, "seconds since the load's start")


def _end_s(material: Material, clock: Clock, lines: list[Series]) -> float:
    """Returns the end of the time axis in s: the end of the load or the last recovery, whichever is later, but at least
    1 s."""
    ends = [float(line.x[-1]) + line.interval_s for line in lines]
    ends += [
        clock.seconds(injection.recovered_at_us)
        for injection in material.injections
        if injection.recovered_at_us is not None
    ]
    return max([1.0, *ends])


def _rates(quantity: str, x_range: Range1d, lines: list[Series], height: int) -> Figure:
    """Returns the plot of a rate (a count per second) over time, with one step line per arm.

    `quantity`: what is counted, which is `reported` (reported records) or `errors` (attempts that became FAILED or
    INDETERMINATE). `height`: the height of the plot in pixels.
    """
    plot = blank(x_range, f"{quantity} / s", height)
    values = {f"y{index}": getattr(line, quantity) for index, line in enumerate(lines)}
    top = max([1.0, *(float(rates.max()) for rates in values.values() if len(rates))])
    source = ColumnDataSource(_over_time(lines, top / 2) | values)
    drawn = [
        plot.step("x", f"y{index}", source=source, mode="after", line_width=2, color=arm_colour(index))
        for index in range(len(lines))
    ]
    _hover_all(plot, source, lines, [f"@y{index}{{0,0}} / s" for index in range(len(lines))])
    plot.y_range = DataRange1d(start=0, min_interval=1.25, only_visible=True, renderers=drawn)
    plot.yaxis.ticker.desired_num_ticks = 4 if height > 120 else 3
    return plot


def _latency(x_range: Range1d, lines: list[Series]) -> Figure:
    """Returns the plot of the latencies. Each arm has a dotted line of medians, and a solid line of 99th
    percentiles."""
    plot = blank(x_range, "latency, ms (log)", 170, y_axis_type="log")
    values: dict[str, Any] = {}
    for index, line in enumerate(lines):
        values |= {f"p50_{index}": line.p50, f"p99_{index}": line.p99, f"tooltip{index}": _tooltips(line)}
    known = [float(ms) for line in lines for ms in line.p99 if ms > 0]
    source = ColumnDataSource(_over_time(lines, float(np.median(known)) if known else 1.0) | values)
    for index in range(len(lines)):
        style = {"source": source, "color": arm_colour(index)}
        plot.line("middle", f"p50_{index}", **style, line_width=1.6, line_dash=[2, 3])
        plot.line("middle", f"p99_{index}", **style, line_width=2)
        plot.scatter("middle", f"p99_{index}", **style, size=3)
    _hover_all(plot, source, lines, [f"@tooltip{index}" for index in range(len(lines))])
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0.[00]")
    return plot


def _tooltips(line: Series) -> list[str]:
    """Returns the texts of the tooltips of one arm, one per interval. A text gives the median and the 99th percentile
    in ms."""
    return [
        "none reported" if np.isnan(p99) else f"p50 {p50:,.1f} ms, p99 {p99:,.1f} ms"
        for p50, p99 in zip(line.p50, line.p99, strict=True)
    ]


def _over_time(lines: list[Series], height: float) -> dict[str, Any]:
    """Returns the columns of plot data that all arms share, because all series have the same intervals.

    `height`: the value on the y axis at which the tooltips appear.
    """
    x, interval_s = lines[0].x, lines[0].interval_s
    return {
        "x": x,
        "middle": x + interval_s / 2,
        "until": x + interval_s,
        "anchor": np.full(len(x), height, np.float32),
    }


def _hover_all(plot: Figure, source: ColumnDataSource, lines: list[Series], values: list[str]) -> None:
    """Adds a tooltip to `plot`. The tooltip shows the values of all arms in the interval under the pointer.

    `source`: the data of the plot. `values`: for each line, the text in the tooltip. The text names a column of
    `source` in Bokeh's syntax, e.g. `@column`.
    """
    anchor = plot.line("middle", "anchor", source=source, line_alpha=0)
    tooltips = [(safe(line.arm), value) for line, value in zip(lines, values, strict=True)]
    hover(plot, anchor, [("seconds", "@x{0.0} to @until{0.0}"), *tooltips], "vline")
