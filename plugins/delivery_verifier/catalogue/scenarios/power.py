"""Power: what is lost with the page cache, and what flush.messages and ELR save."""

from __future__ import annotations

from delivery_verifier.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = ()
