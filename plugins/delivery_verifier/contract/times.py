"""Times that may be unknown (None). All times are in µs since the epoch."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int | None]
"""A period of time: its begin and its end. The end is None if the period lasts until the end of the run."""


def latest(times: Iterable[int | None]) -> int | None:
    """Returns the latest of `times`. Returns None if one of them is unknown, or if `times` is empty."""
    listed = list(times)
    known = [time for time in listed if time is not None]
    return max(known, default=None) if known == listed else None
