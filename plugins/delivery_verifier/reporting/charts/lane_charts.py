"""The lane charts: the leader and the ISR of each partition over time. A lane is the row of one partition in a plot.

If there are more partitions than lanes, a second plot shows two numbers over time: the partitions without a leader, and
the partitions with a shrunk ISR.
"""

from __future__ import annotations

from typing import Any

from bokeh.models import ColumnDataSource, FixedTicker, Range1d

from delivery_verifier.reporting.charts.figures import NO_LEADER, Figure, blank, broker_colour, hover
from delivery_verifier.reporting.charts.lanes import (
    LANES_SHOWN,
    PartitionCounts,
    Segment,
    in_sync,
    partition_counts,
    segments,
)
from delivery_verifier.reporting.leadership import Clock, Leadership, subject_topic
from delivery_verifier.reporting.material import Material

SHRUNK = "#c9711b"
"""The colour of the line that shows the number of partitions with a shrunk ISR."""


def lane_plots(material: Material, clock: Clock, x_range: Range1d, end_s: float) -> list[Figure]:
    """Returns the plot of the lanes. If some partitions have no lane, the list begins with a plot of counts.

    The plot of counts is about all partitions: how many had no leader, and how many had a shrunk ISR. `end_s`: the end
    of the time axis in s. The list is empty if no partition was observed before `end_s`.
    """
    drawn = segments(material, clock, end_s)
    if not drawn:
        return []
    partitions = Leadership(material.observations).partitions(subject_topic(material))
    counted = partition_counts(material, clock) if len(partitions) > LANES_SHOWN else []
    overview = [_counts(x_range, counted, end_s, len(partitions))] if counted else []
    return [*overview, _lanes(x_range, drawn)]


def _counts(x_range: Range1d, counted: list[PartitionCounts], end_s: float, partitions: int) -> Figure:
    """Returns the plot of two numbers over time: the number of partitions without a leader, and the number of
    partitions with a shrunk ISR.

    `partitions`: the number of all partitions.
    """
    plot = blank(x_range, "partitions", 120)
    last = counted[-1]
    steps = [*counted, PartitionCounts(max(end_s, last.from_s), last.leaderless, last.shrunk)]
    columns: dict[str, Any] = {
        name: [getattr(step, name) for step in steps] for name in ("from_s", "leaderless", "shrunk")
    }
    source = ColumnDataSource(columns)
    line = {"x": "from_s", "mode": "after", "line_width": 2, "source": source}
    plot.step(**line, y="shrunk", color=SHRUNK)
    plot.step(**line, y="leaderless", color=NO_LEADER)
    anchor = plot.line("from_s", "shrunk", source=source, line_alpha=0)
    tooltips = [("from", "@from_s{0.000} s"), ("no leader", "@leaderless"), ("ISR not full", "@shrunk")]
    hover(plot, anchor, [*tooltips, ("of", f"{partitions:,} partitions")], "vline")
    plot.y_range = Range1d(
        start=0, end=max(1, *(step.shrunk for step in steps), *(step.leaderless for step in steps)) * 1.08
    )
    plot.yaxis.ticker.desired_num_ticks = 3
    return plot


def _lanes(x_range: Range1d, drawn: list[Segment]) -> Figure:
    """Returns the plot of the lanes. In each lane, a thick bar shows the leader. Below this bar, each replica in sync
    has a thin stripe."""
    rows = {partition: row for row, partition in enumerate(sorted({segment.partition for segment in drawn}))}
    height = max(72, 18 + 20 * len(rows))  # the label of the axis needs 72 pixels
    plot = blank(x_range, "leader, ISR", height, y_range=Range1d(start=len(rows), end=0))
    plot.grid.visible = False
    plot.yaxis.ticker = FixedTicker(ticks=[row + 0.5 for row in rows.values()])
    plot.yaxis.major_label_overrides = {row + 0.5: f"p{partition}" for partition, row in rows.items()}
    bar = {"y": "y", "left": "left", "right": "right", "line_color": None}
    leaders, stripes = ColumnDataSource(_bars(drawn, rows)), ColumnDataSource(_stripes(drawn, rows))
    plot.hbar(**bar, height=0.4, color="colour", source=leaders)
    plot.hbar(**bar, height=0.07, color="colour", source=stripes)
    whole = plot.hbar(y="row", left="left", right="right", height=0.96, alpha=0, source=leaders)
    tooltips = [
        ("partition", "@partition"),
        ("leader", "@leader"),
        ("epoch", "@epoch"),
        ("ISR size", "@size"),
        ("in sync", "@isr"),
        ("from", "@left{0.000} s"),
        ("until", "@right{0.000} s"),
    ]
    hover(plot, whole, tooltips)
    return plot


def _bars(drawn: list[Segment], rows: dict[int, int]) -> dict[str, Any]:
    """Returns the data of the bars by column, with one value per segment. A segment is a span of time with one leader
    and one ISR.

    `rows` maps a partition to the number of its row in the plot.
    """
    return {
        "y": [rows[segment.partition] + 0.3 for segment in drawn],
        "row": [rows[segment.partition] + 0.5 for segment in drawn],
        "left": [round(segment.start, 4) for segment in drawn],
        "right": [round(segment.end, 4) for segment in drawn],
        "colour": [broker_colour(segment.observation.leader) for segment in drawn],
        "partition": [segment.partition for segment in drawn],
        "leader": [
            "none" if segment.observation.leader < 0 else f"broker {segment.observation.leader}" for segment in drawn
        ],
        "epoch": [segment.observation.leader_epoch for segment in drawn],
        "size": [len(segment.observation.isr) for segment in drawn],
        "isr": [", ".join(map(str, segment.observation.isr)) or "none" for segment in drawn],
    }


def _stripes(drawn: list[Segment], rows: dict[int, int]) -> dict[str, Any]:
    """Returns the data of the stripes by column, with one value per stripe. A stripe is a span of time in which one
    replica was in sync.

    `rows` maps a partition to the number of its row in the plot.
    """
    stripes = in_sync(drawn)
    replicas = sorted({broker for _, broker, _, _ in stripes})
    step = 0.36 / max(1, len(replicas))
    return {
        "y": [rows[partition] + 0.58 + step * replicas.index(broker) for partition, broker, _, _ in stripes],
        "left": [round(start, 4) for *_, start, _ in stripes],
        "right": [round(end, 4) for *_, end in stripes],
        "colour": [broker_colour(broker) for _, broker, _, _ in stripes],
    }
