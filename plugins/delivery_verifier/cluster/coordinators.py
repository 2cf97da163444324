"""Transaction coordinators. Each transactional.id is kept in one partition of the topic `__transaction_state`. The
leader of that partition is the coordinator of the transactional.id."""

from __future__ import annotations

from collections.abc import Iterable

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.model.history import TRANSACTION_STATE

_WRAP = 2**32


def partition_of(transactional_id: str, partitions: int) -> int:
    """Returns the number of the partition of `__transaction_state` that keeps `transactional_id`. `partitions`: the
    number of partitions of `__transaction_state`.

    The result is the absolute value of Java's String.hashCode, modulo `partitions` (Kafka:
    `TransactionStateManager.partitionFor`, `Utils.abs`).
    """
    code = 0
    for unit in memoryview(transactional_id.encode("utf-16-le")).cast("H"):
        code = (31 * code + unit) % _WRAP
    signed = code - _WRAP if code >= _WRAP // 2 else code
    return (0 if signed == -_WRAP // 2 else abs(signed)) % partitions


def states(cluster: Cluster, transactional_ids: Iterable[str]) -> dict[int, PartitionState]:
    """Returns the states of the partitions of `__transaction_state` that keep `transactional_ids`, by partition number.

    The result is empty if no broker answers, or if the cluster has had no transactional producer. Kafka creates
    `__transaction_state` only for the first transactional producer.
    """
    all_states = {partition: state for (_, partition), state in cluster.partitions([TRANSACTION_STATE]).items()}
    if not all_states:
        return {}
    numbers = {partition_of(name, len(all_states)) for name in transactional_ids}
    return {partition: state for partition, state in all_states.items() if partition in numbers}
