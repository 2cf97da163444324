"""Transactions: what they promise in three cases. Their coordinator is killed. A request that ends a transaction is
late. Their producer is killed."""

from __future__ import annotations

from msgspec.structs import replace

from delivery_verifier.catalogue.entry import ArmPlan, Entry
from delivery_verifier.catalogue.parts import (
    AT_ONCE,
    FULL,
    MOVED,
    SETTLED,
    TOOK_EFFECT,
    after,
    broken,
    control,
    exactly,
    step,
    subject,
)
from delivery_verifier.catalogue.profiles import PROFILES
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.scenario import Expectation, Load

_RATE, _CYCLES, _ROUND_S = 500, 3, 9.0
"""_RATE: records per second and arm. _CYCLES: the number of passes through the fault plan. _ROUND_S: seconds per
pass."""
_DURATION_S = _CYCLES * _ROUND_S + 8

_COORDINATOR_KILLED = Entry(
    name="transactional.coordinator_killed",
    title="Transactions: their coordinator is killed, again and again",
    promise="A transaction whose commit the client has seen stays committed when "
    "the broker that coordinates its transactions dies, "
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
        "lead; three times, each time the broker that coordinates then.",
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

_BLOCK = 20
_LATE_MS, _PATIENCE_MS = 6000, 2000
"""_LATE_MS: how late the request to end a transaction reaches the coordinator. _PATIENCE_MS: how long the impatient
client waits for an answer. After this wait, and before the late request arrives, the client must ask again, and send
the first records of its next transaction."""
_IMPATIENT = replace(
    PROFILES["transactional"],
    name="transactional_impatient",
    summary="As transactional, with a client that soon closes a connection on which no answer comes, and asks again.",
    producer=PROFILES["transactional"].producer | {"socket.timeout.ms": _PATIENCE_MS},
)


def _overtaken_end() -> tuple[FaultStep, ...]:
    """Returns steps that make a late request end the wrong transaction.

    1. At the first `send`, each client completes its open transaction, and asks the coordinator to end it. The proxy
       delays this request. The impatient client asks again, and the second request ends the transaction.
    2. The client begins its next transaction with a block to partition 2. The delayed request arrives, and ends this
       next transaction. The step `wait` waits for the answers to all delayed requests.
    3. At the second `send`, the client completes this next transaction with a block to partition 0.
    """
    return (
        step(AT_ONCE, "delay_end", "all", delay_ms=_LATE_MS, clients=2),
        step(AT_ONCE, "send"),
        step(TOOK_EFFECT, "wait"),
        step(SETTLED, "release"),
        step(AT_ONCE, "send"),
    )


_LATE_END = Entry(
    name="transactional.late_end",
    title="Transactions: a client asks twice for the end of one, and the next one is ended too",
    promise="A transaction is seen whole or not at all. But a request to end one may be under way too long, while "
    "the client does not wait for the answer and asks again. It then ends the next transaction, as far as that has "
    "come: such a request names no transaction, only a producer, whose epoch stays. "
    "Nobody tells the client. Clients that speak version 2 of "
    "transactions are safe; librdkafka does not yet. A client that waits is safe from this delay, too.",
    source="KAFKA-17754; KIP-98, atomicity; KIP-890 (what it closes for clients with transaction version 2)",
    tags=("promises",),
    arms=(
        ArmPlan(
            name="impatient",
            role="subject",
            profile=_IMPATIENT,
            claim="exactly_once",
            expectation=broken(LOST=0, TORN=_BLOCK, ABORTED_VISIBLE=_BLOCK),
            with_other={"java": exactly(LOST=0, TORN=0, ABORTED_VISIBLE=0)},
        ),
        control("transactional", "exactly_once"),
        control("safe", "exactly_once"),
    ),
    load=Load(partitions=3, pacing="scripted", block=_BLOCK, transaction_records=2 * _BLOCK, abort_every=2),
    fault=FaultPlan(
        name="late_end",
        summary=f"Let the end of a transaction reach its coordinator {_LATE_MS / 1000:g} s late, where one client "
        f"waits {_PATIENCE_MS / 1000:g} s and asks again; first an abort, and then a commit.",
        duration_s=20,
        steps=(step(AT_ONCE, "send"), *_overtaken_end(), *_overtaken_end()),
    ),
    rules=("torn.late_end", "aborted_visible.late_end", "torn.never", "aborted_visible.never", "lost.never"),
)
"""Every transaction holds two blocks. Every `send` step sends three blocks, to the partitions 0, 1 and 2. So after the
warm-up, and after every second `send` step, one transaction is open. It holds a block to partition 2, and its next
block goes to partition 0.

Every second transaction is aborted, the others are committed.

* The first late request is the abort of the fourth transaction. It aborts the first block of the fifth transaction,
  which the client then commits (TORN).
* The second late request is the commit of the seventh transaction. It commits the first block of the eighth
  transaction, which the client then aborts (ABORTED_VISIBLE).
"""

_KILLED = Entry(
    name="producer.killed_in_transaction",
    title="Transactions: a producer is killed in the middle of one",
    promise="A transaction that its producer never ended is seen by no read_committed consumer, not even the part that "
    "was acknowledged. The producer that starts again with the same transactional.id aborts it first. A program "
    "that writes "
    "without transactions has written what was not answered, and writes it twice if it sends that again.",
    source="KIP-98, transactional.id and producer fencing",
    tags=("promises",),
    arms=(
        subject(
            "transactional",
            "exactly_once",
            exactly(TORN=0, ABORTED_VISIBLE=0, LOST=0, RESENT=0, indeterminate=10, acked=110),
        ),
        control("safe", expectation=exactly(LOST=0, RESENT=20, indeterminate=10)),
    ),
    load=Load(partitions=1, pacing="scripted", block=10, transaction_records=30),
    fault=FaultPlan(
        name="killed_in_transaction",
        summary="Commit 30 records, abort 30, and begin a transaction with 10; freeze a follower, so that 10 more are "
        "not answered; kill the producers, thaw the follower, start the producers again.",
        steps=(
            step(AT_ONCE, "send", "none", blocks=2),
            step(SETTLED, "send", "none", blocks=3),
            step(SETTLED, "send", "none"),
            step(SETTLED, "pause", "follower", ("brief",)),
            step(after(0.5), "send", "none"),
            step(after(1.0), "kill_producer", "none", ("transactions_open",)),
            step(AT_ONCE, "resume", "follower"),
            step(FULL, "restart_producer", "none"),
            step(SETTLED, "send", "none", blocks=3),
        ),
    ),
    session_timeout_ms=6000,
    rules=("torn.never", "aborted_visible.never", "lost.never", "resent.application"),
    why_held="What the transaction promises is kept: it is seen whole or not at all.",
)
"""A transaction holds three blocks. When the producers are killed, the transactional producer has an open transaction
with two blocks: one acknowledged, one not. This transaction stays INDETERMINATE, and no read_committed consumer sees
its 20 records. The producer that starts again does not resend them, because nobody told it how the transaction ended.
"""

ENTRIES: tuple[Entry, ...] = (_COORDINATOR_KILLED, _LATE_END, _KILLED)
