"""Clients: producers that are killed or terminated, and applications that send records again."""

from __future__ import annotations

from typing import Literal

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import (
    AT_ONCE,
    FULL,
    RETRIES_OFF_IMPATIENT,
    SETTLED,
    after,
    broken,
    control,
    exactly,
    scripted,
    step,
    subject,
)
from delivery_verifier.catalogue.profiles import profile_of
from delivery_verifier.model.fault_actions import TERMINATE
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.scenario import Expectation, OnSigterm

_SENT_AGAIN = broken(RESENT=200, DUPLICATED=0, LOST=0, REORDERED=0, indeterminate=100)
"""The expectation that the application sent each of 100 records twice, and that the log has both copies of each record.
RESENT counts attempts, so it is 200."""

_KIP_98 = "KIP-98: the idempotent producer's guarantee covers one producer session, and no resends by the application"

_KILLED_PRODUCER = Entry(
    name="idempotent.killed_producer",
    title="Idempotence: a producer that is killed and starts again writes twice what it was not answered",
    promise="An idempotent producer recognises its own retries, within its own incarnation. One that is killed after "
    "the "
    "append and before the answer does not know what it wrote: if its application sends that again, it is in "
    "the log twice. Nothing is lost by it, and what was answered before the kill is not sent again.",
    source=_KIP_98,
    tags=(
        "smoke",
        "promises",
    ),
    arms=(
        subject("idempotent", "exactly_once", _SENT_AGAIN),
        control("acks_1", "exactly_once"),
        control("safe"),
    ),
    load=scripted(100),
    fault=FaultPlan(
        name="killed_before_the_answer",
        summary="Freeze a follower, so that acks=all is not answered; send 100 records, kill the producers, thaw the "
        "follower, start the producers again.",
        steps=(
            step(AT_ONCE, "pause", "follower", ("brief",)),
            step(after(0.5), "send", "none"),
            step(after(1.0), "kill_producer", "none"),
            step(AT_ONCE, "resume", "follower"),
            step(FULL, "restart_producer", "none"),
            step(SETTLED, "send", "none"),
        ),
    ),
    session_timeout_ms=6000,
    rules=("resent.application", "lost.never"),
)
"""In this scenario, the fault plan kills the producers of all arms. The control arm acks_1 gets no second copies: with
acks=1, the leader answers without waiting for its followers. So the application knows before the kill that its records
were written, and sends none of them again. This control shows that second copies need more than a kill: the answers
must be missing, too.
"""

_HASTY = profile_of(
    "hasty",
    "Idempotent, and gives a record up after three seconds.",
    acks="all",
    enable_idempotence=True,
    delivery_timeout_ms=3000,
    linger_ms=100,
)

_TIMED_OUT = Entry(
    name="idempotent.resend_after_timeout",
    title="Idempotence: an application that sends again what timed out writes it twice",
    promise="A record that timed out (_MSG_TIMED_OUT) may be written all the same. If the application sends it again, "
    "in the same incarnation of the same idempotent producer, that is a new record to Kafka. A producer that goes on "
    "trying, with the default delivery.timeout.ms of two minutes, writes each record once.",
    source=_KIP_98,
    tags=("promises",),
    arms=(
        ArmPlan(name="hasty", role="subject", profile=_HASTY, claim="exactly_once", expectation=_SENT_AGAIN),
        control("idempotent", "exactly_once"),
        control("safe"),
    ),
    load=scripted(100),
    fault=FaultPlan(
        name="timed_out_and_sent_again",
        summary="Freeze a follower, so that acks=all is not answered; send 100 records, wait until they have timed "
        "out, thaw the follower, send 100 others, and then those again.",
        duration_s=10,
        steps=(
            step(AT_ONCE, "pause", "follower", ("brief",)),
            step(AT_ONCE, "send", "none"),
            step(SETTLED, "resume", "follower"),
            step(FULL, "send", "none"),
            step(SETTLED, "resend", "none"),
            step(SETTLED, "send", "none"),
        ),
    ),
    session_timeout_ms=9000,
    rules=("resent.application", "lost.never"),
)

_RETRIES_OFF = Entry(
    name="retries_off.sent_again",
    title="retries=0: an application that does by itself what the client may not writes twice",
    promise="Without retries the client gives a request up at the first error, also one that says no more than that "
    "the followers were late: the leader has written it. An application that sends such records again writes "
    "each twice. With retries and idempotence the client does the same, and the broker knows the copies.",
    source="Apache Kafka documentation, producer configurations: retries; request.timeout.ms",
    tags=("promises",),
    arms=(
        ArmPlan(
            name="retries_off",
            role="subject",
            claim="exactly_once",
            profile=RETRIES_OFF_IMPATIENT,
            expectation=broken(RESENT=100, DUPLICATED=0, LOST=0, indeterminate=50),
        ),
        control("idempotent", "exactly_once"),
        control("safe"),
    ),
    load=scripted(50),
    fault=FaultPlan(
        name="refused_and_sent_again",
        summary="Freeze both followers, send the leader 50 records, thaw them when the client has given up, send "
        "those again.",
        steps=(
            step(AT_ONCE, "pause", "followers", ("brief",)),
            step(after(0.5), "send"),
            step(SETTLED, "resume", "followers"),
            step(FULL, "resend", "none"),
            step(SETTLED, "send", "none"),
        ),
    ),
    session_timeout_ms=15_000,
    rules=("resent.application", "lost.never", "duplicated.never"),
)

_LINGER_MS = 5000
_LINGERING = profile_of(
    "lingering",
    f"Idempotent, and waits up to {_LINGER_MS / 1000:g} s for a batch to fill before it sends the batch.",
    acks="all",
    enable_idempotence=True,
    linger_ms=_LINGER_MS,
)
_QUEUED = 100


def _terminated(name: OnSigterm, role: Literal["subject", "control"], expectation: Expectation) -> ArmPlan:
    return ArmPlan(
        name=f"on_sigterm_{name}",
        role=role,
        profile=_LINGERING,
        claim="at_least_once",
        expectation=expectation,
        on_sigterm=name,
    )


_TERMINATED = Entry(
    name="producer.terminated",
    title="A producing program is restarted and drops what it has queued, unless it calls flush() first",
    promise="produce() only puts a record into the client's queue, and the client sends it later: after linger.ms, or "
    "when brokers answer. Kafka promises something only about what was acknowledged. A program that exits on SIGTERM "
    "without flush() drops its queue, and no error says so: the restart loses messages, and no broker has lost one. "
    "A program that calls flush() first leaves nothing behind.",
    source="librdkafka: rdkafka.h, rd_kafka_flush; Apache Kafka documentation, KafkaProducer: send, close",
    tags=("promises",),
    arms=(
        _terminated(
            "exit", "subject", exactly(LOST=0, acked=3 * _QUEUED, indeterminate=_QUEUED, resolved_absent=_QUEUED)
        ),
        _terminated("flush", "control", exactly(LOST=0, acked=4 * _QUEUED, indeterminate=0, RESENT=0)),
    ),
    load=scripted(_QUEUED),
    fault=FaultPlan(
        name="terminated",
        summary=f"Let the programs hand over {_QUEUED} records; send them SIGTERM while the records are in the "
        "clients' queues; start the programs again, as a rolling deployment does, and let them hand over others.",
        duration_s=5,
        steps=(
            step(AT_ONCE, "send", "none"),
            step(AT_ONCE, TERMINATE, "none"),
            step(AT_ONCE, "restart_producer", "none"),
            step(AT_ONCE, "send", "none"),
        ),
    ),
    rules=("lost.never", "duplicated.never"),
    why_held="What was acknowledged is in the log. What was dropped was never acknowledged, so nobody promised it.",
)
"""Both arms have the same settings: only the end of the program differs. linger.ms is so long that no record leaves the
client's queue between the steps `send` and `terminate_producer`, even on a slow host. The program that starts again
knows nothing of the dropped records, and sends none of them again. It flushes its queue at the end of the load.
"""

ENTRIES: tuple[Entry, ...] = (_KILLED_PRODUCER, _TIMED_OUT, _RETRIES_OFF, _TERMINATED)
