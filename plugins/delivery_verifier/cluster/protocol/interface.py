"""The interface for requests in Kafka's protocol that the verifier sends to single brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from delivery_verifier.cluster.protocol.epochs import EpochEnd, Partition, Question
from delivery_verifier.cluster.protocol.fetch import Fetched
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.cluster.protocol.transactions import ActiveProducer, TransactionState


class BrokerRequests(Protocol):
    """Requests of Kafka's protocol. Each request goes to one broker. Every method raises OSError if the broker does not
    answer or refuses the request.

    `cluster.protocol.broker_requests` implements these methods for real brokers.
    """

    def describe_partitions(self, broker: int, topics: list[str]) -> dict[tuple[str, int], PartitionState]:
        """Returns the state of every partition of `topics`, by (topic, partition), as `broker` sees it."""
        ...

    def epoch_ends(self, broker: int, questions: Mapping[Partition, Question]) -> dict[Partition, EpochEnd]:
        """Returns where leader epochs end in the logs of `broker`. Leaves out a partition that `broker` does not lead
        in the epoch of the question."""
        ...

    def not_leading(self, broker: int, led: Mapping[Partition, int]) -> set[Partition]:
        """Returns the partitions of which `broker` knows that it does not lead them in the epochs `led`."""
        ...

    def live_brokers(self, broker: int) -> set[int]:
        """Returns the ids of the unfenced brokers, as `broker` sees them."""
        ...

    def assign_replicas(self, broker: int, replicas: Mapping[tuple[str, int], Sequence[int]]) -> None:
        """Assigns replicas to partitions.

        `replicas` maps (topic, partition) to the ids of the brokers that get a replica. The preferred leader stands
        first.
        """
        ...

    def alter_topics(self, broker: int, topics: Sequence[str], setting: str, value: str) -> None:
        """Sets `setting` of every topic to `value`."""
        ...

    def topic_setting(self, broker: int, topics: Sequence[str], setting: str) -> dict[str, str]:
        """Returns the value of `setting` by topic, as `broker` reports it."""
        ...

    def open_transactions(self, broker: int, names: Sequence[str]) -> dict[str, int]:
        """Returns when the open transactions of the transactional.ids `names` began, in ms since the epoch. The keys
        are the transactional.ids that have an open transaction.

        `broker` must be the coordinator of all these transactional.ids.
        """
        ...

    def active_producers(self, broker: int, topic: str, partition: int) -> list[ActiveProducer]:
        """Returns the producers with an open transaction in a partition. `broker` must lead the partition."""
        ...

    def transactions_of(self, broker: int, producer_ids: Sequence[int]) -> dict[int, TransactionState]:
        """Returns what `broker` knows as a coordinator of the producers with the ids `producer_ids`. Leaves out a
        producer whose coordinator is another broker, or that is not known any more."""
        ...

    def fetch(self, broker: int, topic: str, partition: int, offset: int, most_bytes: int) -> Fetched:
        """Fetches batches of a partition from the replica of `broker`, from `offset` up to the high watermark that
        `broker` knows.

        The first batch may begin before `offset`. The answer has at most `most_bytes` bytes, except if its only batch
        is larger.
        """
        ...
