"""Waiting for a predicate, with a deadline and a message. No other module of this project sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from delivery_verifier.model.errors import VerifierError

T = TypeVar("T")


class DeadlinePassed(VerifierError, TimeoutError):
    """A predicate did not become true within its deadline."""


def wait_until(
    predicate: Callable[[], T | None],
    what: str,
    deadline_s: float,
    every_s: float = 0.05,
    detail: Callable[[], str] = str,
) -> T:
    """Polls `predicate` until it returns a true value, and returns that value.

    `what` completes the sentence "waited in vain: ..."; `detail` adds what is known when the deadline passes. Raises
    DeadlinePassed after `deadline_s` seconds.
    """
    end = time.monotonic() + deadline_s
    while True:
        if result := predicate():
            return result
        if time.monotonic() >= end:
            raise DeadlinePassed(f"waited {deadline_s:g} s in vain: {what} {detail()}".rstrip())
        time.sleep(every_s)


def pause(seconds: float) -> None:
    """Sleeps for `seconds`. For cases where time itself matters: pacing, polling, or a freeze of a fixed length."""
    time.sleep(seconds)
