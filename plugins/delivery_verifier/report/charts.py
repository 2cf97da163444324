"""The charts: load, errors, latency, faults and leadership over one zoomable axis of seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bokeh.core.types import ID
from bokeh.embed import json_item
from bokeh.layouts import gridplot
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, NumeralTickFormatter, Range1d
from bokeh.plotting import figure

from delivery_verifier.injection import Injection
from delivery_verifier.report.history import Clock, Leadership, name_of, subject_topic
from delivery_verifier.report.lanes import Segment, segments
from delivery_verifier.report.material import Material
from delivery_verifier.report.series import Series, series
from delivery_verifier.report.words import clean

ARM_COLOURS = ("#2f7fd6", "#d9822b", "#8a63d2", "#0f9d8a", "#c2518d", "#8a8d91")
BROKER_COLOURS = ("#4c78a8", "#b279a2", "#59a14f", "#edb14a", "#9d755d", "#76b7b2")
NO_LEADER = "#d64545"
_FAULT = "#d64545"
BANDS_DRAWN = 200
MARKS_DRAWN = 500
LABELS_DRAWN = 8

_Figure = Any


def arm_colour(index: int) -> str:
    """The colour of the arm at this place of the legend."""
    return ARM_COLOURS[index % len(ARM_COLOURS)]


def broker_colour(broker: int) -> str:
    """The colour of a broker; red for none."""
    return NO_LEADER if broker < 0 else BROKER_COLOURS[broker % len(BROKER_COLOURS)]


def timeline(material: Material, clock: Clock, target: str) -> dict[str, Any] | None:
    """Bokeh's JSON item of the timeline for the element `target`, or None if there is nothing to draw."""
    frame = material.frame("timeline/load")
    if frame is None or frame.empty:
        return None
    lines = series(frame, clock)
    end_s = _end(material, clock, lines)
    x_range = Range1d(start=-0.01 * end_s, end=end_s * 1.01, min_interval=end_s / 500)
    x_range.bounds = (-0.05 * end_s, end_s * 1.05)
    plots = [
        _faults(material, clock, x_range, end_s),
        _lines("reported / s", x_range, ((one, one.reported, 2.0, "solid") for one in lines), lines),
        _lines("errors / s", x_range, ((one, one.errors, 2.0, "solid") for one in lines), lines, height=110),
        _latency(x_range, lines),
    ]
    drawn = segments(material, clock, end_s)
    if drawn:
        plots.append(_leaders(x_range, drawn))
    for plot in plots:
        _mark_faults(plot, material, clock, end_s)
    for plot in plots[1:4]:
        _mark_leaders(plot, material, clock)
    plots[-1].xaxis.axis_label = "seconds since the load's start"
    plots[-1].height += 34
    plots[-1].xaxis.visible = True
    layout = gridplot(
        [[plot] for plot in plots],
        sizing_mode="stretch_width",
        merge_tools=True,
        toolbar_location="above",
        toolbar_options={"logo": None},
    )
    item: dict[str, Any] = json_item(layout, ID(target))  # type: ignore[assignment]
    return item


def _end(material: Material, clock: Clock, lines: list[Series]) -> float:
    ends = [float(one.x[-1]) + one.interval_s for one in lines]
    ends += [
        clock.seconds(one.recovered_at_us) for one in material.injections if one.recovered_at_us is not None
    ]
    return max([1.0, *ends])


def _figure(x_range: Range1d, label: str, height: int, **more: Any) -> _Figure:
    plot = figure(
        height=height,
        x_range=x_range,
        tools="xpan,xbox_zoom,xwheel_zoom,reset",
        active_drag="xbox_zoom",
        active_scroll=None,
        min_border_left=68,
        min_border_right=12,
        min_border_top=4,
        min_border_bottom=4,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        y_axis_label=label,
        output_backend="canvas",
        **more,
    )  # type: ignore[call-arg]
    plot.xaxis.visible = False
    plot.axis.axis_label_text_font_style = "normal"
    plot.yaxis.formatter = NumeralTickFormatter(format="0.[0]a")
    plot.grid.grid_line_alpha = 0.5
    plot.yaxis.axis_label_standoff = 6
    return plot


def _lines(
    label: str, x_range: Range1d, drawn: Iterable[Any], lines: list[Series], height: int = 170
) -> _Figure:
    plot = _figure(x_range, label, height)
    for one, values, width, dash in drawn:
        source = ColumnDataSource({"x": one.x, "y": values})
        plot.step(
            "x", "y", source=source, mode="after", line_width=width, line_dash=dash, color=_colour(lines, one)
        )
    top = max([1.0, *(float(values.max()) for one in lines for values in _heights(label, one))])
    plot.y_range = Range1d(start=0, end=top * 1.08)
    plot.yaxis.ticker.desired_num_ticks = 4 if height > 120 else 3
    return plot


def _heights(label: str, one: Series) -> list[Any]:
    values = one.reported if label.startswith("reported") else one.errors
    return [values] if len(values) else []


def _latency(x_range: Range1d, lines: list[Series]) -> _Figure:
    plot = _figure(x_range, "latency, ms (log)", 170, y_axis_type="log")
    for one in lines:
        source = ColumnDataSource({"x": one.x + one.interval_s / 2, "p50": one.p50, "p99": one.p99})
        colour = _colour(lines, one)
        plot.line("x", "p50", source=source, color=colour, line_width=1.2, line_dash="dotted")
        plot.line("x", "p99", source=source, color=colour, line_width=2)
        plot.scatter("x", "p99", source=source, color=colour, size=3)
    plot.yaxis.formatter = NumeralTickFormatter(format="0,0.[00]")
    return plot


def _colour(lines: list[Series], one: Series) -> str:
    return arm_colour([line.arm for line in lines].index(one.arm))


def _faults(material: Material, clock: Clock, x_range: Range1d, end_s: float) -> _Figure:
    """A strip of its own for the names of the faults, one row each while there are few."""
    named = material.injections[:LABELS_DRAWN]
    rows = max(1, len(named))
    plot = _figure(x_range, "faults", 30 + 16 * rows, y_range=Range1d(start=rows, end=0))
    plot.yaxis.ticker = FixedTicker(ticks=[])
    plot.grid.visible = False
    source = ColumnDataSource(_fault_labels(named, clock, end_s))
    bar = {"y": "y", "left": "left", "right": "right", "height": 0.7, "line_color": None}
    plot.hbar(**bar, source=source, color=_FAULT, alpha=0.85)
    label = {"text_align": "align", "text_baseline": "middle", "x_offset": "shift", "text_font_size": "12px"}
    plot.text("x", "y", "text", **label, source=source, text_color="#888888")
    return plot


def _fault_labels(named: list[Injection], clock: Clock, end_s: float) -> dict[str, Any]:
    """Bars and their names: behind the bar, or before it where it stands far to the right."""
    left = [clock.seconds(one.bite_at_us) for one in named]
    right = [_until(one.healed_at_us, clock, end_s) for one in named]
    far = [at > 0.6 * end_s for at in right]
    return {
        "x": [start if before else end for start, end, before in zip(left, right, far, strict=True)],
        "y": [row + 0.5 for row in range(len(named))],
        "left": left,
        "right": right,
        "text": [_safe(name_of(one)) for one in named],
        "align": ["right" if before else "left" for before in far],
        "shift": [-5 if before else 5 for before in far],
    }


def _until(at_us: int | None, clock: Clock, end_s: float) -> float:
    return end_s if at_us is None else clock.seconds(at_us)


def _mark_faults(plot: _Figure, material: Material, clock: Clock, end_s: float) -> None:
    """Shades bite to heal, and, lighter, heal to recovery."""
    drawn = material.injections[:BANDS_DRAWN]
    bites = [clock.seconds(one.bite_at_us) for one in drawn]
    heals = [_until(one.healed_at_us, clock, end_s) for one in drawn]
    ends = [_until(one.recovered_at_us, clock, end_s) for one in drawn]
    for left, right, alpha in ((bites, heals, 0.16), (heals, ends, 0.07)):
        source = ColumnDataSource({"left": left, "right": right})
        plot.vstrip(
            x0="left",
            x1="right",
            source=source,
            fill_color=_FAULT,
            fill_alpha=alpha,
            line_color=None,
            level="underlay",
        )


def _mark_leaders(plot: _Figure, material: Material, clock: Clock) -> None:
    changes = Leadership(material.observations).changes(subject_topic(material))[:MARKS_DRAWN]
    source = ColumnDataSource({"x": [clock.seconds(one.at_us) for one in changes]})
    plot.vspan(x="x", source=source, line_color="#888888", line_width=1, line_dash="dashed", level="underlay")


def _leaders(x_range: Range1d, drawn: list[Segment]) -> _Figure:
    """Thick bar: the leader. Thin stripes below it: the replicas in sync."""
    rows = {partition: row for row, partition in enumerate(sorted({one.partition for one in drawn}))}
    plot = _figure(x_range, "leader, ISR", 26 + 34 * len(rows), y_range=Range1d(start=len(rows), end=0))
    plot.grid.visible = False
    plot.yaxis.ticker = FixedTicker(ticks=[row + 0.5 for row in rows.values()])
    plot.yaxis.major_label_overrides = {row + 0.5: f"p{partition}" for partition, row in rows.items()}
    bars = plot.hbar(
        y="y",
        left="left",
        right="right",
        height=0.4,
        color="colour",
        line_color=None,
        source=ColumnDataSource(_bars(drawn, rows)),
    )
    plot.hbar(
        y="y",
        left="left",
        right="right",
        height=0.07,
        color="colour",
        line_color=None,
        source=ColumnDataSource(_stripes(drawn, rows)),
    )
    plot.add_tools(
        HoverTool(
            renderers=[bars],
            tooltips=[
                ("partition", "@partition"),
                ("leader", "@leader"),
                ("epoch", "@epoch"),
                ("in sync", "@isr"),
                ("from", "@left{0.000} s"),
                ("until", "@right{0.000} s"),
            ],
        )
    )
    return plot


def _bars(drawn: list[Segment], rows: dict[int, int]) -> dict[str, Any]:
    return {
        "y": [rows[one.partition] + 0.3 for one in drawn],
        "left": [one.start for one in drawn],
        "right": [one.end for one in drawn],
        "colour": [broker_colour(one.seen.leader) for one in drawn],
        "partition": [one.partition for one in drawn],
        "leader": ["none" if one.seen.leader < 0 else f"broker {one.seen.leader}" for one in drawn],
        "epoch": [one.seen.leader_epoch for one in drawn],
        "isr": [", ".join(map(str, one.seen.isr)) for one in drawn],
    }


def _stripes(drawn: list[Segment], rows: dict[int, int]) -> dict[str, Any]:
    replicas = sorted({broker for one in drawn for broker in one.seen.isr})
    step = 0.36 / max(1, len(replicas))
    stripes = [(one, broker) for one in drawn for broker in one.seen.isr]
    return {
        "y": [rows[one.partition] + 0.58 + step * replicas.index(broker) for one, broker in stripes],
        "left": [one.start for one, _ in stripes],
        "right": [one.end for one, _ in stripes],
        "colour": [broker_colour(broker) for _, broker in stripes],
    }


def _safe(text: str) -> str:
    """Text for a canvas: Bokeh would fetch MathJax for anything between dollar signs."""
    return clean(text).replace("$", "\uff04").replace("\\", "\uff3c")
