"""Groups: which records an application applies again when an operator sets back the committed offsets of its group."""

from __future__ import annotations

from delivery_verifier.catalogue.entry import Entry
from delivery_verifier.catalogue.parts import AT_ONCE, CAUGHT_UP, applied_by, broken, exactly, scripted, step
from delivery_verifier.model.fault_plan import FaultPlan

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

ENTRIES: tuple[Entry, ...] = (_REWIND,)
