"""Facts about the observer: which exit codes mean an orderly end, and which observations an injection may explain."""

from __future__ import annotations

from delivery_verifier.model.history import LEAD_US, Injection

SIGTERM_EXITS = (0, -15, 143)
"""The exit codes of an orderly end. A JVM answers SIGTERM with 143. Any other exit code means a crash."""
OBSERVER_LAG_US = 1_000_000
"""The longest time in µs between a change and its observation. The observer is late because it polls."""


def in_window(injection: Injection, at_us: int) -> bool:
    """Whether the injection may have caused a change that the observer saw at `at_us` (µs since the epoch)."""
    end_us = injection.recovered_at_us
    return injection.bite_at_us - LEAD_US <= at_us and (end_us is None or at_us <= end_us + OBSERVER_LAG_US)
