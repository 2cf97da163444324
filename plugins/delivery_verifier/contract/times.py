"""Times that may be unknown (None). All times are in µs since the epoch."""

from __future__ import annotations

from collections.abc import Iterable


def latest(times: Iterable[int | None]) -> int | None:
    """Returns the latest of `times`; None if one of them is unknown, or if there are none."""
    listed = list(times)
    known = [time for time in listed if time is not None]
    return max(known, default=None) if known == listed else None
