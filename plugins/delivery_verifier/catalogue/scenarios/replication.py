"""Replication: which records min.insync.replicas protects, and which records an unclean leader election loses.

ENTRIES also has the entries of the module `refusals`, which are about refused writes.
"""

from __future__ import annotations

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import (
    AT_ONCE,
    DEPOSED,
    LED,
    SETTLED,
    SHRUNK,
    broken,
    control,
    scripted,
    step,
)
from delivery_verifier.catalogue.profiles import PROFILES, profile_of
from delivery_verifier.catalogue.scenarios import refusals
from delivery_verifier.model.fault_plan import FaultPlan

_LOAD = scripted(50)
_ALL_LOST = broken(LOST=50)
_TOPICS = "Apache Kafka documentation, topic configurations"

_UNCLEAN_MIN_ISR_1 = profile_of(
    "min_isr_1_unclean",
    "acks=all; one replica may acknowledge for all, and any replica may become leader.",
    topic={"min.insync.replicas": 1, "unclean.leader.election.enable": True},
    topic_metadata_refresh_interval_ms=1000,
)
_CLEAN_MIN_ISR_1 = profile_of(
    "min_isr_1",
    "acks=all; one replica may acknowledge for all, and only one that is in sync may become leader.",
    topic={"min.insync.replicas": 1},
    topic_metadata_refresh_interval_ms=1000,
)
_UNCLEAN = profile_of(
    "unclean",
    "acks=all, minimum two in-sync replicas, but any replica may become leader.",
    topic={"unclean.leader.election.enable": True},
    topic_metadata_refresh_interval_ms=1000,
)

_UNCLEAN_IDEMPOTENT = profile_of(
    "unclean_idempotent",
    "The same, idempotent: this producer notices the gap in its own sequence, and refuses to go on.",
    topic={"unclean.leader.election.enable": True},
    enable_idempotence=True,
    topic_metadata_refresh_interval_ms=1000,
)

_ONE_ACKNOWLEDGES = Entry(
    name="min_isr_1.last_in_sync_killed",
    title="min.insync.replicas=1: one broker acknowledges for all, and dies",
    promise="With min.insync.replicas=1, acks=all may mean one broker; where an unclean election is allowed, its death "
    "loses what it acknowledged alone. With min.insync.replicas=2 nothing is acknowledged until two have it; without "
    "unclean election the partition stays offline until that broker is back.",
    source=f"{_TOPICS}: min.insync.replicas, unclean.leader.election.enable",
    tags=("smoke", "promises"),
    arms=(
        ArmPlan(
            name="min_isr_1_unclean",
            role="subject",
            profile=_UNCLEAN_MIN_ISR_1,
            claim="at_least_once",
            expectation=_ALL_LOST,
        ),
        ArmPlan(name="min_isr_1", role="control", profile=_CLEAN_MIN_ISR_1, claim="at_least_once"),
        control("safe"),
    ),
    load=_LOAD,
    fault=FaultPlan(
        name="last_in_sync_killed",
        summary="Kill both followers, let the leader acknowledge 50 records alone, kill it, start the followers "
        "without it.",
        steps=(
            step(AT_ONCE, "kill", "followers", ("isr_shrunk",)),
            step(SHRUNK, "send"),
            step(SETTLED, "kill", "leader", ("deposed",)),
            step(AT_ONCE, "start", "followers"),
            step(LED, "start", "leader"),
        ),
    ),
    rules=("lost.unclean", "lost.never"),
)

_STALE_REPLICA = (
    step(AT_ONCE, "kill", "other_follower", ("isr_shrunk",)),
    step(SHRUNK, "send"),
    step(SETTLED, "kill", "leader_and_follower", ("deposed",)),
    step(AT_ONCE, "start", "other_follower"),
)
"""The steps of a fault plan after which only a stale replica runs. One follower is killed, and the other two replicas
acknowledge 50 records. Then these two are killed, and the follower without the 50 records is started again."""

_UNCLEAN_ELECTION = Entry(
    name="unclean.stale_replica_elected",
    title="unclean.leader.election.enable=true: a replica that missed records becomes leader",
    promise="An unclean election trades records for availability: a replica that missed acknowledged records becomes "
    "leader, and the others cut off what it does not have, whatever acks and min.insync.replicas say. An "
    "idempotent producer that goes on sending notices the gap (OUT_OF_ORDER_SEQUENCE_NUMBER, fatal); what was "
    "acknowledged is gone all the same. Without unclean election the partition waits for a replica that has "
    "them.",
    source=f"{_TOPICS}: unclean.leader.election.enable; KIP-106",
    tags=("smoke", "promises"),
    arms=(
        ArmPlan(name="unclean", role="subject", profile=_UNCLEAN, claim="at_least_once", expectation=_ALL_LOST),
        ArmPlan(
            name="unclean_idempotent",
            role="subject",
            profile=_UNCLEAN_IDEMPOTENT,
            claim="at_least_once",
            expectation=_ALL_LOST,
        ),
        control("safe"),
    ),
    load=_LOAD,
    fault=FaultPlan(
        name="stale_replica_alone",
        summary="Kill one follower, let the other two acknowledge 50 records, kill both, start the one that missed "
        "them.",
        steps=(*_STALE_REPLICA, step(LED, "start", "leader_and_follower")),
    ),
    rules=("lost.unclean", "lost.never"),
)

_OPERATOR = Entry(
    name="unclean.asked_for",
    title="An unclean election that an operator asks for",
    promise="unclean.leader.election.enable=false keeps the controller from electing a replica that missed records; "
    "it does not keep an operator from it. An operator who asks for an unclean election to have a partition back "
    "gives up what only the absent replicas have, whatever the settings. An operator who waits for them loses "
    "nothing.",
    source="KIP-460 (ElectLeaders, UNCLEAN), kafka-leader-election.sh --election-type unclean",
    tags=("promises",),
    arms=(
        ArmPlan(
            name="elected",
            role="subject",
            profile=PROFILES["acks_all"],
            claim="at_least_once",
            expectation=_ALL_LOST,
        ),
        ArmPlan(name="waiting", role="control", profile=PROFILES["acks_all"], claim="at_least_once"),
    ),
    load=_LOAD,
    fault=FaultPlan(
        name="operator_elects_stale_replica",
        summary="Kill one follower, let the other two acknowledge 50 records, kill both, start the one that missed "
        "them and have it elected, for the subject alone.",
        steps=(
            *_STALE_REPLICA,
            step(DEPOSED, "elect_unclean", "other_follower"),
            step(AT_ONCE, "send"),
            step(AT_ONCE, "start", "leader_and_follower"),
        ),
    ),
    rules=("lost.unclean_request", "lost.never"),
)

ENTRIES: tuple[Entry, ...] = (_ONE_ACKNOWLEDGES, _UNCLEAN_ELECTION, _OPERATOR, *refusals.ENTRIES)
