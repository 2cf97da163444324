"""Acknowledgements: what acks=0, acks=1 and acks=all promise, and where each promise ends."""

from __future__ import annotations

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import (
    AT_ONCE,
    MOVED,
    SETTLED,
    SHRUNK,
    after,
    broken,
    control,
    scripted,
    step,
    subject,
)
from delivery_verifier.catalogue.profiles import profile_of
from delivery_verifier.model.fault_plan import FaultPlan

_ACKS = "Apache Kafka documentation, producer configurations: acks"

_ACKS_0 = profile_of(
    "acks_0_refreshing",
    "Fire and forget, by a client that looks for new leaders every second.",
    acks="0",
    topic_metadata_refresh_interval_ms=1000,
)
"""A profile whose client looks for new leaders every second. By default, a client looks for them every five minutes,
and could meanwhile go on sending to a deposed leader. These records would be lost, too, but the scenario expects an
exact number of lost records."""

_FROZEN_LEADER = Entry(
    name="acks_0.frozen_leader",
    title="acks=0: what is on its way to a leader that dies is lost, without an error",
    promise="With acks=0 a record counts as delivered once it is handed to the operating system: a leader that stands "
    "still and then dies takes along all that waited in its socket. With acks=1 or all the producer is still "
    "waiting for an answer, and sends it again.",
    source=_ACKS,
    tags=("smoke", "promises"),
    arms=(
        ArmPlan(
            name="acks_0",
            role="subject",
            profile=_ACKS_0,
            claim="at_least_once",
            expectation=broken(LOST=50),
        ),
        control("acks_1"),
        control("safe"),
    ),
    load=scripted(50),
    fault=FaultPlan(
        name="frozen_leader_killed",
        summary="Freeze the leader, send it 50 records, kill it before it can read them.",
        steps=(
            step(AT_ONCE, "pause", "leader", ("brief",)),
            step(AT_ONCE, "send"),
            step(SETTLED, "kill", "leader"),
            step(MOVED, "start"),
        ),
    ),
    session_timeout_ms=6000,
    rules=("lost.acks_0", "lost.never"),
)

_FROZEN_FOLLOWERS = Entry(
    name="acks_1.frozen_followers",
    title="acks=1: the leader dies with what its followers had not fetched",
    promise="acks=1 is the leader's word alone: records it acknowledged while its followers stood still die with it. "
    "acks=all acknowledges nothing that its followers do not have.",
    source=_ACKS,
    tags=("smoke", "promises"),
    arms=(
        subject("acks_1", "at_least_once", broken(LOST=100)),
        control("safe"),
    ),
    load=scripted(100),
    fault=FaultPlan(
        name="frozen_followers",
        summary="Freeze both followers, let the leader acknowledge 100 records, kill it, thaw the followers at once.",
        steps=(
            step(AT_ONCE, "pause", "followers", ("brief",)),
            step(after(0.5), "send"),
            step(SETTLED, "kill", "leader"),
            step(AT_ONCE, "resume", "followers"),
            step(MOVED, "send"),
            step(AT_ONCE, "start", "leader"),
        ),
    ),
    rules=("lost.acks_1", "lost.never"),
)

_BELOW_MIN_ISR = Entry(
    name="acks_1.below_min_isr",
    title="acks=1: min.insync.replicas does not protect it",
    promise="min.insync.replicas is a promise to acks=all alone. With acks=1 a leader that is the last in sync goes "
    "on acknowledging. When it dies, an eligible leader replica (KIP-966) is elected without those records, "
    "although no election was unclean. acks=all is refused all the while, and loses nothing.",
    source="Apache Kafka documentation, topic configurations: min.insync.replicas; KIP-966",
    tags=("promises",),
    arms=(
        subject("acks_1", "at_least_once", broken(LOST=50)),
        control("safe"),
    ),
    load=scripted(50),
    fault=FaultPlan(
        name="last_in_sync_killed",
        summary="Stop both followers, let the leader acknowledge 50 records alone, kill it, start the followers.",
        steps=(
            step(AT_ONCE, "stop", "followers", ("isr_shrunk",)),
            step(SHRUNK, "send"),
            step(SETTLED, "kill", "leader"),
            step(AT_ONCE, "start", "followers"),
            step(MOVED, "start", "leader"),
        ),
    ),
    rules=("lost.acks_1", "lost.never"),
)

ENTRIES: tuple[Entry, ...] = (_FROZEN_FOLLOWERS, _FROZEN_LEADER, _BELOW_MIN_ISR)
