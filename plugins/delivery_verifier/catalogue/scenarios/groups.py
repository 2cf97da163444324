"""Groups: which records an application skips or applies again when its member is killed or replaced at a moment that
nobody chose, and when an operator sets the committed offsets of its group back.

Two scenarios are statistical. Each has ten arms with librdkafka's defaults, under the same fault. In each arm, chance
decides whether the timer commits the batch in progress before the fault.
"""

from __future__ import annotations

from msgspec.structs import replace

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import (
    AT_ONCE,
    CAUGHT_UP,
    PARKED,
    after,
    applied_by,
    broken,
    exactly,
    scripted,
    step,
)
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep
from delivery_verifier.model.scenario import Bound, Claim, Expectation

ARMS = 10
"""The number of arms with the same application in a statistical scenario."""
_HOLD_S = 0.4
"""Seconds for which a member is held. It takes about 0.1 s more until the fault hits it. So half an interval of the
timer (`auto.commit.interval.ms`) has then passed since the hand-over."""


def _by_chance(claim: Claim, **most: int) -> tuple[ArmPlan, ...]:
    """Returns ten arms with librdkafka's defaults. Each may be HELD or VIOLATED. `most`: the greatest counts of an arm,
    e.g. `SKIPPED=6`."""
    bounds = tuple(Bound(count=name, op="<=", value=value) for name, value in most.items())
    either = Expectation(verdicts=("HELD", "VIOLATED"), bounds=bounds)
    arm = applied_by("control", "at_handover", claim, either)
    return tuple(replace(arm, name=f"{arm.name}_{number}") for number in range(1, ARMS + 1))


_HALF_AN_INTERVAL: tuple[FaultStep, ...] = (
    step(CAUGHT_UP, "park", "none", at="applied", record=4),
    step(AT_ONCE, "send", "none"),
    step(PARKED, "wait"),
    step(after(_HOLD_S), "wait"),
)
"""Steps that hold every member when it has applied 4 of the 10 records of a batch. Half of the timer's interval passes
until the next step."""

_KILLED = Entry(
    name="group.killed_member",
    title="librdkafka's defaults: chance decides whether a member that is killed skips records or applies them again",
    promise="With librdkafka's defaults, the timer commits a record once it was handed over. If the timer fires "
    "between the hand-over of a batch and the kill, the rest of the batch is skipped, 6 records here. If not, the part "
    "that was applied is applied again, 4 records here. So the defaults are neither at least once nor at most once. "
    "Ten arms are killed half an interval of the timer after the hand-over. Committing after applying skips nothing.",
    source="librdkafka: CONFIGURATION.md, enable.auto.offset.store, auto.commit.interval.ms",
    tags=("promises",),
    arms=(
        applied_by("subject", "commit_after", "at_least_once", exactly(SKIPPED=0, REAPPLIED=4)),
        *_by_chance("at_least_once", SKIPPED=6, REAPPLIED=4),
    ),
    load=scripted(20),
    fault=FaultPlan(
        name="killed_in_an_interval",
        summary="Send 20 records, hold every member for 0.4 s when it has applied 4 of the first 10, kill it, and "
        "start it again.",
        steps=(
            *_HALF_AN_INTERVAL,
            step(PARKED, "kill_application", "none"),
            step(AT_ONCE, "restart_application", "none"),
        ),
        duration_s=18,
    ),
    deterministic=False,
    rules=("skipped.at_handover", "reapplied.apart", "skipped.never"),
)

_STALL = Entry(
    name="group.stall",
    title="librdkafka's defaults: chance decides whether a member that stood still applies records twice, or late",
    promise="A group replaces a member that is silent for longer than session.timeout.ms. When the member goes on, it "
    "applies what it has in progress. If its timer had not committed the batch, the successor has applied it, too: 10 "
    "records are applied twice. If the timer had committed it, 6 records are applied late, behind those of the "
    "successor. A transform with transactions is refused, and writes nothing twice.",
    source="KIP-62; KIP-447, motivation: zombies; librdkafka: CONFIGURATION.md, enable.auto.offset.store",
    tags=("promises",),
    arms=(
        applied_by("subject", "transform_transactional", "exactly_once", exactly(SKIPPED=0, REAPPLIED=0, GHOST=0)),
        *_by_chance("at_most_once", SKIPPED=0, REAPPLIED=10, OVERTAKEN=6),
    ),
    load=scripted(10),
    fault=FaultPlan(
        name="stalled_in_an_interval",
        summary="Send 10 records, hold every member for 0.4 s when it has applied 4 of them, and freeze it. Wait until "
        "another process has taken its place, send 30 records more, and let it go on.",
        steps=(
            *_HALF_AN_INTERVAL,
            step(PARKED, "freeze_application", "none"),
            step(AT_ONCE, "send", "none", blocks=3),
            step(CAUGHT_UP, "wait", "none"),
            step(AT_ONCE, "thaw_application", "none"),
        ),
        duration_s=25,
    ),
    deterministic=False,
    rules=("reapplied.apart", "overtaken.freeze", "reapplied.never"),
)

_REWIND = Entry(
    name="group.rewind",
    title="A group that is set back applies everything again, unless the offset is in the database of the effects",
    promise="What a group has committed can be set back by an operator. Its application is then given every record "
    "from there on once more: 60 records, whether it commits before or after applying. An application that starts "
    "from the offset in its own database is given none of them.",
    source="Apache Kafka javadoc, Admin: alterConsumerGroupOffsets; KafkaConsumer: storing offsets outside Kafka",
    tags=("promises",),
    arms=(
        applied_by("subject", "commit_after", "exactly_once", broken(REAPPLIED=60, SKIPPED=0, LOST=0)),
        applied_by("subject", "commit_first", "exactly_once", broken(REAPPLIED=60, SKIPPED=0, LOST=0)),
        applied_by("control", "database_compared", "exactly_once", exactly(SKIPPED=0, REAPPLIED=0)),
    ),
    load=scripted(20),
    fault=FaultPlan(
        name="set_back",
        summary="When 60 records are applied, stop every member, set the groups back to offset 0, and start the "
        "members again.",
        steps=(
            step(AT_ONCE, "send", "none"),
            step(AT_ONCE, "send", "none"),
            step(CAUGHT_UP, "rewind", "none"),
            step(CAUGHT_UP, "wait", "none"),
        ),
        duration_s=15,
    ),
    rules=("reapplied.apart", "reapplied.rewind"),
)

ENTRIES: tuple[Entry, ...] = (_KILLED, _STALL, _REWIND)
