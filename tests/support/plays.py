"""Tests that need a moment which a slow host can miss. Such a test is played again, at most twice."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PLAYS = 3


class MomentMissed(Exception):
    """The host was too slow for the moment that the test needs. So the test has shown nothing."""


def played(play: Callable[[], T]) -> T:
    """Returns the result of `play`. Plays again if it raises MomentMissed, and warns of that. Raises the error of the
    last play."""
    for _ in range(PLAYS - 1):
        try:
            return play()
        except MomentMissed as missed:
            warnings.warn(f"played again: {missed}", stacklevel=2)
    return play()
