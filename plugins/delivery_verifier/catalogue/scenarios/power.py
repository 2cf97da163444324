"""Power: what is lost with the page cache, and what flush.messages and ELR save."""

from __future__ import annotations

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.profiles import PROFILES, profile_of
from delivery_verifier.scenario import Bound, Expectation, FaultPlan, FaultStep, Load, Trigger

AT_ONCE, SETTLED, SHRUNK = (Trigger(kind=kind) for kind in ("at_once", "settled", "isr_shrunk"))
ON_DISK = Trigger(kind="elapsed", value=1.0)
"""Time for the control, which flushes what it acknowledges; the operating system flushes after 30 s by itself."""
_LOAD = Load(partitions=1, pacing="scripted", block=100)
_LOST = Expectation(verdicts=("VIOLATED",), bounds=(Bound(count="LOST", op="=", value=100),))
_SYNC = FaultStep(trigger=AT_ONCE, action="sync", target="all")
_FLUSHING = "Apache Kafka documentation, operations: application vs. OS flush management"

FLUSHED = profile_of(
    "flushed", "As safe, and on disk before it is acknowledged.",
    topic={"flush.messages": 1}, acks="all", enable_idempotence=True, topic_metadata_refresh_interval_ms=1000,
)  # fmt: skip
_FLUSHED = ArmPlan(name="flushed", role="control", profile=FLUSHED, claim="at_least_once")
_MIN_ISR_1 = profile_of(
    "min_isr_1", "Idempotent; one in-sync replica may acknowledge for all.",
    topic={"min.insync.replicas": 1}, acks="all", enable_idempotence=True, topic_metadata_refresh_interval_ms=1000,
)  # fmt: skip

_ALL_BROKERS = Entry(
    name="power.all_brokers",
    title="All brokers lose power: acks=all is no promise of the disk",
    promise="Kafka acknowledges what is in the memory of all in-sync replicas, and leaves it to the operating system when it "
    "reaches the disk: if all of them lose power together, whatever acks say, it is gone. With flush.messages=1 it is on "
    "disk before it is acknowledged.",
    source=f"{_FLUSHING}; topic configurations: flush.messages",
    tags=("smoke", "promises", "power"),
    arms=(
        ArmPlan(name="safe", role="subject", profile=PROFILES["safe"], claim="at_least_once", expectation=_LOST),
        _FLUSHED,
    ),
    load=_LOAD,
    fault=FaultPlan(
        name="all_brokers_lose_power",
        summary="Flush all disks, let 100 records be acknowledged, cut the power of all brokers at once, send 100 more, start "
        "the brokers.",
        steps=(
            _SYNC,
            FaultStep(trigger=AT_ONCE, action="send"),
            FaultStep(trigger=SETTLED, action="wait"),
            FaultStep(trigger=ON_DISK, action="power_off", target="all", proofs=()),
            FaultStep(trigger=AT_ONCE, action="send"),  # under way while nobody is there: this is what is exposed
            FaultStep(trigger=AT_ONCE, action="start", target="all"),
        ),
        duration_s=12,
    ),
    rules=("lost.power_of_all", "lost.never"),
)  # fmt: skip

_ONE_BROKER = Entry(
    name="power.one_broker",
    title="One broker loses power: what is in sync elsewhere survives",
    promise="An acknowledged record is in all in-sync replicas: a leader that loses power loses what it had not flushed, and "
    "copies it back from the one that leads then.",
    source=f"{_FLUSHING}; design: replication",
    tags=("power",),
    why_held="The fault takes nothing from anyone: that is the promise.",
    arms=(
        ArmPlan(name="acks_all", role="subject", profile=PROFILES["acks_all"], claim="at_least_once"),
        ArmPlan(name="safe", role="control", profile=PROFILES["safe"], claim="at_least_once"),
    ),
    load=_LOAD,
    fault=FaultPlan(
        name="leader_loses_power",
        summary="Flush all disks, let 100 records be acknowledged, cut the leader's power, start it once another leads.",
        steps=(
            _SYNC,
            FaultStep(trigger=AT_ONCE, action="send"),
            FaultStep(trigger=SETTLED, action="power_off", target="leader"),
            FaultStep(trigger=Trigger(kind="leader_moved"), action="send"),
            FaultStep(trigger=AT_ONCE, action="start", target="leader"),
        ),
        duration_s=12,
    ),
    rules=("lost.never",),
)  # fmt: skip

_LAST_STANDING = FaultPlan(
    name="last_replica_loses_power",
    summary="Flush all disks, stop one follower, let 100 records be acknowledged by two, stop the other follower, cut the power "
    "of the leader, which is the last in sync; start those two, then the first.",
    steps=(
        _SYNC,
        FaultStep(trigger=AT_ONCE, action="stop", target="other_follower", proofs=("isr_shrunk",)),
        FaultStep(trigger=SHRUNK, action="send"),
        FaultStep(trigger=SETTLED, action="stop", target="follower", proofs=("isr_shrunk",)),
        FaultStep(trigger=SHRUNK, action="power_off", target="leader", proofs=()),
        FaultStep(trigger=AT_ONCE, action="start", target="leader_and_follower"),
        FaultStep(trigger=Trigger(kind="led"), action="send"),
        FaultStep(trigger=AT_ONCE, action="start", target="other_follower"),
    ),
    duration_s=20,
)  # fmt: skip

_WITHOUT_ELR = Entry(
    name="power.last_replica_without_elr",
    title="Without ELR: the last replica loses power, is elected all the same, and the other follows it",
    promise="Without eligible leader replicas only the last in-sync replica may lead, even if it lost what it had not flushed; "
    "one that was shut down in an orderly way and has everything cuts its own records off to follow it.",
    source="KIP-966",
    tags=("promises", "power"),
    elr=False,
    arms=(
        ArmPlan(name="safe", role="subject", profile=PROFILES["safe"], claim="at_least_once", expectation=_LOST),
        _FLUSHED,
    ),
    load=_LOAD,
    fault=_LAST_STANDING,
    rules=("lost.power_of_last",),
)  # fmt: skip

_WITH_ELR = Entry(
    name="power.last_replica_with_elr",
    title="With ELR: the last replica loses power, and one that still has everything leads",
    promise="Eligible leader replicas remember who was in sync when min.insync.replicas was still met: one that ended in an "
    "orderly way leads instead of the last replica, which lost its power. On by default since Kafka 4.1. With "
    "min.insync.replicas=1 there is nobody to remember.",
    source="KIP-966",
    tags=("promises", "power"),
    arms=(
        ArmPlan(name="min_isr_1", role="subject", profile=_MIN_ISR_1, claim="at_least_once", expectation=_LOST),
        ArmPlan(name="safe", role="control", profile=PROFILES["safe"], claim="at_least_once"),
    ),
    load=_LOAD,
    fault=_LAST_STANDING,
    rules=("lost.min_isr_1", "lost.never"),
)  # fmt: skip

ENTRIES: tuple[Entry, ...] = (_ALL_BROKERS, _ONE_BROKER, _WITHOUT_ELR, _WITH_ELR)
