"""A broker for tests of consumers without Kafka: librdkafka's mock cluster, which runs inside a producer of the test.

It knows groups, commits and fetches. Other processes reach it by its address.
"""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, Producer, TopicPartition

from support.patience import PATIENCE_S


class MockBroker:
    """A mock cluster of one broker. It ends with this object."""

    def __init__(self) -> None:
        self._producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "ignored", "log_level": 0})
        (broker,) = self._producer.list_topics(timeout=PATIENCE_S).brokers.values()
        self.connection = {"bootstrap.servers": f"{broker.host}:{broker.port}"}

    def write(self, topic: str, values: Iterable[bytes]) -> None:
        """Writes records into partition 0 of `topic`, and waits until they are in its log."""
        for value in values:
            self._producer.produce(topic, value, partition=0)
        assert self._producer.flush(PATIENCE_S) == 0

    def topics(self) -> list[str]:
        """Returns the topics that there are. A producer that asks for one by name creates it here."""
        return sorted(self._producer.list_topics(timeout=PATIENCE_S).topics)

    def committed(self, topic: str, group: str) -> int:
        """Returns the offset that `group` has committed for partition 0 of `topic`. Below zero if there is none."""
        consumer = Consumer({**self.connection, "group.id": group, "log_level": 0})
        try:
            return int(consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)[0].offset)
        finally:
            consumer.close()
