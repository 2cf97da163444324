"""Bugs of clients that are known upstream, and that real brokers show: each with the client that has the bug, and with
one that has it not, under the same fault. Where all clients have it, with the setting that has it.

What an arm shows here is forbidden to both, by the contract or by the claim of the arm. A client that breaks it is
VIOLATED as expected, and never permitted.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from delivery_verifier.catalogue.applications import APPLICATIONS, application_of
from delivery_verifier.catalogue.entry import ArmPlan, Entry, Upstream
from delivery_verifier.catalogue.parts import (
    AT_ONCE,
    CAUGHT_UP,
    HELD,
    LED,
    SEMANTICS,
    SETTLED,
    SHRUNK,
    after,
    exactly,
    step,
)
from delivery_verifier.catalogue.profiles import PROFILES, profile_of
from delivery_verifier.model.client import VersionedClient, versioned
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.scenario import Bound, Expectation, Load

_LONG_SESSION_MS = 30_000
"""A session that no freeze of these plans outlasts, nor a stall of a busy host. So no broker is fenced, and no leader
changes: only clients see the fault."""
_TRUNCATED_BLOCK = 100
"""How many records an unclean election takes, and as many new records stand at their offsets."""


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


_TRIED = Expectation(bounds=(Bound(count="resolved_present", op=">=", value=160),), by_chance=True)
"""What shows that a client without the bug had the occasion: records that timed out while their request was stalled,
and were written with it afterwards. At least one block of 20 for each of 8 cycles."""

_REUSED_BUFFER = Entry(
    name="java.reused_buffer",
    title="Java 4.1.1: records stand in partitions to which nobody sent them",
    promise="A record stands in the partition to which it was sent, and nowhere else. The Java client 4.1.1 gives "
    "the memory of a batch that timed out to another batch, while the request with the first one is still half "
    "written. When the network goes on, the broker gets the header of the one with the bytes of the other, whose "
    "checksum is right, and appends them: a copy of records that were sent elsewhere. No error tells of it.",
    source="Apache Kafka documentation, design: the producer; CVE-2026-35554; KAFKA-19012",
    upstream=Upstream(
        reference="CVE-2026-35554, KAFKA-19012",
        url="https://issues.apache.org/jira/browse/KAFKA-19012",
        status="fixed in 3.9.2, 4.0.2, 4.1.2 and 4.2.0. Versions from 2.8.0 on have it; there is no fix for 2.8 to "
        "3.8.",
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
                max_in_flight_requests_per_connection=1,
                delivery_timeout_ms=3100,
                request_timeout_ms=3000,
                socket_timeout_ms=3000,
                socket_send_buffer_bytes=8192,
                linger_ms=20,
                batch_size=65_000,
                queue_buffering_max_kbytes=9600,
            ),
            claim="contract",
            expectation=_TRIED,
            with_other={"java": _TRIED, "java:4.1.1": _shows("MISROUTED", by_chance=True)},
        ),
    ),
    load=Load(partitions=24, replication_factor=1, payload_bytes=3200, rate=1100, block=20, duration_s=110.0),
    records=88_000,
    fault=FaultPlan(
        name="stalled_in_requests",
        summary="Delay the answers of all brokers for 2.5 s, so that the producers take much of their memory. Then "
        "stall the connection to one leader for 2.3 s in the middle of a Produce request, and for as long in the next "
        "one: records time out in it.",
        steps=(
            step(after(2), "delay", "all", count=1, clients=1, delay_ms=2500),
            step(after(3), "release", "all"),
            step(after(2), "stall", "leader", nth=2, count=2, clients=1, delay_ms=2300),
            step(after(5.5), "release", "leader"),
        ),
        cycles=8,
        duration_s=13,
    ),
    session_timeout_ms=_LONG_SESSION_MS,
    deterministic=False,
    rules=("misrouted.never",),
)


_SKIPPED = Expectation(
    verdicts=("VIOLATED",),
    bounds=(
        Bound(count="SKIPPED", op=">=", value=3),  # 1 for each partition, by the stop of the plan
        Bound(count="SKIPPED", op="<=", value=6),  # as many again, by the stop behind the load
        Bound(count="LOST", op="=", value=0),
    ),
)


def _arm_with_eof_events(role: Literal["subject", "control"], version: str, expectation: Expectation) -> ArmPlan:
    """Returns an arm whose member has librdkafka `version`, asks to be told of the ends of partitions, and commits by
    the client's timer. Its producers have the installed librdkafka."""
    application = application_of(
        "at_handover", "librdkafka's defaults, and an event at the end of a partition.", enable_partition_eof=True
    )
    named = replace(application, name="told_of_ends", client_version=version)
    return ArmPlan(
        name=f"ends-{version}",
        role=role,
        profile=PROFILES["safe"],
        claim="contract",
        expectation=expectation,
        application=named,
    )


_EOF_EVENTS = Entry(
    name="consumer.eof_events",
    title="A consumer that is stopped in good order skips the next record of each partition, if its client tells it "
    "of the ends of partitions",
    promise="A consumer that is stopped in good order goes on behind the last record that it was given, even with "
    "librdkafka's defaults, which commit what was handed over. With enable.partition.eof=true and consume(), "
    "librdkafka 2.13.0 counts the event at the end of a partition as one more record, and commits an offset beyond the "
    "end. The first record that is written there while the consumer is away is never given to it: 1 record for each of "
    "3 partitions here. One more is skipped in each partition whose last records come just before the run stops the "
    "consumer at its end. librdkafka 2.13.2 commits the end.",
    source=f"{SEMANTICS}; librdkafka: CONFIGURATION.md, enable.partition.eof; librdkafka issue 4844",
    upstream=Upstream(
        reference="librdkafka#4844",
        url="https://github.com/confluentinc/librdkafka/issues/4844",
        status="fixed. The report says that 2.0.2 does not have the bug and that 2.2.0 has it. The changelog names the "
        "fix (pull request 5213) under 2.13.2.",
        as_of="2026-11-30",
    ),
    tags=("promises",),
    arms=(
        _arm_with_eof_events("subject", "2.13.0", _SKIPPED),
        _arm_with_eof_events("control", "2.13.2", exactly(SKIPPED=0, LOST=0)),
    ),
    load=Load(partitions=3, pacing="scripted", block=10),
    fault=FaultPlan(
        name="stopped_at_the_end",
        summary="Wait until every member has come to the end of each partition, stop it in good order, send 10 records "
        "to each partition, and start it again.",
        steps=(
            step(CAUGHT_UP, "wait", "none"),
            step(after(5), "stop_application", "none"),  # by then the client has told of the ends
            step(AT_ONCE, "send", "none"),
            step(SETTLED, "restart_application", "none"),
        ),
        duration_s=15,
    ),
    deterministic=False,
    rules=("skipped.never",),
)

_OF_THE_TRUNCATION = Expectation(
    verdicts=("VIOLATED",),
    bounds=(
        Bound(count="SKIPPED", op="=", value=_TRUNCATED_BLOCK),
        Bound(count="LOST", op="=", value=0),
    ),
)


def _arm_that_comes_back(application: str) -> ArmPlan:
    """Returns an arm with the catalogue's application `application`. An unclean election takes nothing that was
    acknowledged to its producers: what a leader has alone is INDETERMINATE here, and not sent again."""
    return ArmPlan(
        name=application,
        role="subject",
        profile=profile_of(
            "acks_1_once",
            "acks=1 without retries; any replica may become leader.",
            topic={"min.insync.replicas": 1, "unclean.leader.election.enable": True},
            acks=1,
            retries=0,
            linger_ms=100,
            request_timeout_ms=3000,
            socket_timeout_ms=3000,
            topic_metadata_refresh_interval_ms=1000,
        ),
        claim="at_least_once",
        expectation=_OF_THE_TRUNCATION,
        application=APPLICATIONS[application],
        with_other={"java": exactly(SKIPPED=0, LOST=0)},
    )


_TRUNCATED_COMMIT = Entry(
    name="consumer.truncated_commit",
    title="A consumer that comes back to a log that was cut off below its committed offset skips what was written "
    "since",
    promise="A consumer that commits after it has applied skips nothing that is in the log. An unclean election can "
    "cut off the log below the offset that a group has committed, and new records then take the offsets that are free. "
    "The leader epoch of the commit shows the consumer that these records are others (KIP-320). The Java client looks, "
    "and begins where the two logs part. librdkafka does not validate the offset at which it starts, whether its "
    "commit has the epoch (at_handover) or not (commit_after). It goes on behind 100 new records, and says nothing.",
    source=f"{SEMANTICS}; KIP-320: consumer handling of unclean truncation; librdkafka issue 5158; Apache Kafka "
    "javadoc, KafkaConsumer: manual offset control",
    upstream=Upstream(
        reference="librdkafka#5158",
        url="https://github.com/confluentinc/librdkafka/issues/5158",
        status="closed. It says that the offset at which a consumer starts is not validated even if it has a leader "
        "epoch, since 1.x, and speaks of an offset that is out of range. KAFKA-20507, documented in the javadoc, is "
        "about commits without an epoch. Neither has the case of a log that has grown past the commit.",
        as_of="2026-11-30",
    ),
    tags=("promises",),
    clients=(VersionedClient(), versioned("java", "")),
    arms=(_arm_that_comes_back("commit_after"), _arm_that_comes_back("at_handover")),
    load=Load(partitions=1, replication_factor=2, pacing="scripted", block=_TRUNCATED_BLOCK),
    fault=FaultPlan(
        name="cut_off_below_a_commit",
        summary="Kill the follower, and send the leader 100 records. Their acknowledgements are held back, so that "
        "nobody counts on them. The members apply and commit them, and are stopped. Kill the leader, and have the "
        "follower elected without them. Send it 200 records, start the old leader, and start the members again.",
        steps=(
            step(CAUGHT_UP, "kill", "follower", ("isr_shrunk",)),
            step(SHRUNK, "hold", "leader", clients=2),
            step(AT_ONCE, "send", "none"),
            step(CAUGHT_UP, "release", "leader"),
            step(AT_ONCE, "stop_application", "none"),
            step(AT_ONCE, "kill", "leader", ("deposed",)),
            step(AT_ONCE, "start", "follower"),
            step(LED, "send", "none", blocks=2),
            step(SETTLED, "start", "leader"),
            step(AT_ONCE, "restart_application", "none"),
            step(CAUGHT_UP, "wait", "none"),
        ),
        duration_s=40,
    ),
    deterministic=False,
    rules=("skipped.truncated", "ghost.truncated", "overtaken.truncated"),
)


def _arm_that_finds_partitions(role: Literal["subject", "control"], reset: str, expectation: Expectation) -> ArmPlan:
    """Returns an arm whose member has auto.offset.reset=`reset`, and asks for the partitions of its topic every
    15 s."""
    application = application_of(
        "commit_after",
        "At least once: applies a batch, and then commits it.",
        auto_offset_reset=reset,
        topic_metadata_refresh_interval_ms=15_000,
    )
    return ArmPlan(
        name=reset,
        role=role,
        profile=PROFILES["safe"],
        claim="at_least_once",
        expectation=expectation,
        application=replace(application, name=f"commit_after_{reset}"),
    )


_GROWTH_BLOCK, _NEW_PARTITIONS = 50, 3

_PARTITION_GROWTH = Entry(
    name="consumer.partition_growth",
    title="A consumer with auto.offset.reset=latest skips what is written to a new partition before it knows of it",
    promise="A group without a committed offset begins where auto.offset.reset says. In a partition that is added to a "
    "topic, no group has one. Producers send to it at once, and a consumer finds it only when it asks for the "
    "partitions anew (topic.metadata.refresh.interval.ms, metadata.max.age.ms). With latest, which is the default, it "
    "begins behind all that was written until then: 100 records in each of 3 new partitions here, although it never "
    "stood still. It may skip the first 50 of the run in the others, too: it looks up their ends once it has them. "
    "With earliest it begins with the first record.",
    source="Apache Kafka documentation, consumer configurations: auto.offset.reset; KIP-1327: motivation",
    upstream=Upstream(
        reference="KAFKA-20539",
        url="https://issues.apache.org/jira/browse/KAFKA-20539",
        status="documented. Since 2026-07-28, the documentation on trunk explains what latest loses when partitions "
        "are added; before, it said that it may. KIP-1327, a policy of its own for such partitions, is accepted.",
        as_of="2026-11-30",
    ),
    tags=("promises",),
    arms=(
        _arm_that_finds_partitions(
            "subject",
            "latest",
            Expectation(
                verdicts=("VIOLATED",),
                bounds=(
                    Bound(count="SKIPPED", op=">=", value=2 * _GROWTH_BLOCK * _NEW_PARTITIONS),
                    Bound(count="LOST", op="=", value=0),
                ),
            ),
        ),
        _arm_that_finds_partitions("control", "earliest", exactly(SKIPPED=0, LOST=0)),
    ),
    load=Load(partitions=2 * _NEW_PARTITIONS, pacing="scripted", block=_GROWTH_BLOCK),
    fault=FaultPlan(
        name="partitions_added",
        summary="Add 3 partitions to topics of 3, and send 100 records to each of the 6 at once. Wait until the "
        "members have all partitions, and send 50 more to each.",
        steps=(
            step(after(3), "send", "none"),
            step(CAUGHT_UP, "add_partitions", "none", count=_NEW_PARTITIONS),
            step(AT_ONCE, "send", "none", blocks=2),
            step(AT_ONCE, "await_assignment", "none"),
            step(after(5), "send", "none"),  # by then the members listen there, and are given what comes
            step(CAUGHT_UP, "wait", "none"),
        ),
        duration_s=40,
    ),
    session_timeout_ms=_LONG_SESSION_MS,
    deterministic=False,
    rules=("skipped.reset", "skipped.never"),
)

ENTRIES: tuple[Entry, ...] = (_EPOCH_BUMP, _REUSED_BUFFER, _EOF_EVENTS, _TRUNCATED_COMMIT, _PARTITION_GROWTH)
