"""Transaction coordinators. Kafka keeps the state of each transactional.id in one partition of the topic
`__transaction_state`. The leader of this partition is the coordinator of the transactional.id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.model.coordinators import partition_of
from delivery_verifier.model.history import TRANSACTION_STATE


def states(cluster: Cluster, transactional_ids: Iterable[str]) -> dict[int, PartitionState]:
    """Returns the states of the partitions of `__transaction_state` that hold `transactional_ids`. The keys are
    partition numbers.

    The result is empty if no broker answers. It is also empty if the cluster has had no transactional producer, because
    Kafka creates `__transaction_state` only for the first transactional producer.
    """
    all_states = {partition: state for (_, partition), state in cluster.partitions([TRANSACTION_STATE]).items()}
    if not all_states:
        return {}
    numbers = {partition_of(name, len(all_states)) for name in transactional_ids}
    return {partition: state for partition, state in all_states.items() if partition in numbers}


def open_transactions(cluster: Cluster, transactional_ids: Iterable[str]) -> dict[str, int]:
    """Returns when the open transactions of `transactional_ids` began, in ms since the epoch. The keys are the
    transactional.ids that have an open transaction.

    Asks the coordinators of the transactional.ids. Raises OSError if a transactional.id has no coordinator, or if a
    coordinator does not answer.
    """
    leaders = {partition: state.leader for (_, partition), state in cluster.partitions([TRANSACTION_STATE]).items()}
    names_by_leader = defaultdict[int, list[str]](list)
    for name in transactional_ids:
        leader = leaders.get(partition_of(name, len(leaders)), -1) if leaders else -1
        if leader < 0:
            raise ConnectionError(f"{name} has no coordinator")
        names_by_leader[leader].append(name)
    return {
        name: began_ms
        for leader, names in names_by_leader.items()
        for name, began_ms in cluster.requests.open_transactions(leader, names).items()
    }
