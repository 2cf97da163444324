"""Finds out which transactions hold back the last stable offset of a partition."""

from __future__ import annotations

from contextlib import suppress

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.requests import TransactionState
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.held_back import HeldBack, OpenTransaction

_UNKNOWN = TransactionState("", "", -1, -1)


def held_back(cluster: Cluster, topic: str, partition: int, leader: int, last_stable_offset: int) -> HeldBack:
    """Returns what holds back the last stable offset of a partition. Raises nothing: if the brokers do not say what it
    is, the result says why.

    `leader` is the broker that leads the partition. `last_stable_offset` is the offset that it has reported.
    """
    try:
        transactions = _open_transactions(cluster, topic, partition, leader)
    except (OSError, VerifierError) as error:
        return HeldBack(last_stable_offset=last_stable_offset, unknown=str(error) or type(error).__name__)
    unknown = "" if transactions else f"broker {leader} names no producer with an open transaction"
    return HeldBack(last_stable_offset=last_stable_offset, transactions=transactions, unknown=unknown)


def _open_transactions(cluster: Cluster, topic: str, partition: int, leader: int) -> tuple[OpenTransaction, ...]:
    """Returns the transactions that are open in a partition, the oldest first. Asks the leader, and then all brokers,
    because each may be the coordinator of a producer. A broker that does not answer is passed over."""
    requests = cluster.requests
    producers = sorted(requests.active_producers(leader, topic, partition), key=lambda producer: producer.first_offset)
    states = dict[int, TransactionState]()
    for broker in cluster.running() if producers else []:
        with suppress(OSError, VerifierError):
            states |= requests.transactions_of(broker, [producer.producer_id for producer in producers])
    return tuple(
        OpenTransaction(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            first_offset=producer.first_offset,
            last_at_ms=producer.last_at_ms,
            transactional_id=state.transactional_id,
            state=state.state,
            began_at_ms=state.began_ms,
            timeout_ms=state.timeout_ms,
        )
        for producer in producers
        for state in [states.get(producer.producer_id, _UNKNOWN)]
    )
