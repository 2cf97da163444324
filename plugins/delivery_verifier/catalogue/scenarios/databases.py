"""Databases: which records an application writes twice to its database when it is killed.

The database is SQLite, and each effect is a row of a table. The offsets are in the same database.
"""

from __future__ import annotations

from delivery_verifier.catalogue.entry import Entry
from delivery_verifier.catalogue.parts import (
    AT_ONCE,
    CAUGHT_UP,
    PARKED,
    SEMANTICS,
    applied_by,
    broken,
    exactly,
    scripted,
    step,
)
from delivery_verifier.model.fault_plan import FaultPlan

_APART = Entry(
    name="database.apart",
    title="A database is exactly once only if rows and offset are in one transaction",
    promise="An application that commits the rows of a batch, and then the offset in a transaction of its own, writes "
    "the rows twice if it is killed in between: 10 records, the batch. In one transaction both are there, or neither.",
    source=f"{SEMANTICS} (exactly once: the offset in the same place as the output); SQLite documentation, Atomic "
    "Commit In SQLite",
    tags=("promises",),
    arms=(
        applied_by("subject", "database_apart", "exactly_once", broken(REAPPLIED=10, SKIPPED=0, LOST=0)),
        applied_by("control", "database_together", "exactly_once", exactly(SKIPPED=0, REAPPLIED=0)),
        applied_by("control", "database_compared", "exactly_once", exactly(SKIPPED=0, REAPPLIED=0)),
    ),
    load=scripted(20),
    fault=FaultPlan(
        name="killed_between_rows_and_offset",
        summary="Send 20 records, kill every member when the rows of the first 10 are written and the offset is not, "
        "and start it again.",
        steps=(
            step(CAUGHT_UP, "park", "none", at="rows_committed"),
            step(AT_ONCE, "send", "none"),
            step(PARKED, "kill_application", "none"),
            step(AT_ONCE, "restart_application", "none"),
        ),
        duration_s=15,
    ),
    rules=("reapplied.apart",),
)

ENTRIES: tuple[Entry, ...] = (_APART,)
