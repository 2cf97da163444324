"""Requests to single brokers of a real cluster. The caller names a broker by its id.

This module implements `cluster.protocol.interface.BrokerRequests`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.protocol import epochs, fetch, requests, transactions
from delivery_verifier.cluster.protocol.encoding import Answer, Channel
from delivery_verifier.cluster.protocol.epochs import Partition
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.cluster.protocol.transactions import ActiveProducer, TransactionState


class SocketRequests:
    """Sends each request over a new plain socket.

    Every method raises OSError if the broker does not answer or refuses the request, and connection.UnsupportedSecurity
    if the connection is not plain TCP.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def describe_partitions(self, broker: int, topics: list[str]) -> dict[tuple[str, int], PartitionState]:
        """Returns the state of every partition of `topics`, by (topic, partition), as `broker` sees it."""
        return requests.describe_partitions(self._connection.address(broker), topics)

    def epoch_ends(
        self, broker: int, questions: Mapping[Partition, epochs.Question]
    ) -> dict[Partition, epochs.EpochEnd]:
        """Returns where leader epochs end in the logs of `broker`. Leaves out a partition that `broker` does not lead
        in the epoch of the question."""
        return epochs.epoch_ends(self._connection.address(broker), questions, requests.TIMEOUT_S)

    def not_leading(self, broker: int, led: Mapping[Partition, int]) -> set[Partition]:
        """Returns the partitions of which `broker` knows that it does not lead them in the epochs `led`."""
        return epochs.not_leading(self._connection.address(broker), led, requests.TIMEOUT_S)

    def live_brokers(self, broker: int) -> set[int]:
        """Returns the ids of the unfenced brokers, as `broker` sees them."""
        return requests.live_brokers(self._connection.address(broker))

    def assign_replicas(self, broker: int, replicas: Mapping[tuple[str, int], Sequence[int]]) -> None:
        """Assigns replicas to partitions. `broker` passes the request to the controller.

        `replicas` maps (topic, partition) to the ids of the brokers that get a replica. The preferred leader stands
        first.
        """
        requests.assign_replicas(self._connection.address(broker), replicas)

    def alter_topics(self, broker: int, topics: Sequence[str], setting: str, value: str) -> None:
        """Sets `setting` of every topic to `value`. `broker` passes the request to the controller."""
        requests.alter_topics(self._connection.address(broker), topics, setting, value)

    def topic_setting(self, broker: int, topics: Sequence[str], setting: str) -> dict[str, str]:
        """Returns the value of `setting` by topic, as `broker` reports it."""
        return requests.topic_setting(self._connection.address(broker), topics, setting)

    def open_transactions(self, broker: int, names: Sequence[str]) -> dict[str, int]:
        """Returns when the open transactions of the transactional.ids `names` began, in ms since the epoch. The keys
        are the transactional.ids that have an open transaction.

        `broker` must be the coordinator of all these transactional.ids.
        """
        return transactions.open_transactions(self._connection.address(broker), names)

    def active_producers(self, broker: int, topic: str, partition: int) -> list[ActiveProducer]:
        """Returns the producers with an open transaction in a partition. `broker` must lead the partition."""
        return transactions.active_producers(self._connection.address(broker), topic, partition)

    def transactions_of(self, broker: int, producer_ids: Sequence[int]) -> dict[int, TransactionState]:
        """Returns what `broker` knows as a coordinator of the producers with the ids `producer_ids`. Leaves out a
        producer whose coordinator is another broker, or that is not known any more."""
        return transactions.transactions_of(self._connection.address(broker), producer_ids)

    def fetch(self, broker: int, topic: str, partition: int, offset: int, most_bytes: int) -> fetch.Fetched:
        """Fetches batches of a partition from the replica of `broker`, from `offset` up to the high watermark that
        `broker` knows.

        The first batch may begin before `offset`. The answer has at most `most_bytes` bytes, except if its only batch
        is larger.
        """
        return fetch.fetch(self._connection.address(broker), topic, partition, offset, most_bytes)


class RepeatedRequests(SocketRequests):
    """Sends requests like SocketRequests, but makes repeated calls of `describe_partitions` fast: keeps a connection to
    each broker for them.

    At most one thread per broker may call `describe_partitions`.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._channels = {broker: Channel(address) for broker, address in connection.brokers.items()}
        self._last: dict[int, tuple[Answer, dict[tuple[str, int], PartitionState]]] = {}

    def describe_partitions(self, broker: int, topics: list[str]) -> dict[tuple[str, int], PartitionState]:
        """Returns the state of every partition of `topics`, by (topic, partition), as `broker` sees it.

        The caller must not change the result. If the broker sends the same answer again, the method returns the same
        object again.
        """
        address = self._connection.address(broker)
        answer = self._channels[broker].call(requests.description_request(topics), requests.TIMEOUT_S)
        if broker not in self._last or self._last[broker][0] != answer:
            self._last[broker] = answer, requests.partition_states(address, answer)
        return self._last[broker][1]
