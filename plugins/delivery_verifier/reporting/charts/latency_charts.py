"""The latency charts: one histogram per arm. All histograms share one axis in milliseconds.

Records that were under way during a fault have red bars. A record is under way from its sending to its report.
"""

from __future__ import annotations

from typing import Any

from bokeh.models import ColumnDataSource, NumeralTickFormatter, Range1d

from delivery_verifier.model.figures import share
from delivery_verifier.reporting.charts.figures import FAULT, Figure, arm_colour, blank, column, hover, safe
from delivery_verifier.reporting.latency import Spread
from delivery_verifier.reporting.words import latency, number


def distribution(spreads: list[Spread], target: str) -> dict[str, Any] | None:
    """Returns the histograms, one per arm, as a JSON item of Bokeh. The item belongs into the HTML element with the id
    `target`.

    `spreads`: for each arm, the latencies of the records that were under way during a fault, and the latencies of all
    other records. Returns None if `spreads` is empty.
    """
    if not spreads:
        return None
    edges = [edge for spread in spreads for bucket in spread.buckets for edge in (bucket.from_ms, bucket.until_ms)]
    low, high = min(edges) / 1.3, max(edges) * 1.3
    x_range = Range1d(start=low, end=high, bounds=(low, high))
    arms = list(dict.fromkeys(spread.arm for spread in spreads))
    plots = [
        _histogram(x_range, [spread for spread in spreads if spread.arm == arm], arm_colour(index))
        for index, arm in enumerate(arms)
    ]
    return column(plots, target, "latency, ms (log)")


def _histogram(x_range: Range1d, spreads: list[Spread], colour: str) -> Figure:
    """Returns the histogram of one arm. `colour`: the colour of the arm.

    Red bars show the records that were under way during a fault. Bars in the colour of the arm show all other records.
    A bar shows the records in one range of latencies. The height of a bar is the number of its records, divided by the
    number of records in all bars of the same colour.
    """
    plot = blank(x_range, safe(spreads[0].arm), 130, x_axis_type="log")
    for spread in spreads:
        look = {
            "fill_color": FAULT if spread.inside else colour,
            "fill_alpha": 0.3 if spread.inside else 0.55,
            "line_color": FAULT if spread.inside else None,
            "line_width": 1.5,
        }
        source = ColumnDataSource(_bars(spread))
        drawn = plot.quad(left="left", right="right", bottom=0, top="share", source=source, **look)
        when = "under way during a fault" if spread.inside else "outside the faults"
        hover(plot, drawn, [(when, "@records"), ("latency", "@span")])
    plot.y_range.start = 0
    plot.y_range.range_padding = 0.1
    plot.yaxis.ticker.desired_num_ticks = 3
    plot.yaxis.formatter = NumeralTickFormatter(format="0.[0]%")
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0.[000]")
    return plot


def _bars(spread: Spread) -> dict[str, Any]:
    """Returns the data of the bars of `spread` by column, with one value per bar. Two of the columns hold the texts of
    the tooltips."""
    total = spread.records
    return {
        "left": [bucket.from_ms for bucket in spread.buckets],
        "right": [bucket.until_ms for bucket in spread.buckets],
        "share": [bucket.records / total for bucket in spread.buckets],
        "records": [f"{number(bucket.records)} records, {share(bucket.records, total)}" for bucket in spread.buckets],
        "span": [f"{latency(bucket.from_ms)} to {latency(bucket.until_ms)}" for bucket in spread.buckets],
    }
