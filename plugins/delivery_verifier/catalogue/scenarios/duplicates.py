"""Duplicates: what retries write twice, and idempotence does not."""

from __future__ import annotations

from delivery_verifier.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = ()
