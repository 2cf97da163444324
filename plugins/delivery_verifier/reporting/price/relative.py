"""The charts of the price page: throughput and latency of each profile relative to the profile acks_1. The guarantee of
each profile stands beside its bar.

A chart is a table with a bar in each row. The scale of the bars is logarithmic, with acks_1 in the middle. So if a
figure is twice that of acks_1, its bar is as long as the bar of a figure that is half that of acks_1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from delivery_verifier.catalogue.prices import Condition
from delivery_verifier.model.anomalies import subset
from delivery_verifier.model.figures import enumeration
from delivery_verifier.model.scenario import Claim
from delivery_verifier.reporting.price.price import MeasuredRun, Price
from delivery_verifier.reporting.words import latency, number

BASE = "acks_1"
"""The profile to which all others are compared."""
_GUARANTEES: dict[Claim, str] = subset(
    "the claim `contract` stands for all that settings promise, and is no guarantee of its own",
    {
        "exactly_once": "exactly once",
        "at_least_once": "at least once",
        "at_most_once": "at most once",
        "ordered": "in order",
    },
)


@dataclass(frozen=True)
class Bar:
    """The row of one profile in a chart.

    * `guarantee`: what the profile guarantees if a leader is killed, in words.
    * `figure`: the measured figure as text. `ratio`: this figure divided by the figure of acks_1, as text.
    * `left`, `width`: the place of the bar in percent of the chart's width.
    * `in_doubt`: whether the run of this profile or of acks_1 is INCONCLUSIVE.
    """

    profile: str
    guarantee: str
    figure: str
    ratio: str
    left: float
    width: float
    in_doubt: bool


@dataclass(frozen=True)
class Chart:
    """One chart. `better`: which direction is better, in words. `ticks`: the place in percent and the text of each tick
    of the scale. `absent`: the profiles for which the figure is not known."""

    title: str
    better: str
    bars: list[Bar]
    ticks: list[tuple[float, str]]
    absent: list[str]


@dataclass(frozen=True)
class _Measure:
    """A figure that has a chart. `figure` is a function that returns the figure of a run. `text` is a function that
    returns a figure as text."""

    title: str
    better: str
    condition: Condition
    figure: Callable[[MeasuredRun], float | None]
    text: Callable[[float], str]


def _records_per_s(value: float) -> str:
    return f"{number(round(value))}/s"


_MEASURES = (
    _Measure(
        "Throughput, as fast as the client can",
        "more is better",
        "flat_out",
        lambda run: run.records_per_s,
        _records_per_s,
    ),
    _Measure("Latency, half within, no fault", "less is better", "none", lambda run: run.latency_ms_p50, latency),
    _Measure("Latency, 99 % within, no fault", "less is better", "none", lambda run: run.latency_ms_p99, latency),
    _Measure(
        "Latency, 99 % within, leader killed", "less is better", "kill_leader", lambda run: run.latency_ms_p99, latency
    ),
)


def charts(price: Price) -> list[Chart]:
    """Returns the charts, one per figure. Leaves out a chart if the figure of acks_1 is not known or 0."""
    return [chart for measure in _MEASURES if (chart := _chart(price, measure)) is not None]


def guarantee(price: Price, profile: str) -> str:
    """Returns the guarantee of `profile` if a leader is killed, in words, e.g. `exactly once and in order`."""
    claims = next((run.guarantees for run in price.measured if run.name == profile), [])
    shown = [claim for claim in claims if "exactly_once" not in claims or claim in ("exactly_once", "ordered")]
    return enumeration([_GUARANTEES[claim] for claim in _GUARANTEES if claim in shown], last="and") or "nothing"


def _chart(price: Price, measure: _Measure) -> Chart | None:
    runs = {profile: price.run_under(profile, measure.condition) for profile in price.profiles}
    figures = {
        profile: (run, figure)
        for profile, run in runs.items()
        if run is not None and (figure := measure.figure(run)) is not None and figure > 0
    }
    if BASE not in figures:
        return None
    base_run, base = figures[BASE]
    powers = {profile: math.log2(figure / base) for profile, (_, figure) in figures.items()}
    span = max(1, *(math.ceil(abs(power)) for power in powers.values()))
    bars = []
    for profile, (run, figure) in figures.items():
        width = 50 * abs(powers[profile]) / span
        bars.append(
            Bar(
                profile=profile,
                guarantee=guarantee(price, profile),
                figure=measure.text(figure),
                ratio=f"{figure / base:.2f}×" if figure / base < 10 else f"{figure / base:,.0f}×",
                left=round(50 - width if powers[profile] < 0 else 50, 2),
                width=round(width, 2),
                in_doubt="INCONCLUSIVE" in (run.verdict, base_run.verdict),
            )
        )
    return Chart(
        measure.title, measure.better, bars, _ticks(span), [name for name in price.profiles if name not in figures]
    )


def _ticks(span: int) -> list[tuple[float, str]]:
    """Returns the ticks of a scale from 2 ** -span to 2 ** span: the ends, the middle, and the points halfway between
    them. Each tick has a place in percent and a text."""
    powers = sorted({-span, -(span // 2), 0, span // 2, span})
    return [(50 + 50 * power / span, f"{2**power:,}×" if power >= 0 else f"1/{2**-power:,}×") for power in powers]
