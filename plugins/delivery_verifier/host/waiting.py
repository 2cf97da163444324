"""Waiting for a predicate with a deadline and a message: the only place where this project sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from delivery_verifier.model.errors import VerifierError

T = TypeVar("T")


class DeadlinePassed(VerifierError, TimeoutError):
    """What was waited for did not come true in time."""


def wait_until(
    predicate: Callable[[], T | None],
    what: str,
    deadline_s: float,
    every_s: float = 0.05,
    detail: Callable[[], str] = str,
) -> T:
    """Polls until `predicate` returns something true, and returns it. Raises DeadlinePassed naming `what`."""
    end = time.monotonic() + deadline_s
    while True:
        if result := predicate():
            return result
        if time.monotonic() >= end:
            raise DeadlinePassed(f"waited {deadline_s:g} s in vain: {what} {detail()}".rstrip())
        time.sleep(every_s)


def pause(seconds: float) -> None:
    """Lets `seconds` pass where time itself is what is wanted (pacing, a freeze of a given length)."""
    time.sleep(seconds)
