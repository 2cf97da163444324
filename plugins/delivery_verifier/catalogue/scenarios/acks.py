"""Acknowledgements: what acks 0, 1 and all promise, and where each ends."""

from __future__ import annotations

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.scenario import Bound, Expectation, FaultPlan, FaultStep, Load, Trigger

_FROZEN_FOLLOWERS = Entry(
    name="acks_1.frozen_followers",
    title="acks=1: the leader dies with what its followers had not fetched",
    promise="acks=1 is the leader's word alone: records it acknowledged while its followers stood still die with it. "
    "acks=all acknowledges nothing that its followers do not have.",
    source="Apache Kafka documentation, producer configurations: acks",
    tags=("smoke", "promises"),
    arms=(
        ArmPlan(
            name="acks_1", role="subject", profile=PROFILES["acks_1"], claim="at_least_once",
            expectation=Expectation(verdicts=("VIOLATED",), bounds=(Bound(count="LOST", op="=", value=100),)),
        ),
        ArmPlan(name="safe", role="control", profile=PROFILES["safe"], claim="at_least_once"),
    ),
    load=Load(partitions=1, pacing="scripted", block=100),
    fault=FaultPlan(
        name="frozen_followers",
        summary="Freeze both followers, let the leader acknowledge 100 records, kill it, thaw the followers at once.",
        steps=(
            FaultStep(trigger=Trigger(kind="at_once"), action="pause", target="followers", proofs=("brief",)),
            FaultStep(trigger=Trigger(kind="elapsed", value=0.5), action="send"),
            FaultStep(trigger=Trigger(kind="settled"), action="kill", target="leader"),
            FaultStep(trigger=Trigger(kind="at_once"), action="resume", target="followers"),
            FaultStep(trigger=Trigger(kind="leader_moved"), action="send"),
            FaultStep(trigger=Trigger(kind="at_once"), action="start", target="leader"),
        ),
    ),
    rules=("lost.acks_1", "lost.never"),
)  # fmt: skip

ENTRIES: tuple[Entry, ...] = (_FROZEN_FOLLOWERS,)
