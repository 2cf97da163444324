"""Two functions that wait: `wait_until` waits until a predicate is true, and `pause` waits for a fixed time.

No other module of this project calls `time.sleep`. So each wait has a deadline, or is an obvious `pause`.
"""

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
    """Calls `predicate` at once, and then every `every_s` seconds until `predicate` returns a true value. Returns that
    value.

    Raises DeadlinePassed after `deadline_s` seconds, with the message "timed out after <deadline_s> s waiting for:
    <what> <detail()>". `what` names the awaited condition. `detail` is called when the deadline passes, and describes
    the state at that time.
    """
    end = time.monotonic() + deadline_s
    while True:
        if result := predicate():
            return result
        if time.monotonic() >= end:
            raise DeadlinePassed(f"timed out after {deadline_s:g} s waiting for: {what} {detail()}".rstrip())
        time.sleep(every_s)


def pause(seconds: float) -> None:
    """Sleeps for `seconds`. Use it only where time itself matters: pacing, polling, or a freeze of a fixed length."""
    time.sleep(seconds)
