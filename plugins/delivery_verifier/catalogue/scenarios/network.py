"""The network: brokers that other brokers cannot reach, while clients can still reach them."""

from __future__ import annotations

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import AT_ONCE, MOVED, SETTLED, after, broken, control, scripted, step, subject
from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.scenario import Bound, Expectation

UNFETCHED = after(0.5)
"""The trigger of the step that sends records. It fires half a second after the followers were cut off from the leader.
A fetch request waits at the leader for at most `replica.fetch.wait.max.ms` (200 ms). So the leader then holds no fetch
request from before the cut, which it could answer with the new records."""
_LOAD = scripted(100)
_ACKS = "Apache Kafka documentation, producer configurations: acks"

_ISOLATED_LEADER = Entry(
    name="acks_1.isolated_leader",
    title="acks=1: a leader that is cut off goes on acknowledging, and is overruled",
    promise="A leader that is cut off from the controller and its followers, while clients still reach it, does not "
    "know that another leads. With acks=1 it goes on acknowledging, and cuts all of that off when it is back. "
    "With acks=all it can acknowledge nothing.",
    source=f"{_ACKS}; KIP-101",
    tags=("promises",),
    arms=(
        subject("acks_1", "at_least_once", broken(LOST=200)),
        ArmPlan(
            name="acks_0",
            role="subject",
            profile=PROFILES["acks_0"],
            claim="at_least_once",
            expectation=Expectation(verdicts=("VIOLATED",), bounds=(Bound(count="LOST", op=">=", value=200),)),
        ),
        control("acks_all"),
        control("idempotent"),
    ),
    load=_LOAD,
    fault=FaultPlan(
        name="isolated_leader",
        summary="Cut the leader off from the controller and the followers, let it acknowledge 100 records, and 100 "
        "more once another leads; then let it join again.",
        steps=(
            step(AT_ONCE, "isolate", "leader"),
            step(UNFETCHED, "send"),
            step(MOVED, "send"),
            step(SETTLED, "rejoin", "leader"),
        ),
        duration_s=15,
    ),
    rules=("lost.acks_1", "lost.acks_0", "lost.never"),
)

_REPLICATION_CUT = Entry(
    name="acks_1.replication_cut",
    title="acks=1: followers that are in sync by the book only",
    promise="A follower counts as in sync for replica.lag.time.max.ms (30 s) after its last fetch: if the leader dies "
    "while replication hangs, what it acknowledged with acks=1 dies with it. With acks=all nothing was "
    "acknowledged.",
    source=f"{_ACKS}; Apache Kafka documentation, broker configurations: replica.lag.time.max.ms",
    tags=(
        "smoke",
        "promises",
    ),
    session_timeout_ms=6000,
    arms=(
        subject("acks_1", "at_least_once", broken(LOST=100)),
        control("idempotent"),
    ),
    load=_LOAD,
    fault=FaultPlan(
        name="replication_cut",
        summary="Cut the leader's replication, let it acknowledge 100 records, kill it while its followers count as "
        "in sync.",
        steps=(
            step(AT_ONCE, "isolate", "leader", ("brief",), links="replication"),
            step(UNFETCHED, "send"),
            step(SETTLED, "kill", "leader"),
            step(AT_ONCE, "rejoin", "leader"),
            step(MOVED, "send"),
            step(AT_ONCE, "start", "leader"),
        ),
        duration_s=12,
    ),
    rules=("lost.acks_1", "lost.never"),
)

ENTRIES: tuple[Entry, ...] = (_ISOLATED_LEADER, _REPLICATION_CUT)
