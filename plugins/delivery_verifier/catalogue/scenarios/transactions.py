"""Transactions: what they promise when the broker that coordinates them is killed."""

from __future__ import annotations

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import MOVED, control, step, subject
from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.model.fault_plan import FaultPlan, Trigger
from delivery_verifier.model.scenario import Expectation, Load

_RATE, _CYCLES, _ROUND_S = 500, 3, 9.0
"""_RATE: records per second and arm. _CYCLES: the number of passes through the fault plan. _ROUND_S: seconds per
pass."""
_DURATION_S = _CYCLES * _ROUND_S + 8

_COORDINATOR_KILLED = Entry(
    name="transactional.coordinator_killed",
    title="Transactions: their coordinator is killed, again and again",
    promise="What a client was told to be committed stays so when the broker that coordinates its transactions dies, "
    "and a read_committed consumer never sees what was aborted: three brokers keep the transaction log. Of a "
    "transaction that is open at that moment the client is told the outcome later, or that it is unknown. To "
    "clients without transactions it is no more than the death of a leader.",
    source="KIP-98, transaction coordinator and transaction log",
    tags=("promises",),
    arms=(
        subject("transactional", "exactly_once", Expectation()),
        control("safe", "exactly_once"),
        ArmPlan(
            name="acks_0",
            role="control",
            profile=PROFILES["acks_0"],
            claim="at_least_once",
            expectation=Expectation(verdicts=("HELD", "VIOLATED")),
        ),
    ),
    load=Load(rate=_RATE, duration_s=_DURATION_S, deadline_s=300),
    records=int(_RATE * _DURATION_S),
    fault=FaultPlan(
        name="coordinator_killed",
        summary="SIGKILL the broker that coordinates the producer's transactions, and start it again once others "
        "lead; three times, each time whoever coordinates then.",
        duration_s=_ROUND_S,
        cycles=_CYCLES,
        steps=(
            step(
                Trigger(kind="reported", value=0.15),
                "kill",
                "transaction_coordinator",
                ("leader_moved", "coordinator_moved"),
            ),
            step(MOVED, "wait"),
            step(Trigger(kind="coordinator_moved"), "start"),
        ),
    ),
    deterministic=False,
    min_exposed=100,
    rules=("lost.acks_0", "lost.never", "duplicated.never", "aborted_visible.never", "torn.never"),
)

ENTRIES: tuple[Entry, ...] = (_COORDINATOR_KILLED,)
