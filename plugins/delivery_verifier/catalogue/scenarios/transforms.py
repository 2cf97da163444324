"""Transforms: applications that write to an output topic, and are killed between that and the commit of their offsets.

In each fault plan here, every member stands still in a batch of 10 records. Then it is killed.
"""

from __future__ import annotations

from delivery_verifier.catalogue.entry import Entry
from delivery_verifier.catalogue.parts import (
    AT_ONCE,
    BITTEN,
    CAUGHT_UP,
    PARKED,
    SEMANTICS,
    applied_by,
    broken,
    exactly,
    scripted,
    step,
)
from delivery_verifier.model.application import CrashPoint
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep

_TRANSACTIONAL = applied_by(
    "control", "transform_transactional", "exactly_once", exactly(SKIPPED=0, REAPPLIED=0, GHOST=0)
)


def _killed_at(point: CrashPoint) -> FaultPlan:
    """Returns the plan that kills every member at `point` of a batch of 10 records."""
    return FaultPlan(
        name=f"killed_at_{point}",
        summary=f"Send 20 records, kill every member when it stands at {point} of the first 10, and start it again.",
        steps=(
            step(CAUGHT_UP, "park", "none", at=point),
            step(AT_ONCE, "send", "none"),
            step(PARKED, "kill_application", "none"),
            step(AT_ONCE, "restart_application", "none"),
        ),
        duration_s=15,
    )


def _end_lost(direction: str) -> tuple[FaultStep, ...]:
    """Returns the steps that kill every member when its request to end a transaction, or the answer, is lost.

    `direction`: request or response.
    """
    return (
        step(CAUGHT_UP, "park", "none", at="ending"),
        step(AT_ONCE, "drop", "all", api="EndTxn", direction=direction),
        step(AT_ONCE, "send", "none"),
        step(BITTEN, "wait", "none"),
        step(PARKED, "kill_application", "none"),
        step(AT_ONCE, "release", "all"),
        step(AT_ONCE, "restart_application", "none"),
    )


_PLAIN = Entry(
    name="transform.plain",
    title="Consume, transform, produce: a program that commits afterwards writes twice what it had not committed",
    promise="A program that writes a batch to a topic, waits for the acknowledgements and then commits its offsets "
    "skips nothing. Killed between the two it writes the batch again: 10 records. In one transaction, the records and "
    "the offsets are seen together or not at all.",
    source=f"{SEMANTICS} (at least once); KIP-98; KIP-447",
    tags=("promises",),
    arms=(
        applied_by("subject", "transform", "exactly_once", broken(REAPPLIED=10, SKIPPED=0, LOST=0)),
        _TRANSACTIONAL,
    ),
    load=scripted(20),
    fault=_killed_at("produced"),
    rules=("reapplied.apart", "reapplied.never"),
)

_FIRST = Entry(
    name="transform.commit_first",
    title="Consume, transform, produce: a program that commits first never writes what it had committed",
    promise="A program that commits the offsets of a batch and then writes the batch to a topic writes nothing twice. "
    "Killed between the two it never writes the batch: 10 records.",
    source=f"{SEMANTICS} (at most once); KIP-98; KIP-447",
    tags=("promises",),
    arms=(
        applied_by("subject", "transform_first", "exactly_once", broken(SKIPPED=10, REAPPLIED=0, LOST=0)),
        applied_by("control", "transform", "at_least_once", exactly(SKIPPED=0)),
        _TRANSACTIONAL,
    ),
    load=scripted(20),
    fault=_killed_at("committed_first"),
    rules=("skipped.commit_first", "skipped.never"),
)

_ENDS_LOST = Entry(
    name="transform.end_lost",
    title="Consume, transform, produce: the end of the transaction is lost with the program that asked for it",
    promise="A program that dies while it waits for the end of its transaction does not know whether it was committed. "
    "The next life with the same transactional.id ends it first, and then begins where the group stands: what was "
    "committed is not written again, and what was not is. Without a transaction the batch is written twice.",
    source="KIP-98, transactional.id; KIP-447",
    tags=("promises",),
    arms=(
        applied_by("subject", "transform", "exactly_once", broken(REAPPLIED=20, SKIPPED=0, LOST=0)),
        _TRANSACTIONAL,
    ),
    load=scripted(20),
    fault=FaultPlan(
        name="end_lost",
        summary="Lose the request that ends a transaction, kill every member, and start it again; then the same with "
        "the answer.",
        steps=(*_end_lost("request"), *_end_lost("response")),
        duration_s=35,
    ),
    rules=("reapplied.apart", "reapplied.never", "skipped.never"),
)

ENTRIES: tuple[Entry, ...] = (_PLAIN, _FIRST, _ENDS_LOST)
