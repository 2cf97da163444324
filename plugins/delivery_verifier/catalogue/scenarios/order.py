"""Order: what max.in.flight and retries do to it."""

from __future__ import annotations

from delivery_verifier.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = ()
