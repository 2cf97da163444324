"""An exact oracle of the silences of a load, which looks at every report."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from support.run_directories import Row

Micros = NDArray[np.int64]
"""Times in µs."""


def check_gaps(rows: list[Row], reports: dict[tuple[str, int], Micros], began_us: int, slot_us: int) -> Counter[str]:
    """Fails if a gap is off by more than its stated error. Returns how many were exact, and how many were short."""
    seen: Counter[str] = Counter()
    for row in rows:
        expected_us = _longest_us(reports[row["arm"], row["partition"]], began_us)
        if expected_us is None or row["longest_gap_s"] is None:
            assert row["longest_gap_s"] is None and (expected_us is None or expected_us < slot_us)
            continue
        length_us = round(row["longest_gap_s"] * 1e6)
        is_long = expected_us >= slot_us
        assert length_us == expected_us if is_long else expected_us - slot_us < length_us <= expected_us, row
        seen["exact" if is_long else "short"] += 1
    return seen


def _longest_us(times: Micros, began_us: int) -> int | None:
    """The longest time between two consecutive reports, of which only the part after `began_us` counts."""
    ordered = np.sort(times)
    lengths = (ordered[1:] - np.maximum(ordered[:-1], began_us))[ordered[1:] > began_us]
    return int(lengths.max()) if len(lengths) else None
