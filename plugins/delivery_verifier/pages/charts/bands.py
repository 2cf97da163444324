"""The bands: when each fault bit, was healed and had recovered, as a strip of names and a shade on every plot."""

from __future__ import annotations

from typing import Any

from bokeh.models import ColumnDataSource, FixedTicker, Range1d

from delivery_verifier.model.history import Injection
from delivery_verifier.pages.charts.figures import FAULT, Figure, blank, hover, safe
from delivery_verifier.pages.leadership import Clock, Leadership, name_of, subject_topic
from delivery_verifier.pages.material import Material

BANDS_DRAWN = 200
MARKS_DRAWN = 500
LABELS_DRAWN = 8
"""More faults than this share one row without names; the pointer still tells them apart."""


def strip(material: Material, clock: Clock, x_range: Range1d, end_s: float) -> Figure:
    """Solid: from the bite until it was healed. Pale: until all replicas were in sync again."""
    drawn = material.injections[:BANDS_DRAWN]
    named = len(drawn) <= LABELS_DRAWN
    rows = max(1, len(drawn)) if named else 1
    plot = blank(x_range, "faults", 30 + (32 if named else 20) * rows, y_range=Range1d(start=rows, end=0))
    plot.yaxis.ticker = FixedTicker(ticks=[])
    plot.grid.visible = False
    source = ColumnDataSource(_bars(drawn, clock, end_s, named))
    bar = {"y": "y", "height": 0.42 if named else 0.7, "line_color": None, "color": FAULT, "source": source}
    plot.hbar(**bar, left="healed", right="recovered", alpha=0.35)
    plot.hbar(**bar, left="bite", right="healed", alpha=0.9)
    whole = plot.hbar(**bar, left="bite", right="recovered", alpha=0)
    hover(
        plot,
        whole,
        [
            ("fault", "@name"),
            ("bit at", "@bite{0.000} s"),
            ("healed at", "@told_healed"),
            ("recovered at", "@told_recovered"),
        ],
    )
    if named:
        label = {"text_align": "align", "text_baseline": "middle", "text_font_size": "12px"}
        plot.text("x", "above", "name", **label, source=source, text_color="#888888")
    return plot


def _bars(drawn: list[Injection], clock: Clock, end_s: float, named: bool) -> dict[str, Any]:
    """Bars, and above them their names: to the right from the bite on, or, late in the run, to the left."""
    bites = [clock.seconds(one.bite_at_us) for one in drawn]
    ends = [_until(one.recovered_at_us, clock, end_s) for one in drawn]
    far = [at > 0.5 * end_s for at in bites]
    return {
        "x": [end if late else start for start, end, late in zip(bites, ends, far, strict=True)],
        "y": [row + 0.72 if named else 0.5 for row in range(len(drawn))],
        "above": [row + 0.28 for row in range(len(drawn))],
        "bite": bites,
        "healed": [_until(one.healed_at_us, clock, end_s) for one in drawn],
        "recovered": ends,
        "name": [safe(name_of(one)) for one in drawn],
        "told_healed": [_told(one.healed_at_us, clock) for one in drawn],
        "told_recovered": [_told(one.recovered_at_us, clock) for one in drawn],
        "align": ["right" if late else "left" for late in far],
    }


def _until(at_us: int | None, clock: Clock, end_s: float) -> float:
    return end_s if at_us is None else clock.seconds(at_us)


def _told(at_us: int | None, clock: Clock) -> str:
    return "never" if at_us is None else clock.tell(at_us)


def shade(plot: Figure, material: Material, clock: Clock, end_s: float) -> None:
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
            fill_color=FAULT,
            fill_alpha=alpha,
            line_color=None,
            level="underlay",
        )


def mark_leaders(plot: Figure, material: Material, clock: Clock) -> None:
    """A dashed line wherever a partition of the subject got another leader."""
    changes = Leadership(material.observations).changes(subject_topic(material))
    at = list(dict.fromkeys(round(clock.seconds(one.at_us), 2) for one in changes))[:MARKS_DRAWN]
    source = ColumnDataSource({"x": at})
    plot.vspan(x="x", source=source, line_color="#888888", line_width=1, line_dash="dashed", level="underlay")
