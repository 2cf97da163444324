"""Everyday faults under load: every profile as an arm of one run."""

from __future__ import annotations

from delivery_verifier.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = ()
