"""The requests of Kafka's protocol that the verifier sends to single brokers, whatever code sends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from delivery_verifier.cluster.protocol.requests import PartitionState


class BrokerRequests(Protocol):
    """Requests of Kafka's protocol to one broker each. All raise OSError where the broker does not answer or refuses.

    `cluster.protocol.broker_requests` sends them to any real broker.
    """

    def describe_partitions(self, broker: int, topics: list[str]) -> dict[tuple[str, int], PartitionState]:
        """The state of every partition of `topics`, by (topic, partition), as `broker` sees it."""
        ...

    def live_brokers(self, broker: int) -> set[int]:
        """Ids of the unfenced brokers, as `broker` sees them."""
        ...

    def assign_replicas(self, broker: int, replicas: Mapping[tuple[str, int], Sequence[int]]) -> None:
        """Gives partitions these replicas, the preferred leader first."""
        ...

    def alter_topics(self, broker: int, topics: Sequence[str], setting: str, value: str) -> None:
        """Sets `setting` of every topic to `value`."""
        ...

    def topic_setting(self, broker: int, topics: Sequence[str], setting: str) -> dict[str, str]:
        """The value of `setting` per topic, as `broker` knows it."""
        ...
