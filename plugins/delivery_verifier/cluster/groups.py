"""Consumer groups: reads the offsets that a group has committed, and sets them, as an operator might."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

TIMEOUT_S = 20.0


def committed_offsets(client: AdminClient, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """Returns the offset that `group` has committed for each partition of `topic`. If it has committed none, the offset
    is 0.

    Raises KafkaException if the coordinator of the group does not answer.
    """
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition) for partition in partitions])
    (future,) = client.list_consumer_group_offsets([asked], request_timeout=TIMEOUT_S).values()
    return {answer.partition: max(answer.offset, 0) for answer in future.result(TIMEOUT_S).topic_partitions}


def set_offsets(client: AdminClient, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Sets the committed offsets of `group`. `offsets` maps partitions of `topic` to the new offsets. The group must
    have no members.

    Raises KafkaException if the coordinator refuses the whole request, and ValueError if it refuses one partition.
    """
    targets = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    (future,) = client.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, targets)], request_timeout=TIMEOUT_S
    ).values()
    for answer in future.result(TIMEOUT_S).topic_partitions:
        if answer.error:
            raise ValueError(f"group {group}: partition {answer.partition} was not set back: {answer.error}")
