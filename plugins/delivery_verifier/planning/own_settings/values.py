"""Values of properties: turns a text from a file into a number or a truth value, or leaves it a text."""

from __future__ import annotations

import re
from typing import Literal

from delivery_verifier.model import inputs
from delivery_verifier.model.data import Setting
from delivery_verifier.model.inputs import BadInput

_WHOLE = re.compile(r"[+-]?[0-9]+")
"""A whole number as Java and C read it. Python also takes `1_000`."""
Kind = Literal["int", "bool", "float", "text"]
_ALLOWED: dict[Kind, str] = {"int": "a whole number", "bool": "true, false", "text": "a word", "float": "a number"}


def typed(name: str, text: str) -> Setting:
    """Returns the value that `text` stands for: a whole number, true or false. Any other `text` is returned as it is.

    A value of `acks` is always a text, and `-1` becomes `all`. Raises BadInput if `text` is empty, and for a number as
    only Python has it.
    """
    if not text:
        raise BadInput(f"{name} has no value: give one, or leave the name out for its default")
    if name == "acks":
        return "all" if text.lower() in ("all", "-1") else text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        number = int(text)
    except ValueError:
        return text
    if _WHOLE.fullmatch(text) is None:
        raise inputs.bad_input(name, text, _ALLOWED["int"])
    return number


def checked(name: str, text: str, kind: Kind) -> Setting:
    """Returns the value that `text` stands for. Raises BadInput, which shows `name`, if the value is not of `kind`.

    For the kind `float`, returns `text` itself, because the verifier does not calculate with the number.
    """
    value = typed(name, text)
    if not _fits(value, text, kind):
        raise inputs.bad_input(name, text, _ALLOWED[kind])
    return text if kind == "float" else value


def whole_number(name: str, text: str) -> int:
    """Returns the whole number that `text` stands for.

    Raises BadInput, which shows the property's `name`, if `text` is no whole number or if the number is below -1.
    """
    value = typed(name, text)
    if type(value) is not int or value < -1:
        raise inputs.bad_input(name, text, _ALLOWED["int"])
    return value


def _fits(value: Setting, text: str, kind: Kind) -> bool:
    if kind == "float":
        try:
            float(text)
        except ValueError:
            return False
        return True
    if kind == "int":
        return type(value) is int  # not isinstance, which takes a bool for an int
    return isinstance(value, bool if kind == "bool" else str)
