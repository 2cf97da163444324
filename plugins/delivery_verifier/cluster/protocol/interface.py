"""The interface of the requests that the verifier sends to single brokers in Kafka's protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from delivery_verifier.cluster.protocol.fetch import Fetched
from delivery_verifier.cluster.protocol.requests import PartitionState


class BrokerRequests(Protocol):
    """Requests of Kafka's protocol. Each request goes to one broker. Every method raises OSError if the broker does not
    answer or refuses the request.

    `cluster.protocol.broker_requests` implements these methods for real brokers.
    """

    def describe_partitions(self, broker: int, topics: list[str]) -> dict[tuple[str, int], PartitionState]:
        """Returns the state of every partition of `topics`, by (topic, partition), as `broker` sees it."""
        ...

    def live_brokers(self, broker: int) -> set[int]:
        """Returns the ids of the unfenced brokers, as `broker` sees them."""
        ...

    def assign_replicas(self, broker: int, replicas: Mapping[tuple[str, int], Sequence[int]]) -> None:
        """Assigns replicas to partitions. `replicas`: for each (topic, partition), the broker ids with the preferred
        leader first."""
        ...

    def alter_topics(self, broker: int, topics: Sequence[str], setting: str, value: str) -> None:
        """Sets `setting` of every topic to `value`."""
        ...

    def topic_setting(self, broker: int, topics: Sequence[str], setting: str) -> dict[str, str]:
        """Returns the value of `setting` by topic, as `broker` reports it."""
        ...

    def open_transactions(self, broker: int, names: Sequence[str]) -> dict[str, int]:
        """Maps each transactional.id in `names` that has an open transaction to the time at which the transaction
        began, in ms since the epoch. `broker` must be the coordinator of all these transactional.ids."""
        ...

    def fetch(self, broker: int, topic: str, partition: int, offset: int, most_bytes: int) -> Fetched:
        """Fetches batches of a partition from `broker`'s replica, from `offset` up to the broker's high watermark. The
        first batch may begin before `offset`. The answer has at most `most_bytes`, or a single larger batch."""
        ...
