"""Hand-made observations of a cluster, and the kill of a broker, for tests of disturbances."""

from __future__ import annotations

from delivery_verifier.model.history import Injection, Observation

SECOND = 1_000_000
EFFECT_AT, RECOVERED = 100 * SECOND, 110 * SECOND
KILL = Injection(
    id=1,
    cycle=1,
    action="kill",
    brokers=[1],
    hit={"t": [0]},
    requested_at_us=EFFECT_AT - SECOND // 10,
    effect_at_us=EFFECT_AT,
    healed_at_us=105 * SECOND,
    recovered_at_us=RECOVERED,
    took_effect=True,
)
"""Broker 1 is killed, is started again, and the cluster recovers."""


def at(s: float, leader: int, epoch: int, isr: list[int], partition: int = 0) -> Observation:
    """Returns an observation of a partition of the topic t at `s` seconds."""
    return Observation(
        at_us=int(s * SECOND),
        kind="partition",
        topic="t",
        partition=partition,
        leader=leader,
        leader_epoch=epoch,
        isr=isr,
    )


def process(s: float, broker: int, state: str, exit_code: int | None = None) -> Observation:
    """Returns an observation of a broker's process at `s` seconds."""
    return Observation(at_us=int(s * SECOND), kind="process", broker=broker, state=state, exit_code=exit_code)
