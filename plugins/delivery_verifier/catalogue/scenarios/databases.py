"""Databases: which records an application applies twice to its database when it is killed.

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
    zombies_at,
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

_ZOMBIE = Entry(
    name="database.zombie",
    title="A member that stood still applies what it has in progress, unless its database compares the offset",
    promise="A group replaces a member that is silent for longer than session.timeout.ms. No call of the client stops "
    "it: when it goes on, it applies the 10 records that it has in progress, after its successor. If it commits "
    "afterwards, they are applied twice. If it has committed before, they are applied late, out of order. If the "
    "offset is in the database, it sets this offset back, so that everything from there on, 40 records, is applied "
    "twice. If it compares the offset before moving it, it is refused, and applies nothing.",
    source="KIP-62; KIP-447, motivation: zombies; SQLite documentation, Atomic Commit In SQLite",
    tags=("promises",),
    arms=(
        applied_by("subject", "database_together", "exactly_once", broken(REAPPLIED=40, SKIPPED=0, LOST=0)),
        applied_by("subject", "commit_after", "exactly_once", broken(REAPPLIED=10, SKIPPED=0, LOST=0)),
        applied_by("subject", "commit_first", "ordered", broken(OVERTAKEN=10, SKIPPED=0, REAPPLIED=0, LOST=0)),
        applied_by("control", "database_compared", "exactly_once", exactly(SKIPPED=0, REAPPLIED=0)),
        applied_by("control", "database_apart", "ordered", exactly(OVERTAKEN=0, SKIPPED=0, REAPPLIED=40)),
    ),
    load=scripted(10),
    fault=zombies_at("committed_first", blocks=3),
    rules=("reapplied.zombie", "reapplied.apart", "overtaken.freeze"),
)

ENTRIES: tuple[Entry, ...] = (_APART, _ZOMBIE)
