"""The selection: which entries a catalogue run takes, and which of these entries it expects to be unavailable."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from delivery_verifier.catalogue.entry import Entry
from delivery_verifier.catalogue.scenarios import ENTRIES, MODULES
from delivery_verifier.model.act import CAPABILITIES
from delivery_verifier.model.inputs import BadInput, choice

KINDS: dict[str, str] = {
    entry.name: module.__name__.rpartition(".")[2] for module in MODULES for entry in module.ENTRIES
}
"""The kind of every entry, by the entry's name. The kind is the name of the module that holds the entry."""


def entries(names: Sequence[str] = (), tag: str = "") -> list[Entry]:
    """Returns the entries with one of `names` and with `tag`, in the order of the catalogue. Raises BadInput.

    If `names` is empty, every name fits. If `tag` is empty, every tag fits.
    """
    for name in names:
        choice("scenario", name, ENTRIES, "`kdv list scenarios` describes them")
    if tag:
        choice("tag", tag, tags())
    selected = [
        entry for entry in ENTRIES.values() if (not names or entry.name in names) and (not tag or tag in entry.tags)
    ]
    if not selected:
        raise BadInput(
            f"tag is {tag!r}, which none of the scenarios has that were named: {', '.join(names)}; leave out one"
        )
    return selected


def tags() -> list[str]:
    """Returns the tags of all entries, sorted."""
    return sorted({tag for entry in ENTRIES.values() for tag in entry.tags})


def expects(words: Collection[str], entry: Entry, lacking: Collection[str]) -> bool:
    """Returns whether `words` say that an entry may be unavailable.

    They do if they name the entry, its kind, or every capability that the host lacks for the entry (`lacking`). If the
    backend cannot run here, `lacking` holds the backend, which no word can name.
    """
    kind = KINDS[entry.name]
    is_named = entry.name in words or (kind in words and kind not in CAPABILITIES)
    return is_named or (bool(lacking) and set(lacking) <= set(words))


EXPECTABLE: tuple[str, ...] = (*CAPABILITIES, *sorted({*KINDS.values()} - {*CAPABILITIES}), *ENTRIES)
"""The words for what may be expected to be unavailable: equipment, kinds of entries, and names of entries."""


def expectable(text: str) -> tuple[str, ...]:
    """Returns the words in `text`, for example `power,network`. `expects` takes these words. Raises BadInput."""
    return tuple(choice("expect_unavailable", word.strip(), EXPECTABLE) for word in text.split(",") if word.strip())


def expected_here() -> str:
    """Returns the words for what this host cannot run: the value of KDV_EXPECT_UNAVAILABLE, or an empty text."""
    return os.environ.get("KDV_EXPECT_UNAVAILABLE", "")
