"""Data: the base of everything that is written to a file, and how values become JSON."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

Setting = str | int | bool
"""A value of a Kafka property."""

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]


class Data(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all scenario data: immutable, and a misspelt field is an error, never a default."""


def dumps(value: Struct | list[object] | dict[str, object]) -> bytes:
    """Canonical, readable JSON: two equal values give equal bytes."""
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2) + b"\n"


def setting_text(value: object) -> str:
    """A property's value as Kafka's own files and brokers write it, e.g. `true`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
