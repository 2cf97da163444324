"""The scenarios of the catalogue, one module for each kind of promise."""

from __future__ import annotations

from delivery_verifier.catalogue.entry import Entry
from delivery_verifier.catalogue.scenarios import (
    acks,
    clients,
    consumers,
    databases,
    discoveries,
    duplicates,
    everyday,
    groups,
    isolation,
    network,
    order,
    power,
    replication,
    transactions,
    transforms,
)

MODULES = (
    acks,
    replication,
    duplicates,
    order,
    clients,
    consumers,
    transforms,
    databases,
    groups,
    transactions,
    isolation,
    network,
    power,
    everyday,
    discoveries,
)

ENTRIES: dict[str, Entry] = {entry.name: entry for module in MODULES for entry in module.ENTRIES}
"""Maps the name of an entry to the entry, for the entries of all modules in MODULES."""
