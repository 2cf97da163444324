"""Clients: producers that are killed, and applications that send again."""

from __future__ import annotations

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.profiles import PROFILES, profile_of
from delivery_verifier.scenario import Bound, Expectation, FaultPlan, FaultStep, Load, Trigger

_SENT_AGAIN = Expectation(
    verdicts=("VIOLATED",),
    bounds=(
        Bound(count="RESENT", op="=", value=200), Bound(count="DUPLICATED", op="=", value=0),
        Bound(count="LOST", op="=", value=0), Bound(count="REORDERED", op="=", value=0),
        Bound(count="indeterminate", op="=", value=100),
    ),
)  # fmt: skip
"""A block of 100 stands in the log twice: as it was first sent, and as it was sent again."""

_KIP_98 = "KIP-98: the idempotent producer's guarantee covers one producer session, and no resends by the application"

_KILLED_PRODUCER = Entry(
    name="idempotent.killed_producer",
    title="Idempotence: a producer that is killed and starts again writes twice what it was not answered",
    promise="An idempotent producer recognises its own retries, within its own life. One that is killed after the append "
    "and before the answer does not know what it wrote: if its application sends that again, it is in the log twice. "
    "Nothing is lost by it, and what was answered before the kill is not sent again.",
    source=_KIP_98,
    tags=("smoke", "promises",),
    arms=(
        ArmPlan(
            name="idempotent", role="subject", profile=PROFILES["idempotent"], claim="exactly_once", expectation=_SENT_AGAIN
        ),
        ArmPlan(name="acks_1", role="control", profile=PROFILES["acks_1"], claim="exactly_once"),
        ArmPlan(name="safe", role="control", profile=PROFILES["safe"], claim="at_least_once"),
    ),
    load=Load(partitions=1, pacing="scripted", block=100),
    fault=FaultPlan(
        name="killed_before_the_answer",
        summary="Freeze a follower, so that acks=all is not answered; send 100 records, kill the producers, thaw the "
        "follower, start the producers again.",
        steps=(
            FaultStep(trigger=Trigger(kind="at_once"), action="pause", target="follower", proofs=("brief",)),
            FaultStep(trigger=Trigger(kind="elapsed", value=0.5), action="send", target="none"),
            FaultStep(trigger=Trigger(kind="elapsed", value=1.0), action="kill_producer", target="none"),
            FaultStep(trigger=Trigger(kind="at_once"), action="resume", target="follower"),
            FaultStep(trigger=Trigger(kind="isr_full"), action="restart_producer", target="none"),
            FaultStep(trigger=Trigger(kind="settled"), action="send", target="none"),
        ),
    ),
    session_timeout_ms=6000,
    rules=("resent.application", "lost.never"),
)  # fmt: skip
"""acks=1 is answered by the leader alone, hence at once, and sends nothing again: it is the missing answer that makes
the copies, not the kill."""

_HASTY = profile_of(
    "hasty", "Idempotent, and gives a record up after three seconds.",
    acks="all", enable_idempotence=True, delivery_timeout_ms=3000, linger_ms=100,
)  # fmt: skip

_TIMED_OUT = Entry(
    name="idempotent.resend_after_timeout",
    title="Idempotence: an application that sends again what timed out writes it twice",
    promise="A record that timed out (_MSG_TIMED_OUT) may be written all the same. If the application sends it again, in "
    "the same life of the same idempotent producer, that is a new record to Kafka. A producer that goes on trying, with "
    "the default delivery.timeout.ms of two minutes, writes each record once.",
    source=_KIP_98,
    tags=("promises",),
    arms=(
        ArmPlan(name="hasty", role="subject", profile=_HASTY, claim="exactly_once", expectation=_SENT_AGAIN),
        ArmPlan(name="idempotent", role="control", profile=PROFILES["idempotent"], claim="exactly_once"),
        ArmPlan(name="safe", role="control", profile=PROFILES["safe"], claim="at_least_once"),
    ),
    load=Load(partitions=1, pacing="scripted", block=100),
    fault=FaultPlan(
        name="timed_out_and_sent_again",
        summary="Freeze a follower, so that acks=all is not answered; send 100 records, wait until they have timed out, "
        "thaw the follower, send 100 others, and then those again.",
        duration_s=10,
        steps=(
            FaultStep(trigger=Trigger(kind="at_once"), action="pause", target="follower", proofs=("brief",)),
            FaultStep(trigger=Trigger(kind="at_once"), action="send", target="none"),
            FaultStep(trigger=Trigger(kind="settled"), action="resume", target="follower"),
            FaultStep(trigger=Trigger(kind="isr_full"), action="send", target="none"),
            FaultStep(trigger=Trigger(kind="settled"), action="resend", target="none"),
            FaultStep(trigger=Trigger(kind="settled"), action="send", target="none"),
        ),
    ),
    session_timeout_ms=9000,
    rules=("resent.application", "lost.never"),
)  # fmt: skip

ENTRIES: tuple[Entry, ...] = (_KILLED_PRODUCER, _TIMED_OUT)
