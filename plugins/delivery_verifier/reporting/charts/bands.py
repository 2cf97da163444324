"""The bands. A band is the span of time from the effect of one fault to the recovery of the cluster from this fault.

The effect is the time when the fault took effect. The recovery is the time when all replicas were in sync again. If the
cluster never recovered, the band ends at the end of the time axis.

The timeline shows each band twice: as a bar in one plot, which is called the strip, and as a red background in every
plot.
"""

from __future__ import annotations

from typing import Any

from bokeh.models import ColumnDataSource, FixedTicker, Range1d

from delivery_verifier.model.history import Injection
from delivery_verifier.reporting.charts.figures import FAULT, Figure, blank, hover, safe
from delivery_verifier.reporting.leadership import Clock, Leadership, injection_name, subject_topic
from delivery_verifier.reporting.material import Material

BANDS_DRAWN = 200
"""The greatest number of faults that are drawn as bands. Later faults of a run are not drawn."""
MARKS_DRAWN = 500
"""The greatest number of leadership changes that are marked on a plot. Later changes are not marked."""
_BAR_COLUMNS = (
    "x",
    "align",
    "y",
    "above",
    "effect_at",
    "healed",
    "recovered",
    "name",
    "healed_text",
    "recovered_text",
)
LABELS_DRAWN = 8
"""If at most this many faults are drawn, each fault has a row of its own in the strip, with its name. Otherwise all
bars share one row without names. The tooltip of a bar still shows the name."""


def strip(material: Material, clock: Clock, x_range: Range1d, end_s: float) -> Figure:
    """Returns the strip: the plot of the faults, with one bar per fault.

    `end_s`: the end of the time axis in s. A bar is solid from the effect of the fault to its healing, that is, the
    time when the fault was undone. The bar is pale from the healing to the recovery. If the fault was not healed, the
    solid part lasts until `end_s`. If the cluster did not recover, the pale part lasts until `end_s`.
    """
    drawn = material.injections[:BANDS_DRAWN]
    named = len(drawn) <= LABELS_DRAWN
    rows = max(1, len(drawn)) if named else 1
    plot = blank(x_range, "faults", max(48, (26 if named else 22) * rows + 11), y_range=Range1d(start=rows, end=0))
    plot.yaxis.ticker = FixedTicker(ticks=[])
    plot.grid.visible = False
    source = ColumnDataSource(_bars(drawn, clock, end_s, named))
    bar = {"y": "y", "height": 0.42 if named else 0.7, "line_color": None, "color": FAULT, "source": source}
    plot.hbar(**bar, left="healed", right="recovered", alpha=0.35)
    plot.hbar(**bar, left="effect_at", right="healed", alpha=0.9)
    whole = plot.hbar(**bar, left="effect_at", right="recovered", alpha=0)
    hover(
        plot,
        whole,
        [
            ("fault", "@name"),
            ("took effect at", "@effect_at{0.000} s"),
            ("healed at", "@healed_text"),
            ("recovered at", "@recovered_text"),
        ],
    )
    if named:
        label = {"text_align": "align", "text_baseline": "middle", "text_font_size": "12px"}
        plot.text("x", "above", "name", **label, source=source, text_color="#888888")
    return plot


def _bars(drawn: list[Injection], clock: Clock, end_s: float, named: bool) -> dict[str, Any]:
    """Returns the data of the bars by column, with one value per bar. Times are in s.

    `named`: whether each fault has a row with its name. The name normally begins at the effect of the fault. If the
    effect is in the second half of the time axis, the name ends at the recovery, so that the name stays inside the
    plot.
    """
    columns: dict[str, list[Any]] = {name: [] for name in _BAR_COLUMNS}
    for row, injection in enumerate(drawn):
        effect_s = clock.seconds(injection.effect_at_us)
        recovered_s = _end_seconds(injection.recovered_at_us, clock, end_s)
        is_late = effect_s > 0.5 * end_s
        columns["x"].append(recovered_s if is_late else effect_s)
        columns["align"].append("right" if is_late else "left")
        columns["y"].append(row + 0.72 if named else 0.5)
        columns["above"].append(row + 0.28)
        columns["effect_at"].append(effect_s)
        columns["healed"].append(_end_seconds(injection.healed_at_us, clock, end_s))
        columns["recovered"].append(recovered_s)
        columns["name"].append(safe(injection_name(injection)))
        columns["healed_text"].append(_time_text(injection.healed_at_us, clock))
        columns["recovered_text"].append(_time_text(injection.recovered_at_us, clock))
    return columns


def _end_seconds(at_us: int | None, clock: Clock, end_s: float) -> float:
    """Returns the time `at_us` (µs since the epoch) in seconds on `clock`. Returns `end_s` if `at_us` is None."""
    return end_s if at_us is None else clock.seconds(at_us)


def _time_text(at_us: int | None, clock: Clock) -> str:
    """Returns the time `at_us` (µs since the epoch) as text. Returns `never` if `at_us` is None."""
    return "never" if at_us is None else clock.text(at_us)


def shade(plot: Figure, material: Material, clock: Clock, end_s: float) -> None:
    """Gives `plot` a red background from the effect of each fault to the recovery.

    `end_s`: the end of the time axis in s. The red is strong from the effect until the fault is healed, and pale from
    then on. If the fault was not healed, the strong red lasts until `end_s`. If the cluster did not recover, the pale
    red lasts until `end_s`.
    """
    drawn = material.injections[:BANDS_DRAWN]
    effects_at = [clock.seconds(injection.effect_at_us) for injection in drawn]
    heals = [_end_seconds(injection.healed_at_us, clock, end_s) for injection in drawn]
    recoveries = [_end_seconds(injection.recovered_at_us, clock, end_s) for injection in drawn]
    for starts, ends, alpha in ((effects_at, heals, 0.16), (heals, recoveries, 0.07)):
        source = ColumnDataSource({"left": starts, "right": ends})
        plot.vstrip(
            x0="left",
            x1="right",
            source=source,
            fill_color=FAULT,
            fill_alpha=alpha,
            line_color=None,
            level="underlay",
        )


def mark_leaders(plot: Figure, material: Material, clock: Clock) -> None:
    """Draws a dashed line on `plot` at each time when a partition got another leader or lost its leader.

    Shows only partitions of the topic of the first subject (see `subject_topic`). Times are rounded to 0.01 s.
    """
    changes = Leadership(material.observations).changes(subject_topic(material))
    times_s = list(dict.fromkeys(round(clock.seconds(change.at_us), 2) for change in changes))[:MARKS_DRAWN]
    source = ColumnDataSource({"x": times_s})
    plot.vspan(x="x", source=source, line_color="#888888", line_width=1, line_dash="dashed", level="underlay")
