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


def _shows(anomaly: str, *, by_chance: bool = False) -> Expectation:
    """Returns the expectation that an arm is VIOLATED, by at least one case of `anomaly`."""
    return Expectation(verdicts=("VIOLATED",), bounds=(Bound(count=anomaly, op=">=", value=1),), by_chance=by_chance)


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

_REUSED_BUFFER = Entry(
    name="java.reused_buffer",
    title="Java 4.1.1: records stand in partitions to which nobody sent them",
    promise="A record stands in the partition to which it was sent, and nowhere else. The Java client 4.1.1 gives "
    "the memory of a batch that timed out to another batch, while the request with the first one is still half "
    "written. When the broker reads on, it gets the header of the one with the bytes of the other, whose checksum is "
    "right. The client reports success.",
    source="Apache Kafka documentation, design: the producer; CVE-2026-35554; KAFKA-19012",
    upstream=Upstream(
        reference="CVE-2026-35554, KAFKA-19012",
        url="https://issues.apache.org/jira/browse/KAFKA-19012",
        status="fixed in 3.9.2, 4.0.2, 4.1.2 and 4.2.0. Versions from 2.8.0 on have it; there is no fix for 3.8 and "
        "older.",
        as_of="2026-11-28",
    ),
    tags=("promises",),
    clients=(VersionedClient("java", "4.1.1"), VersionedClient("java", "4.1.2")),
    arms=(
        ArmPlan(
            name="small_buffer",
            role="subject",
            profile=profile_of(
                "small_buffer",
                "acks=all with little memory, and records that time out soon after their request would.",
                topic={"min.insync.replicas": 1},
                delivery_timeout_ms=3100,
                request_timeout_ms=3000,
                socket_timeout_ms=3000,
                linger_ms=100,
                batch_size=5400,
                queue_buffering_max_kbytes=8192,
            ),
            claim="contract",
            with_other={"java:4.1.1": _shows("MISROUTED", by_chance=True)},
        ),
    ),
    load=Load(
        partitions=192, replication_factor=1, payload_bytes=2700, rate=1800, block=1, duration_s=60.0, recovery_s=4.0
    ),
    records=30_000,
    fault=FaultPlan(
        name="leader_frozen_twice",
        summary="Freeze a leader for 2 s, thaw it, and freeze it at once for 2.5 s more; five times over.",
        steps=(
            step(after(3), "pause", "leader", ("brief",)),
            step(after(2), "resume"),
            step(AT_ONCE, "pause", "leader", ("brief",)),
            step(after(2.5), "resume"),
        ),
        cycles=5,
        duration_s=10,
    ),
    session_timeout_ms=_LONG_SESSION_MS,
    deterministic=False,
    rules=("misrouted.never",),
)

ENTRIES: tuple[Entry, ...] = (_EPOCH_BUMP, _REUSED_BUFFER)
