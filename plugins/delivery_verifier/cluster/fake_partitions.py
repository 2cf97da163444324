"""Computes how the leader and the ISR of a partition of a fake cluster change when a broker goes or comes back, and
where a leader epoch ends in a log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from delivery_verifier.cluster.protocol.epochs import EpochEnd
from delivery_verifier.cluster.protocol.fetch import RawBatch
from delivery_verifier.cluster.protocol.requests import PartitionState


def without_broker(state: PartitionState, broker: int) -> PartitionState:
    """Returns the state of a partition after `broker` has gone.

    If `broker` was the last broker of the ISR, it stays in the ISR, but no longer leads the partition.
    """
    isr = tuple(member for member in state.isr if member != broker)
    if state.leader != broker:
        return replace(state, isr=isr or state.isr)
    return replace(state, leader=isr[0] if isr else -1, leader_epoch=state.leader_epoch + 1, isr=isr or state.isr)


def with_broker(state: PartitionState, broker: int) -> PartitionState:
    """Returns the state of a partition after `broker` has come back.

    If the partition has a leader, `broker` joins the ISR. If the partition has no leader and `broker` is in the ISR,
    `broker` becomes the leader.
    """
    if state.leader >= 0:
        isr = tuple(member for member in state.replicas if member in state.isr or member == broker)
        return replace(state, isr=isr)
    if broker in state.isr:
        return replace(state, leader=broker, leader_epoch=state.leader_epoch + 1)
    return state


def end_of_epoch(batches: Iterable[RawBatch], epoch: int) -> EpochEnd:
    """Returns where `epoch` ends in a log with `batches`, as a leader in a later epoch answers."""
    below = [batch for batch in batches if batch.epoch <= epoch]
    return EpochEnd(
        max((batch.epoch for batch in below), default=epoch), max((batch.end for batch in below), default=0)
    )
