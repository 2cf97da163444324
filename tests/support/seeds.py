"""The seeds of random histories. A campaign plays further rounds of them (bench/histories.py)."""

from __future__ import annotations

import os

ROUND = "KDV_HISTORIES_ROUND"
"""Environment variable with the number of the round. If it is not set, the round is 0: the round of `make test`."""
APART = 1_000_000
"""The distance between the seeds of two rounds. One round has fewer histories than this number."""


def in_this_round(seed: int) -> int:
    """Returns the first seed of this round. `seed` is the first seed of round 0."""
    return seed + APART * int(os.environ.get(ROUND, "0"))
