"""The format of the run directory: its name, its version, and the digest of its schema.

Until the first release, the version stays 1, and each change of the schema gives another digest. A run of another
format, version or digest is refused by name, and no reader of an older one is kept.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import msgspec

from delivery_verifier.model.history import Injection, Observation
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.run_directory.tables import TABLES

FORMAT = "kdv-run 1"
"""Name and version of the format that this program writes, and the only one that it reads."""

MEANINGS = 2
"""A part of the digest. Raise it if a meaning changes that no schema shows: of a column, an invariant or a doubt, or
what a planter writes into the canary."""

_FILES: dict[str, Any] = {
    "scenario.json": Scenario,
    "injections.json": list[Injection],
    "observations.json": list[Observation],
    "offsets.json": Offsets,
    "verdict.json": RunVerdict,
}
_OF_PEOPLE = ("title", "description", "examples", "meaning")
"""What a schema says to people. It may change without another digest."""


@cache
def schema_digest() -> str:
    """Returns the digest of the schema: 16 hexadecimal digits of a SHA-256. It covers the names, types and nullability
    of all columns, and the fields, types and allowed values of the JSON files that `model` declares."""
    tables = {table.file: [(column.name, column.type, column.nullable) for column in table.columns] for table in TABLES}
    files = {
        name: _bare(msgspec.json.schema(type_, schema_hook=lambda any_: {"title": any_.__name__}))
        for name, type_ in sorted(_FILES.items())
    }
    return hashlib.sha256(msgspec.json.encode([MEANINGS, tables, files], order="sorted")).hexdigest()[:16]


def _bare(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _bare(value) for key, value in schema.items() if key not in _OF_PEOPLE or isinstance(value, dict)}
    return [_bare(value) for value in schema] if isinstance(schema, list) else schema
