"""The observer: how it sees broker processes, and which of its observations an injection may have caused."""

from __future__ import annotations

from delivery_verifier.model.history import LEAD_US, Injection

SIGTERM_EXITS = (0, -15, 143)
"""Exit codes of an orderly end; a JVM answers SIGTERM with 143. Any other exit is a crash."""
OBSERVER_LAG_US = 1_000_000
"""How late (µs) the observer may see a change, because it polls."""


def in_window(injection: Injection, at_us: int) -> bool:
    """Whether the injection may have caused a change that was seen at `at_us` (µs since the epoch)."""
    end_us = injection.recovered_at_us
    return injection.bite_at_us - LEAD_US <= at_us and (end_us is None or at_us <= end_us + OBSERVER_LAG_US)
