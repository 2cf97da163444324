"""Facts about the observer of the cluster: which exit codes mean an orderly end, and which observations an injection
may explain."""

from __future__ import annotations

from collections.abc import Iterable

from delivery_verifier.model.history import LEAD_US, Injection

SIGTERM_EXITS = (0, -15, 143)
"""The exit codes of a broker process that ended in an orderly way: 0, -15 (the process was ended by SIGTERM) and 143 (a
JVM that shut down on SIGTERM). Any other exit code means a crash."""
OBSERVER_LAG_US = 1_000_000
"""The longest time in µs between a change and its observation. The observer is late because it polls."""


def in_window(injection: Injection, at_us: int) -> bool:
    """Returns whether the injection may have caused a change that the observer saw at `at_us` (µs since the epoch).

    The earliest such time is LEAD_US (one second) before the effect, the moment when the injection took effect. The
    latest such time is OBSERVER_LAG_US (one second) after the cluster recovered. If the cluster never recovered, there
    is no latest time.
    """
    end_us = injection.recovered_at_us
    return injection.effect_at_us - LEAD_US <= at_us and (end_us is None or at_us <= end_us + OBSERVER_LAG_US)


def unrecovered_since_us(injections: Iterable[Injection], at_us: int) -> int:
    """Returns the beginning of the earliest injection window that contains `at_us`. If no window contains `at_us`,
    returns `at_us`.

    Each injection has a window, in which it may cause changes (see `in_window`). All times are in µs since the epoch.
    """
    return min((each.effect_at_us - LEAD_US for each in injections if in_window(each, at_us)), default=at_us)
