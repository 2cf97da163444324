"""Isolation: whether a consumer is handed the records of aborted transactions. No fault is needed to show this."""

from __future__ import annotations

from msgspec.structs import replace

from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import AT_ONCE, SETTLED, broken, exactly, step
from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.scenario import Load

_BLOCK = 10
_COMMITTED = APPLICATIONS["commit_after"]
_UNCOMMITTED = replace(
    _COMMITTED,
    name="read_uncommitted",
    summary="As commit_after, with isolation.level=read_uncommitted, the default of the Java client and of Spark.",
    consumer=_COMMITTED.consumer | {"isolation.level": "read_uncommitted"},
)

_READ_UNCOMMITTED = Entry(
    name="isolation.read_uncommitted",
    title="A consumer that reads uncommitted applies what was aborted",
    promise="A read_committed consumer is handed a transaction only after it was committed. A read_uncommitted "
    "consumer is handed every record at once, also each of a transaction that is aborted later: 20 records here, on a "
    "quiet day. No consumer can take such an effect back.",
    source="Apache Kafka documentation, consumer configurations: isolation.level; KIP-98",
    tags=("promises",),
    arms=(
        ArmPlan(
            name="read_uncommitted",
            role="subject",
            profile=PROFILES["transactional"],
            claim="exactly_once",
            expectation=broken(GHOST=2 * _BLOCK, SKIPPED=0, REAPPLIED=0, LOST=0),
            application=_UNCOMMITTED,
        ),
        ArmPlan(
            name="read_committed",
            role="control",
            profile=PROFILES["transactional"],
            claim="exactly_once",
            expectation=exactly(GHOST=0, SKIPPED=0, REAPPLIED=0),
            application=_COMMITTED,
        ),
        ArmPlan(
            name="no_transactions",
            role="control",
            profile=PROFILES["safe"],
            expectation=exactly(GHOST=0, SKIPPED=0),
            application=_UNCOMMITTED,
        ),
    ),
    load=Load(partitions=1, pacing="scripted", block=_BLOCK, transaction_records=2 * _BLOCK),
    fault=FaultPlan(
        name="aborted",
        summary="Commit 20 records, abort 20, and commit 20. No fault is injected.",
        steps=(
            step(AT_ONCE, "send", "none"),
            step(SETTLED, "send", "none", blocks=2),
            step(SETTLED, "send", "none"),
        ),
    ),
    rules=("ghost.uncommitted",),
)
"""In the control no_transactions, the application has isolation.level=read_uncommitted, too, but the topic has no
transactions. This control shows that the setting alone does no harm.

A transaction holds two blocks. The first transaction holds the block that is sent before the plan begins, and the first
block that the plan sends. The second transaction is aborted on purpose. The last transaction holds the last block that
the plan sends, and the block after the plan.
"""

ENTRIES: tuple[Entry, ...] = (_READ_UNCOMMITTED,)
