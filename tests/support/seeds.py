"""The number and the seeds of random histories. `make test-all` plays more of them, and other ones each day; a campaign
plays further rounds (bench/campaigns/random_histories.py)."""

from __future__ import annotations

import os

NUMBER, FEWEST = "KDV_TEST_HISTORIES", 250
"""The environment variable with the number of random histories, and how many `make test` plays."""
ROUND = "KDV_TEST_HISTORIES_ROUND"
"""Environment variable with the number of the round. If it is not set, the round is 0: the round of `make test`."""
APART = 1_000_000
"""The distance between the seeds of two rounds. One round has fewer histories than this number."""


def histories() -> int:
    """Returns how many random histories are played."""
    return int(os.environ.get(NUMBER, FEWEST))


def in_this_round(seed: int) -> int:
    """Returns the first seed of this round. `seed` is the first seed of round 0."""
    return seed + APART * int(os.environ.get(ROUND, "0"))
