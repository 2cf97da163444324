"""Inputs: checks of single values that a user gave. A refusal names the field, what is allowed, and a remedy."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from delivery_verifier.model.errors import VerifierError

_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_SHOWN = 80


class BadInput(VerifierError, ValueError):
    """A field that the user gave is not allowed. The message names field, value, what is allowed, and the remedy."""

    exit_code = 64


def whole(field: str, value: object, low: int, high: int, example: int | None = None) -> int:
    """`value` as a whole number from `low` to `high`; text, as a command line gives it, is read. Raises BadInput."""
    number = _as_whole(value)
    if number is None or not low <= number <= high:
        allowed = f"a whole number from {low} to {high}"
        raise bad_input(field, value, allowed, f"e.g. {_nearest_number(number, low, high, example)}")
    return number


def decimal(field: str, value: object, low: float, high: float, *, above: bool = False) -> float:
    """`value` as a finite number from `low` (or `above` it) to `high`. Raises BadInput."""
    number = _as_decimal(value)
    if number is None or not (low < number if above else low <= number) or number > high:
        allowed = f"a number above {low:g} and up to {high:g}" if above else f"a number from {low:g} to {high:g}"
        raise bad_input(field, value, allowed, f"e.g. {min(max(10.0, low), high):g}")
    return number


def choice(field: str, value: object, allowed: Iterable[str], remedy: str = "") -> str:
    """`value`, which must be one of `allowed`. Raises BadInput, with the nearest match if one is near."""
    known = list(allowed)
    if isinstance(value, str) and value in known:
        return value
    near = nearest(str(value), known)
    raise bad_input(field, value, ", ".join(known), f"did you mean {near}?" if near else remedy)


def nearest(text: str, known: Iterable[str]) -> str | None:
    """The name in `known` that `text` is most likely a misspelling of; None if no name is near."""
    folded = {name.lower().replace("-", "_"): name for name in known}
    matches = difflib.get_close_matches(text.lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None


def limits(owner: type[Struct], field: str) -> tuple[int, int | None]:
    """Lowest and highest value of an integer field, as the scenario declares them. The highest is None if there is
    none."""
    declared: Any = next(f for f in msgspec.inspect.type_info(owner).fields if f.name == field).type  # type: ignore[attr-defined]
    if isinstance(declared, msgspec.inspect.UnionType):
        declared = next(member for member in declared.types if isinstance(member, msgspec.inspect.IntType))
    return declared.ge, declared.lt - 1 if declared.lt is not None else declared.le


def shown(value: object) -> str:
    """A value as a message shows it: quoted, on one line, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(str(value))} characters)"


def bad_input(field: str, value: object, allowed: str, remedy: str = "") -> BadInput:
    """The one form of all refusals: field, value, what is allowed, remedy."""
    return BadInput(f"{field} is {shown(value)}; allowed: {allowed}" + (f"; {remedy}" if remedy else ""))


def _as_whole(value: object) -> int | None:
    if isinstance(value, str):
        return int(value) if _WHOLE.fullmatch(value.strip()) else None
    if isinstance(value, float):  # JSON knows no integers: 20000.0 is 20000
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
    if example is not None:
        return example
    return low if number is None else min(max(number, low), high)
