"""Values of properties: text from a file becomes a number, true or false, or a word."""

from __future__ import annotations

from typing import Literal

from delivery_verifier.model import inputs
from delivery_verifier.model.data import Setting
from delivery_verifier.model.inputs import BadInput

Kind = Literal["int", "bool", "float", "text"]
_ALLOWED: dict[Kind, str] = {"int": "a whole number", "bool": "true, false", "text": "a word", "float": "a number"}


def typed(name: str, text: str) -> Setting:
    """The value of `text`: a whole number, true, false, or else the text itself. Raises BadInput if `text` is empty."""
    if not text:
        raise BadInput(f"{name} has no value: give one, or leave the name out for its default")
    if name == "acks":
        return "all" if text.lower() in ("all", "-1") else text
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text)
    except ValueError:
        return text


def checked(name: str, text: str, kind: Kind) -> Setting:
    """The value of `text`, which must be of `kind`. A `float` stays a text, for Kafka to read. Raises BadInput."""
    value = typed(name, text)
    if not _fits(value, text, kind):
        raise inputs.bad_input(name, text, _ALLOWED[kind])
    return text if kind == "float" else value


def whole_number(name: str, text: str) -> int:
    """The value of `text` as a whole number from -1 on. Raises BadInput."""
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
        return type(value) is int  # a bool is an int for isinstance
    return isinstance(value, bool if kind == "bool" else str)
