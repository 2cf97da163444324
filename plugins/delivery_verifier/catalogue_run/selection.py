"""The selection: which entries a catalogue run takes, and which of them it expects to be unavailable."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import get_args

from delivery_verifier.catalogue.entries import ENTRIES, MODULES
from delivery_verifier.catalogue.entry import Entry
from delivery_verifier.fields import choice
from delivery_verifier.scenario import BadInput, equipment_of
from delivery_verifier.vocabulary import Equipment

KINDS: dict[str, str] = {
    entry.name: module.__name__.rpartition(".")[2] for module in MODULES for entry in module.ENTRIES
}
"""The kind of every entry: the module that holds it."""


def entries(names: Sequence[str] = (), tag: str = "") -> list[Entry]:
    """The entries that are named, or have the tag, or all, in the order of the catalogue. Raises BadInput."""
    for name in names:
        choice("scenario", name, ENTRIES, "`kdv list scenarios` describes them")
    if tag:
        choice("tag", tag, tags())
    found = [entry for entry in ENTRIES.values() if (not names or entry.name in names) and (not tag or tag in entry.tags)]
    if not found:
        raise BadInput(f"tag is {tag!r}, which none of the scenarios has that were named: {', '.join(names)}; leave out one")
    return found


def tags() -> list[str]:
    """All tags that any entry has."""
    return sorted({tag for entry in ENTRIES.values() for tag in entry.tags})


def words_of(entry: Entry) -> set[str]:
    """By what an entry may be expected to be unavailable: its name, kind, tags, and the equipment its fault needs."""
    return {entry.name, KINDS[entry.name], *entry.tags, *equipment_of(entry.fault)}


def expectable(text: str) -> tuple[str, ...]:
    """`power,network` as the words of which one suffices for an entry to be expected to be unavailable. Raises BadInput."""
    known = sorted({word for entry in ENTRIES.values() for word in words_of(entry)} | set(get_args(Equipment)))
    return tuple(choice("expect_unavailable", word.strip(), known) for word in text.split(",") if word.strip())


def expected_here() -> str:
    """What this host is known not to be able to run: KDV_EXPECT_UNAVAILABLE, else nothing."""
    return os.environ.get("KDV_EXPECT_UNAVAILABLE", "")
