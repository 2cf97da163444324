"""Checks of single values that a user gave. The message of a refusal has the field, the value, what is allowed, and a
remedy."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable

from delivery_verifier.model.errors import VerifierError

_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_SHOWN = 80
"""The greatest number of characters of a value that a message shows."""


class BadInput(VerifierError, ValueError):
    """The value that the user gave for a field is not allowed. The message names the field, the value, what is allowed,
    and a remedy if there is one.

    `messages` holds one message per refused value. The text of the error has one line per message.
    """

    exit_code = 64

    def __init__(self, *messages: str) -> None:
        count = len(messages)
        super().__init__("\n".join([f"{count} errors:", *messages]) if count > 1 else messages[0])
        self.messages = messages


class ValidationErrors:
    """Collects the BadInput errors of several checks, so that a user learns of all errors at once.

    Write each check as the block of a `with` statement. Call `require_none` after all checks.
    """

    def __init__(self) -> None:
        self.messages: list[str] = []

    def __enter__(self) -> None:
        """Begins the block of one check."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, BadInput):
            return False
        self.messages += [message for message in error.messages if message not in self.messages]
        return True

    def require_none(self) -> None:
        """Raises BadInput if a check failed. The message has one line per error."""
        if self.messages:
            raise BadInput(*self.messages)


def whole(field: str, value: object, low: int, high: int, example: int | None = None) -> int:
    """Returns `value` as a whole number. `value` may be text, as from a command line.

    Raises BadInput if `value` is no whole number from `low` to `high`. The message names `field`, and suggests
    `example` or, without an example, the nearest allowed number.
    """
    number = _as_whole(value)
    if number is None or not low <= number <= high:
        allowed = f"a whole number from {low} to {high}"
        raise bad_input(field, value, allowed, f"e.g. {_nearest_number(number, low, high, example)}")
    return number


def decimal(field: str, value: object, low: float, high: float, *, above: bool = False) -> float:
    """Returns `value` as a finite number. `value` may be text, as from a command line.

    Raises BadInput if `value` is no number from `low` to `high`. If `above` is true, `low` itself is refused, too. The
    message names `field`.
    """
    number = _as_decimal(value)
    if number is None or not (low < number if above else low <= number) or number > high:
        allowed = f"a number above {low:g} and up to {high:g}" if above else f"a number from {low:g} to {high:g}"
        raise bad_input(field, value, allowed, f"e.g. {min(max(10.0, low), high):g}")
    return number


def choice(field: str, value: object, allowed: Iterable[str], remedy: str = "") -> str:
    """Returns `value` if it is in `allowed`. Otherwise raises BadInput. The message names `field`.

    The message suggests the name in `allowed` that is most similar to `value`. If no name is similar, the message ends
    with `remedy`.
    """
    known = list(allowed)
    if isinstance(value, str) and value in known:
        return value
    near = nearest(str(value), known)
    raise bad_input(field, value, ", ".join(known), f"did you mean {near}?" if near else remedy)


def nearest(text: str, known: Iterable[str]) -> str | None:
    """Returns the name in `known` that is most similar to `text`, or None if no name is similar."""
    folded = {name.lower().replace("-", "_"): name for name in known}
    matches = difflib.get_close_matches(text.lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None


def shown(value: object) -> str:
    """Returns `value` as messages show it: the `repr` of Python on one line, cut after 80 characters."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(str(value))} characters)"


def bad_input(field: str, value: object, allowed: str, remedy: str = "") -> BadInput:
    """Returns the error for a value that is not allowed. The message has `field`, `value`, `allowed` and `remedy`.

    `allowed` says in words which values are allowed. `remedy` says what to do instead; empty if there is no advice.
    """
    return BadInput(f"{field} is {shown(value)}; allowed: {allowed}" + (f"; {remedy}" if remedy else ""))


def _as_whole(value: object) -> int | None:
    if isinstance(value, str):
        return int(value) if _WHOLE.fullmatch(value.strip()) else None
    if isinstance(value, float):  # JSON does not distinguish 20000.0 from 20000
        return int(value) if value.is_integer() and abs(value) < 2**53 else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _as_decimal(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _nearest_number(number: int | None, low: int, high: int, example: int | None) -> int:
    """Returns the number that a message suggests: `example`, if there is one.

    Without an example, returns the number from `low` to `high` that is nearest to `number`. If `number` is None,
    returns `low`.
    """
    if example is not None:
        return example
    return low if number is None else min(max(number, low), high)
