"""The latency charts: one histogram per arm, inside and outside the faults, over one axis of milliseconds."""

from __future__ import annotations

from typing import Any

from bokeh.models import ColumnDataSource, NumeralTickFormatter, Range1d

from delivery_verifier.pages.charts.figures import FAULT, Figure, arm_colour, blank, column, hover, safe
from delivery_verifier.pages.latency import Spread
from delivery_verifier.pages.words import latency, number, share


def distribution(found: list[Spread], target: str) -> dict[str, Any] | None:
    """Bokeh's JSON item of the histograms for the element `target`, or None if there is nothing to draw."""
    if not found:
        return None
    edges = [edge for one in found for bucket in one.buckets for edge in (bucket.from_ms, bucket.until_ms)]
    low, high = min(edges) / 1.3, max(edges) * 1.3
    x_range = Range1d(start=low, end=high, bounds=(low, high))
    arms = list(dict.fromkeys(one.arm for one in found))
    plots = [
        _histogram(x_range, [one for one in found if one.arm == arm], arm_colour(place))
        for place, arm in enumerate(arms)
    ]
    return column(plots, target, "latency, ms (log)")


def _histogram(x_range: Range1d, mine: list[Spread], colour: str) -> Figure:
    """Filled: outside the faults. Red: under way during one. Each side is a share of its own records."""
    plot = blank(x_range, safe(mine[0].arm), 130, x_axis_type="log")
    for one in mine:
        look = {
            "fill_color": FAULT if one.inside else colour,
            "fill_alpha": 0.3 if one.inside else 0.55,
            "line_color": FAULT if one.inside else None,
            "line_width": 1.5,
        }
        source = ColumnDataSource(_bars(one))
        drawn = plot.quad(left="left", right="right", bottom=0, top="share", source=source, **look)
        when = "under way during a fault" if one.inside else "outside the faults"
        hover(plot, drawn, [(when, "@told"), ("latency", "@span")])
    plot.y_range.start = 0
    plot.y_range.range_padding = 0.1
    plot.yaxis.ticker.desired_num_ticks = 3
    plot.yaxis.formatter = NumeralTickFormatter(format="0.[0]%")
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0.[000]")
    return plot


def _bars(one: Spread) -> dict[str, Any]:
    whole = one.records
    return {
        "left": [bucket.from_ms for bucket in one.buckets],
        "right": [bucket.until_ms for bucket in one.buckets],
        "share": [bucket.records / whole for bucket in one.buckets],
        "told": [f"{number(bucket.records)} records, {share(bucket.records, whole)}" for bucket in one.buckets],
        "span": [f"{latency(bucket.from_ms)} to {latency(bucket.until_ms)}" for bucket in one.buckets],
    }
