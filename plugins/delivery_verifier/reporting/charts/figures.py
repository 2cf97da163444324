"""The figures: empty Bokeh plots with a common look and a shared x axis, and the colours and tools of these plots."""

from __future__ import annotations

from typing import Any, Literal

import bokeh
from bokeh.document import Document
from bokeh.layouts import gridplot
from bokeh.models import CrosshairTool, HoverTool, NumeralTickFormatter, Range1d, WheelZoomTool
from bokeh.models.annotations import Span
from bokeh.plotting import figure

from delivery_verifier.reporting.words import clean

ARM_COLOURS = ("#2f7fd6", "#c9711b", "#8a63d2", "#0f8a78", "#c2518d", "#7d8186", "#6b8e23", "#b5653a")
BROKER_COLOURS = ("#4c78a8", "#b279a2", "#59a14f", "#d99a2b", "#9d755d", "#5aa3a3")
NO_LEADER = "#d64545"
FAULT = "#d64545"

Figure = Any
"""A Bokeh plot."""


def arm_colour(index: int) -> str:
    """Returns the colour of the arm at position `index` of the legend, counted from 0.

    If there are more arms than colours, the colours repeat.
    """
    return ARM_COLOURS[index % len(ARM_COLOURS)]


def broker_colour(broker: int) -> str:
    """Returns the colour of a broker. A negative `broker` stands for a partition without a leader. The result is then
    red."""
    return NO_LEADER if broker < 0 else BROKER_COLOURS[broker % len(BROKER_COLOURS)]


def blank(x_range: Any, label: str, height: int, **more: Any) -> Figure:
    """Returns an empty plot.

    `x_range`: the range of the x axis. Plots with the same `x_range` zoom together. `label`: the label of the y axis.
    `height`: the height in pixels. `more`: further arguments for Bokeh's `figure`. The mouse wheel zooms only together
    with Ctrl, so that a reader can scroll the page while the pointer is on a plot.
    """
    plot = figure(
        height=height,
        x_range=x_range,
        tools="xpan,xbox_zoom,xzoom_in,xzoom_out,reset",
        active_drag="xbox_zoom",
        min_border_left=68,
        min_border_right=12,
        min_border_top=4,
        min_border_bottom=9,  # the lower half of the label 0 of the y axis
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        y_axis_label=label,
        output_backend="canvas",
        **more,
    )  # type: ignore[call-arg]
    plot.add_tools(WheelZoomTool(dimensions="width", modifiers="ctrl"))  # type: ignore[arg-type]
    plot.xaxis.visible = False
    plot.axis.axis_label_text_font_style = "normal"
    plot.yaxis.formatter = NumeralTickFormatter(format="0.[0]a")
    plot.grid.grid_line_alpha = 0.5
    plot.yaxis.axis_label_standoff = 6
    return plot


def hover(plot: Figure, drawn: Any, tooltips: list[tuple[str, str]], mode: Literal["mouse", "vline"] = "mouse") -> None:
    """Adds a tool to `plot` that shows a tooltip about the bar or point under the pointer.

    `drawn`: the bars or the line that the tool watches, as Bokeh's plot method returned them. `tooltips`: a label and a
    text for each line of the tooltip. With `mode` `vline`, the pointer may also be above or below a bar or point. The
    toolbar does not show the tool.
    """
    tool = HoverTool(renderers=[drawn], tooltips=tooltips, mode=mode, visible=False, attachment="horizontal")
    plot.add_tools(tool)


def column(plots: list[Figure], target: str, axis_label: str) -> dict[str, Any]:
    """Returns the plots, one below another, as a JSON item of Bokeh. The item belongs into the HTML element with the id
    `target`.

    `axis_label`: the label of the shared x axis, which stands below the last plot.
    """
    line = Span(dimension="height", line_color="#888888", line_width=1)
    for plot in plots:
        plot.add_tools(CrosshairTool(overlay=line, visible=False))
    plots[-1].xaxis.axis_label = axis_label
    plots[-1].height += 34
    plots[-1].xaxis.visible = True
    layout = gridplot(
        [[plot] for plot in plots],
        sizing_mode="stretch_width",
        merge_tools=True,
        toolbar_location="above",
        toolbar_options={"logo": None},
    )
    # `bokeh.embed.json_item` gives the same, but visits every model several times more.
    document = Document(title="")
    document.add_root(layout)
    content = document.to_json(deferred=False)
    return {"target_id": target, "root_id": layout.id, "doc": content, "version": bokeh.__version__}


def seconds_axis(end_s: float) -> Range1d:
    """Returns the range of an x axis in seconds from 0 to `end_s`.

    A reader can move the plot only slightly beyond this range.
    """
    return Range1d(
        start=-0.01 * end_s,
        end=end_s * 1.01,
        min_interval=end_s / 500,
        bounds=(-0.05 * end_s, end_s * 1.05),
    )


def safe(text: object) -> str:
    """Returns `text` with full-width signs in place of `$`, `\\` and `@`.

    Bokeh gives these signs a meaning. For example, Bokeh would load MathJax from the network to draw text between
    dollar signs. Also replaces the characters that could deceive a reader (see `words.clean`).
    """
    return clean(text).replace("$", "\uff04").replace("\\", "\uff3c").replace("@", "\uff20")
