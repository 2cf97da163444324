"""Transforms: applications that write to an output topic. They are killed after they have written records, and before
they commit the offsets of these records.

In each fault plan here, every member stands still in a batch of 10 records. In some plans, the member is then killed.
In the other plans, it is then frozen, and goes on when another process has taken its place.
"""

from __future__ import annotations

from msgspec.structs import replace

from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import (
    AT_ONCE,
    CAUGHT_UP,
    PARKED,
    SEMANTICS,
    TOOK_EFFECT,
    applied_by,
    broken,
    exactly,
    scripted,
    step,
    zombies_at,
)
from delivery_verifier.catalogue.profiles import PROFILES
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
    """Returns steps that kill every member while it waits for the end of a transaction. Either the member's request to
    end the transaction is lost, or the answer to this request.

    `direction` says what is lost: `request` or `response`.
    """
    return (
        step(CAUGHT_UP, "park", "none", at="ending"),
        step(AT_ONCE, "drop", "all", api="EndTxn", direction=direction),
        step(AT_ONCE, "send", "none"),
        step(TOOK_EFFECT, "wait", "none"),
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
    "The next incarnation with the same transactional.id ends it first, and then begins where the group stands: what "
    "was "
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

_ZOMBIE = Entry(
    name="transform.zombie",
    title="Consume, transform, produce: a transaction alone does not stop a zombie",
    promise="A member stands still with an open transaction, and another process takes its place. If the member has "
    "subscribed, its group refuses its offsets when it goes on, and its transaction is aborted: nothing is written "
    "twice. The same holds if its successor has the same transactional.id, which fences it. A member that assigns its "
    "partitions itself and whose successor has another transactional.id is refused nothing: it writes on, 50 records "
    "twice. Without transactions, the batch in progress is written twice.",
    source="KIP-447; KIP-98, transactional.id",
    tags=("promises",),
    arms=(
        applied_by("subject", "transform_assigned", "exactly_once", broken(REAPPLIED=50, SKIPPED=0, LOST=0)),
        applied_by("subject", "transform", "exactly_once", broken(REAPPLIED=10, SKIPPED=0, LOST=0)),
        applied_by("control", "transform_fenced", "exactly_once", exactly(SKIPPED=0, REAPPLIED=0, GHOST=0)),
        _TRANSACTIONAL,
    ),
    load=scripted(10),
    fault=zombies_at("produced", blocks=4),
    rules=("reapplied.zombie", "reapplied.apart", "reapplied.never"),
)

_UNCOMMITTED = replace(
    APPLICATIONS["transform_transactional"],
    name="transform_unstable",
    summary="As transform_transactional, with isolation.level=read_uncommitted on its consumer.",
    consumer=APPLICATIONS["transform_transactional"].consumer | {"isolation.level": "read_uncommitted"},
)

_UNSTABLE = Entry(
    name="transform.unstable_offsets",
    title="Consume, transform, produce: exactly once needs isolation.level=read_committed, also on plain input",
    promise="A member stands still with its offsets in an open transaction, and its group gives the partition to "
    "another process. With read_committed, this process waits until it is known whether the offsets are committed. "
    "With read_uncommitted, librdkafka takes the old offset, and then both transactions are committed: 10 records are "
    "written twice, although no topic of the input has transactions. The Java client always waits.",
    source="KIP-447; librdkafka: rdkafka_partition.c (require_stable_offsets)",
    tags=("promises",),
    arms=(
        ArmPlan(
            name="transform_unstable",
            role="subject",
            profile=PROFILES["safe"],
            claim="exactly_once",
            expectation=broken(REAPPLIED=10, SKIPPED=0, LOST=0),
            with_other={"java": exactly(SKIPPED=0, REAPPLIED=0)},
            application=_UNCOMMITTED,
        ),
        _TRANSACTIONAL,
    ),
    load=scripted(10),
    fault=zombies_at("offsets_sent", blocks=0),
    rules=("reapplied.unstable_offsets", "reapplied.never"),
)

ENTRIES: tuple[Entry, ...] = (_PLAIN, _FIRST, _ENDS_LOST, _ZOMBIE, _UNSTABLE)
