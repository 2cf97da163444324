"""The base class of a scenario's parts, types of values that several modules use, and the conversion of values to JSON
and to text."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

Setting = str | int | bool
"""The value of a Kafka property."""

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
"""A name of at most 63 letters, digits, `_`, `.` and `-` that begins with a letter or digit."""


class Data(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base class of a scenario's parts. Instances are immutable. An unknown field, e.g. a misspelt name, is an
    error."""


def dumps(value: Struct | list[object] | dict[str, object]) -> bytes:
    """Returns `value` as indented JSON with a final newline. Equal values give equal bytes: dict keys are sorted."""
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2) + b"\n"


def setting_text(value: object) -> str:
    """Returns the value of a Kafka property as text, in the way that Kafka's files and brokers write it: `true`, not
    `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
