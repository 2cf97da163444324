"""Power failures: a broker that loses power loses all records that were only in its page cache.

The entries show when such records are lost, and how flush.messages or eligible leader replicas (ELR, KIP-966) prevent
the loss.
"""

from __future__ import annotations

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import (
    AT_ONCE,
    LED,
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
from delivery_verifier.catalogue.profiles import PROFILES, profile_of
from delivery_verifier.model.fault_plan import FaultPlan

ON_DISK = after(1.0)
"""The trigger of the step that cuts the power: one second after the previous step. By then, the acknowledged records of
the control arm `flushed` are on the disk. The records of the subject are only in memory, because the operating system
writes them to the disk after 30 s."""
_LOAD = scripted(100)
_LOST = broken(LOST=100)
_SYNC = step(AT_ONCE, "sync", "all")
_FLUSHING = "Apache Kafka documentation, operations: application vs. OS flush management"

FLUSHED = profile_of(
    "flushed",
    "As safe, and on disk before it is acknowledged.",
    topic={"flush.messages": 1},
    acks="all",
    enable_idempotence=True,
    topic_metadata_refresh_interval_ms=1000,
)
_FLUSHED = ArmPlan(name="flushed", role="control", profile=FLUSHED, claim="at_least_once")
_MIN_ISR_1 = profile_of(
    "min_isr_1",
    "Idempotent; one in-sync replica may acknowledge for all.",
    topic={"min.insync.replicas": 1},
    acks="all",
    enable_idempotence=True,
    topic_metadata_refresh_interval_ms=1000,
)

_ALL_BROKERS = Entry(
    name="power.all_brokers",
    title="All brokers lose power: acks=all is no promise of the disk",
    promise="Kafka acknowledges what is in the memory of all in-sync replicas, and leaves it to the operating "
    "system when it reaches the disk. If all of them lose power together, whatever acks say, it is gone. With "
    "flush.messages=1 it is on disk before it is acknowledged.",
    source=f"{_FLUSHING}; topic configurations: flush.messages",
    tags=("smoke", "promises", "power"),
    arms=(
        subject("safe", "at_least_once", _LOST),
        _FLUSHED,
    ),
    load=_LOAD,
    fault=FaultPlan(
        name="all_brokers_lose_power",
        summary="Flush all disks, let 100 records be acknowledged, cut the power of all brokers at once, send 100 "
        "more, start the brokers.",
        steps=(
            _SYNC,
            step(AT_ONCE, "send"),
            step(SETTLED, "wait"),
            step(ON_DISK, "power_off", "all", ()),
            step(AT_ONCE, "send"),  # exposed: these records are under way while no broker runs
            step(AT_ONCE, "start", "all"),
        ),
        duration_s=12,
    ),
    rules=("lost.power_of_all", "lost.never"),
)

_ONE_BROKER = Entry(
    name="power.one_broker",
    title="One broker loses power: what is in sync elsewhere survives",
    promise="An acknowledged record is in all in-sync replicas: a leader that loses power loses what it had not "
    "flushed, and copies it back from the one that leads then.",
    source=f"{_FLUSHING}; design: replication",
    tags=("power",),
    why_held="The fault takes nothing from anyone: that is the promise.",
    arms=(
        ArmPlan(name="acks_all", role="subject", profile=PROFILES["acks_all"], claim="at_least_once"),
        control("safe"),
    ),
    load=_LOAD,
    fault=FaultPlan(
        name="leader_loses_power",
        summary="Flush all disks, let 100 records be acknowledged, cut the leader's power, start it once another "
        "leads.",
        steps=(
            _SYNC,
            step(AT_ONCE, "send"),
            step(SETTLED, "power_off", "leader"),
            step(MOVED, "send"),
            step(AT_ONCE, "start", "leader"),
        ),
        duration_s=12,
    ),
    rules=("lost.never",),
)

_LAST_STANDING = FaultPlan(
    name="last_replica_loses_power",
    summary="Flush all disks, stop one follower, let 100 records be acknowledged by two, stop the other follower, cut "
    "the power of the leader, which is the last in sync. Start those two, then the first.",
    steps=(
        _SYNC,
        step(AT_ONCE, "stop", "other_follower", ("isr_shrunk",)),
        step(SHRUNK, "send"),
        step(SETTLED, "stop", "follower", ("isr_shrunk",)),
        step(SHRUNK, "power_off", "leader", ()),
        step(AT_ONCE, "start", "leader_and_follower"),
        step(LED, "send"),
        step(AT_ONCE, "start", "other_follower"),
    ),
    duration_s=20,
)

_WITHOUT_ELR = Entry(
    name="power.last_replica_without_elr",
    title="Without ELR: the last replica loses power, is elected all the same, and the other follows it",
    promise="Without eligible leader replicas only the last in-sync replica may lead, even if it lost what it had "
    "not flushed. A replica that was shut down in an orderly way and has everything cuts its own records off to "
    "follow it.",
    source="KIP-966",
    tags=("promises", "power"),
    elr=False,
    arms=(
        subject("safe", "at_least_once", _LOST),
        _FLUSHED,
    ),
    load=_LOAD,
    fault=_LAST_STANDING,
    rules=("lost.power_of_last",),
)

_WITH_ELR = Entry(
    name="power.last_replica_with_elr",
    title="With ELR: the last replica loses power, and one that still has everything leads",
    promise="Eligible leader replicas remember who was in sync when min.insync.replicas was still met: one that ended "
    "in an orderly way leads instead of the last replica, which lost its power. On by default since Kafka "
    "4.1. With min.insync.replicas=1 there is no such replica.",
    source="KIP-966",
    tags=("promises", "power"),
    arms=(
        ArmPlan(name="min_isr_1", role="subject", profile=_MIN_ISR_1, claim="at_least_once", expectation=_LOST),
        control("safe"),
    ),
    load=_LOAD,
    fault=_LAST_STANDING,
    rules=("lost.min_isr_1", "lost.never"),
)

ENTRIES: tuple[Entry, ...] = (_ALL_BROKERS, _ONE_BROKER, _WITHOUT_ELR, _WITH_ELR)
