"""The observer: how it sees broker processes, and when what it sees may be an injection's doing."""

from __future__ import annotations

from delivery_verifier.model.history import LEAD_US, Injection

SIGTERM_EXITS = (0, -15, 143)
"""Exit codes of an orderly end; a JVM answers SIGTERM with 143. Any other exit is a crash."""
OBSERVER_LAG_US = 1_000_000
"""The observer polls: it may see a change this much late."""


def in_window(injection: Injection, at_us: int) -> bool:
    """Whether the injection may have caused a change that was seen at `at_us` (µs since the epoch)."""
    end_us = injection.recovered_at_us
    return injection.bite_at_us - LEAD_US <= at_us and (end_us is None or at_us <= end_us + OBSERVER_LAG_US)
