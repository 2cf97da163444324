"""Finds out where Kafka keeps a transactional.id: in one partition of the topic `__transaction_state`."""

from __future__ import annotations

from delivery_verifier.model.history import DisturbanceKind

OF_COORDINATORS: frozenset[DisturbanceKind] = frozenset({"unclean_coordinator_election", "coordinator_power_loss"})
"""The kinds of disturbance that hit partitions of `__transaction_state`. Such a disturbance concerns an arm only if a
hit partition keeps a transactional.id of the arm.
"""

_WRAP = 2**32


def partition_of(transactional_id: str, partitions: int) -> int:
    """Returns the number of the partition of `__transaction_state` that keeps `transactional_id`. `partitions` is the
    number of partitions of this topic.

    The result is the absolute value of Java's String.hashCode, modulo `partitions` (Kafka:
    `TransactionStateManager.partitionFor`, `Utils.abs`).
    """
    code = 0
    for unit in memoryview(transactional_id.encode("utf-16-le")).cast("H"):
        code = (31 * code + unit) % _WRAP
    signed = code - _WRAP if code >= _WRAP // 2 else code
    return (0 if signed == -_WRAP // 2 else abs(signed)) % partitions
