"""Consumers: which records an application skips or applies again when it is killed.

In each fault plan here, every member stands still after it has applied 4 of the 10 records of a batch. The member is
killed there.
"""

from __future__ import annotations

from delivery_verifier.catalogue.entry import Entry
from delivery_verifier.catalogue.parts import (
    AT_ONCE,
    CAUGHT_UP,
    PARKED,
    SEMANTICS,
    after,
    applied_by,
    broken,
    exactly,
    scripted,
    step,
)
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep


def _killed_in_a_batch(*hold: FaultStep) -> tuple[FaultStep, ...]:
    """Returns steps that park every member after it has applied 4 of the 10 records of a batch, kill the member there,
    and start it again. A parked member stands still. `hold` has further steps, which are done before the kill."""
    return (
        step(CAUGHT_UP, "park", "none", at="applied", record=4),
        step(AT_ONCE, "send", "none"),
        *hold,
        step(PARKED, "kill_application", "none"),
        step(AT_ONCE, "restart_application", "none"),
    )


_CRASH = FaultPlan(
    name="killed_in_a_batch",
    summary="Send 20 records, kill every member when it has applied 4 of the first 10, and start it again.",
    steps=_killed_in_a_batch(),
    duration_s=15,
)

_COMMIT_FIRST = Entry(
    name="consumer.commit_first",
    title="At most once: a consumer that commits before applying skips what it had in progress when it was killed",
    promise="A consumer that commits the offsets of a batch before it applies the batch applies nothing twice. What it "
    "had committed and not yet applied when it was killed is never delivered again: 6 records of this batch.",
    source=f"{SEMANTICS} (at most once)",
    tags=("smoke", "promises"),
    arms=(
        applied_by("subject", "commit_first", "at_least_once", broken(SKIPPED=6, REAPPLIED=0, LOST=0)),
        applied_by("control", "commit_after", "at_least_once", exactly(SKIPPED=0, REAPPLIED=4)),
    ),
    load=scripted(20),
    fault=_CRASH,
    rules=("skipped.commit_first",),
)

_COMMIT_AFTER = Entry(
    name="consumer.commit_after",
    title="At least once: a consumer that commits after applying applies again what it had not committed when it "
    "was killed",
    promise="A consumer that applies a batch and then commits its offsets skips nothing. What it had applied and not "
    "yet committed when it was killed is delivered again: 4 records of this batch.",
    source=f"{SEMANTICS} (at least once)",
    tags=("promises",),
    arms=(
        applied_by("subject", "commit_after", "at_most_once", broken(REAPPLIED=4, SKIPPED=0, LOST=0)),
        applied_by("control", "commit_first", "at_most_once", exactly(REAPPLIED=0, SKIPPED=6)),
    ),
    load=scripted(20),
    fault=_CRASH,
    rules=("reapplied.apart",),
)

_DEFAULTS = Entry(
    name="consumer.defaults",
    title="librdkafka's defaults are not at least once: the timer commits what was handed over and not yet applied",
    promise="With enable.auto.commit and enable.auto.offset.store, librdkafka's defaults, the timer commits a record "
    "that was handed over, whether or not it was applied. A member that is killed behind that skips the rest of "
    "its batch, 6 records here. Storing offsets after applying skips nothing.",
    source="librdkafka: CONFIGURATION.md, enable.auto.offset.store",
    tags=("promises",),
    arms=(
        applied_by("subject", "at_handover", "at_least_once", broken(SKIPPED=6, REAPPLIED=0, LOST=0)),
        applied_by("control", "store_after", "at_least_once", exactly(SKIPPED=0)),
    ),
    load=scripted(20),
    fault=FaultPlan(
        name="killed_behind_the_timer",
        summary="Send 20 records, hold every member for 3 s when it has applied 4 of the first 10, so that the timer "
        "commits, kill it, and start it again.",
        steps=_killed_in_a_batch(step(PARKED, "wait"), step(after(3), "wait")),
        duration_s=18,
    ),
    rules=("skipped.at_handover",),
)

ENTRIES: tuple[Entry, ...] = (_COMMIT_FIRST, _COMMIT_AFTER, _DEFAULTS)
