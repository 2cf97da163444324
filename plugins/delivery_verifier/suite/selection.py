"""The selection: the entries that a catalogue run runs, and the entries that the user expects to be unavailable."""

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
"""The kind of every entry, by the entry's name. The kind is the name of the entry's module, e.g. `acks`."""


def entries(names: Sequence[str] = (), tag: str = "") -> list[Entry]:
    """Returns the entries whose names are in `names` and that have the tag `tag`, in the order of the catalogue.

    If `names` is empty, all names are selected. If `tag` is empty, all tags are selected. Raises BadInput if a name or
    the tag is unknown, or if none of the named entries has the tag.
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
    """Returns whether the user expects this host to be unable to run `entry`.

    `words` has what the user expects this host to be unable to run (see EXPECTABLE). `lacking` has the capabilities
    that this host lacks for the entry. The result is true in two cases:

    * `words` contains the name of the entry, or the kind of the entry. If a word is the name of a kind and also of a
      capability, e.g. `power`, it counts only as the capability.
    * The host lacks capabilities, and `words` contains all of them. A missing backend is never expected in this way,
      because EXPECTABLE has no word for a backend.
    """
    kind = KINDS[entry.name]
    is_named = entry.name in words or (kind in words and kind not in CAPABILITIES)
    return is_named or (bool(lacking) and set(lacking) <= set(words))


EXPECTABLE: tuple[str, ...] = (*CAPABILITIES, *sorted({*KINDS.values()} - {*CAPABILITIES}), *ENTRIES)
"""The words with which a user says what this host may be unable to run: capabilities (see CAPABILITIES), kinds of
entries (see KINDS), and names of entries."""


def expectable(text: str) -> tuple[str, ...]:
    """Returns the words in `text`. Commas separate the words, e.g. `power,network`.

    The words say what the user expects this host to be unable to run. Raises BadInput if one of them is not in
    EXPECTABLE.
    """
    return tuple(choice("expect_unavailable", word.strip(), EXPECTABLE) for word in text.split(",") if word.strip())


def expected_here() -> str:
    """Returns the value of the environment variable KDV_EXPECT_UNAVAILABLE, or an empty text if it is not set.

    The value names what the user expects this host to be unable to run, for example `power,network`. `expectable`
    parses the value.
    """
    return os.environ.get("KDV_EXPECT_UNAVAILABLE", "")
