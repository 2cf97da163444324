"""The network: brokers that are cut off while their clients still reach them."""

from __future__ import annotations

from delivery_verifier.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = ()
