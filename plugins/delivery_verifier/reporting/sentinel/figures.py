"""The figures of a sentinel's history: how available the cluster was, how fast it acknowledged, and how its results
changed. Every figure is one of results, and a run without a verdict never counts as a success."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from statistics import median

from msgspec import Struct
from msgspec.structs import replace

from delivery_verifier.model.sentinel import SentinelResult, State

_DAY_US = 86_400_000_000
WINDOWS_US = {"24 hours": _DAY_US, "7 days": 7 * _DAY_US, "30 days": 30 * _DAY_US}
LATE = 3.0
"""A result is late if it is missing for this many times the usual time between two results."""


class Window(Struct, frozen=True, kw_only=True):
    """The figures of the results of some time.

    * `counts`: how many runs ended in each state. `held`, `tried`: how many ended HELD, of how many that were not
      skipped.
    * `in_time`, `attempted`: how many records were acknowledged in time, of how many that the runs with a verdict
      attempted to send.
    * `latency_ms_p50`: the median over the runs of their median latency. `latency_ms_p99`: the highest 99th percentile
      of a run. None: nothing was acknowledged.
    """

    title: str
    counts: dict[State, int]
    held: int
    tried: int
    in_time: int
    attempted: int
    latency_ms_p50: float | None
    latency_ms_p99: float | None


class Stretch(Struct, frozen=True):
    """Consecutive results in one state, newest first. `skipped`: how many runs between and before them were skipped.
    Only the newest stretch can be one of runs that were skipped."""

    results: list[SentinelResult]
    skipped: int = 0

    @property
    def newest(self) -> SentinelResult:
        """The newest result."""
        return self.results[0]

    @property
    def oldest(self) -> SentinelResult:
        """The oldest result."""
        return self.results[-1]


def windows(results: Sequence[SentinelResult], at_us: int) -> list[Window]:
    """Returns the figures of the times of WINDOWS_US before `at_us`. A longer time is left out if it has no more
    results than a shorter one."""
    shown = list[Window]()
    for title, long_us in WINDOWS_US.items():
        within = [result for result in results if result.at_us > at_us - long_us]
        if within and (not shown or len(within) > sum(shown[-1].counts.values())):
            shown.append(window(f"Last {title}", within))
    return shown


def window(title: str, results: Sequence[SentinelResult]) -> Window:
    """Returns the figures of `results`."""
    counts = Counter(result.state for result in results)
    arms = [arm for result in results for arm in result.arms]
    return Window(
        title=title,
        counts=dict(counts),
        held=counts["HELD"],
        tried=len(results) - counts["SKIPPED"],
        in_time=sum(arm.in_time for arm in arms),
        attempted=sum(arm.attempted for arm in arms),
        latency_ms_p50=median(known) if (known := _known(results, p50)) else None,
        latency_ms_p99=max(_known(results, p99), default=None),
    )


def p50(result: SentinelResult) -> float | None:
    """Returns the highest median latency of an arm, in ms; None if nothing was acknowledged."""
    return max((arm.latency_ms_p50 for arm in result.arms if arm.latency_ms_p50 is not None), default=None)


def p99(result: SentinelResult) -> float | None:
    """Returns the highest 99th percentile of an arm's latencies, in ms; None if nothing was acknowledged."""
    return max((arm.latency_ms_p99 for arm in result.arms if arm.latency_ms_p99 is not None), default=None)


def late(result: SentinelResult) -> int | None:
    """Returns how many records were not acknowledged in time; None if the run has no verdict."""
    return sum(arm.attempted - arm.in_time for arm in result.arms) if result.arms else None


def stretches(results: Sequence[SentinelResult]) -> list[Stretch]:
    """Returns the stretches of `results`, newest first. A run that was skipped changes nothing, so it ends none."""
    joined = list[Stretch]()
    for state, group in groupby(results, key=lambda result: result.state):
        members = list(group)
        if joined and state == "SKIPPED":
            joined[-1] = replace(joined[-1], skipped=joined[-1].skipped + len(members))
        elif joined and state == joined[-1].newest.state:
            joined[-1] = replace(joined[-1], results=[*joined[-1].results, *members])
        else:
            joined.append(Stretch(members))
    return joined


def overdue_s(results: Sequence[SentinelResult], at_us: int) -> float | None:
    """Returns the age in seconds of the newest result if the next one is late at `at_us`. Returns None if it is not, or
    if there are fewer than three results."""
    gaps_us = [newer.at_us - older.at_us for newer, older in pairwise(results[:50])]
    if len(gaps_us) < 2 or at_us - results[0].at_us <= LATE * median(gaps_us):
        return None
    return (at_us - results[0].at_us) / 1e6


def _known(results: Sequence[SentinelResult], figure: Callable[[SentinelResult], float | None]) -> list[float]:
    return [value for result in results if (value := figure(result)) is not None]
