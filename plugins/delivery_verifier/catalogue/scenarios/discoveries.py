"""Bugs of clients that are known upstream, and that real brokers show: each with the client that has the bug, and with
one that has it not, under the same fault.

What an arm shows here is forbidden to both. A client that breaks the promise is VIOLATED as expected, and never
permitted.
"""

from __future__ import annotations

from delivery_verifier.catalogue.entry import ArmPlan, Entry, Upstream
from delivery_verifier.catalogue.parts import AT_ONCE, HELD, after, step
from delivery_verifier.catalogue.profiles import profile_of
from delivery_verifier.model.client import VersionedClient, versioned
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.scenario import Bound, Expectation, Load

_LONG_SESSION_MS = 30_000
"""A session that no freeze of these plans outlasts. So no broker is fenced, and no leader changes: only clients see the
fault."""


def _shows(anomaly: str) -> Expectation:
    """Returns the expectation that an arm is VIOLATED, by at least one case of `anomaly`."""
    return Expectation(verdicts=("VIOLATED",), bounds=(Bound(count=anomaly, op=">=", value=1),))


_EPOCH_BUMP = Entry(
    name="idempotent.epoch_bump",
    title="Idempotence: a timeout in one partition writes acknowledged records of another partition twice",
    promise="An idempotent producer writes each record once, whatever it has to send again. When records of one "
    "partition time out in librdkafka, it takes a new epoch for the whole producer, and sends again under this epoch "
    "what is unanswered in other partitions. The brokers know these records by the old epoch only, and write them "
    "once more. The Java client gives a partition the new epoch only when nothing in it is unanswered.",
    source="Apache Kafka documentation, producer configurations: enable.idempotence; librdkafka issue 4953; Java: "
    "TransactionManager.maybeUpdateProducerIdAndEpoch",
    upstream=Upstream(
        reference="librdkafka#4953",
        url="https://github.com/confluentinc/librdkafka/issues/4953",
        status="open. A maintainer wrote on 2025-05-16 that the epoch is raised when messages time out, and that this "
        "can cause duplicates in other partitions. The report itself is about changes of leaders.",
        as_of="2026-11-28",
    ),
    tags=("promises",),
    clients=(VersionedClient(), versioned("java", "")),
    arms=(
        ArmPlan(
            name="idempotent",
            role="subject",
            profile=profile_of(
                "idempotent_impatient",
                "Idempotent, with a delivery timeout that is shorter than the fault.",
                enable_idempotence=True,
                delivery_timeout_ms=8000,
                request_timeout_ms=3000,
                socket_timeout_ms=3000,
                linger_ms=20,
                topic_metadata_refresh_interval_ms=2000,
            ),
            claim="at_most_once",
            expectation=_shows("DUPLICATED"),
            with_other={"java": HELD},
        ),
    ),
    load=Load(partitions=2, replication_factor=2, rate=200, block=1, duration_s=24.0, recovery_s=6.0),
    records=4800,
    fault=FaultPlan(
        name="leaders_frozen_in_turn",
        summary="Freeze the leader of the first partition for 10 s, and 5 s later also the leader of the second one; "
        "thaw both at once. Records time out after 8 s.",
        steps=(
            step(after(4), "pause", "leader", ("brief",)),
            step(after(5), "pause", "follower", ("brief",)),
            step(after(5), "resume", "leader"),
            step(AT_ONCE, "resume", "follower"),
        ),
        duration_s=16,
    ),
    session_timeout_ms=_LONG_SESSION_MS,
    deterministic=False,
    rules=("duplicated.never",),
)

ENTRIES: tuple[Entry, ...] = (_EPOCH_BUMP,)
