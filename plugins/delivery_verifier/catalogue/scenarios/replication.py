"""Replication: min.insync.replicas, unclean election, and refused writes."""

from __future__ import annotations

from delivery_verifier.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = ()
