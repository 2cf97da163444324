"""Consumer groups: reads the members of a group, and reads and sets the offsets that a group has committed.

The verifier sets offsets in a fault that imitates an operator who sets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

TIMEOUT_S = 20.0


def committed_offsets(client: AdminClient, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """Returns the offset that `group` has committed for each of `partitions` of `topic`. The keys are the partitions.
    If the group has committed no offset for a partition, the offset is 0.

    Raises KafkaException if the coordinator of the group does not answer.
    """
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition) for partition in partitions])
    (future,) = client.list_consumer_group_offsets([asked], request_timeout=TIMEOUT_S).values()
    return {answer.partition: max(answer.offset, 0) for answer in future.result(TIMEOUT_S).topic_partitions}


def set_offsets(client: AdminClient, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Sets the committed offsets of `group`. `offsets` maps partitions of `topic` to the new offsets. The group must
    have no members.

    Raises KafkaException if the coordinator refuses the whole request, and ValueError if the coordinator refuses the
    offset of one partition.
    """
    targets = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    (future,) = client.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, targets)], request_timeout=TIMEOUT_S
    ).values()
    for answer in future.result(TIMEOUT_S).topic_partitions:
        if answer.error:
            raise ValueError(f"group {group}: partition {answer.partition} was not set back: {answer.error}")


def assignments(client: AdminClient, group: str) -> dict[str, int]:
    """Returns how many partitions each member of `group` has. The keys are the client.ids of the members.

    The result is empty if the group has no members. Raises KafkaException if the coordinator of the group does not
    answer.
    """
    (future,) = client.describe_consumer_groups([group], request_timeout=TIMEOUT_S).values()
    members = future.result(TIMEOUT_S).members
    return {member.client_id: len(member.assignment.topic_partitions) for member in members}


def has_pending_offsets(client: AdminClient, group: str, topic: str, partitions: Iterable[int]) -> bool:
    """Returns whether an open transaction has sent an offset of `group` for one of `partitions` of `topic`, and has not
    ended yet.

    Until the transaction ends, a member that asks for stable offsets (KIP-447) must wait. Raises KafkaException if the
    coordinator of the group does not answer.
    """
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition) for partition in partitions])
    (future,) = client.list_consumer_group_offsets([asked], require_stable=True, request_timeout=TIMEOUT_S).values()
    try:
        errors = [answer.error for answer in future.result(TIMEOUT_S).topic_partitions if answer.error]
    except KafkaException as raised:
        errors = [raised.args[0]]
    others = [error for error in errors if error.code() != KafkaError.UNSTABLE_OFFSET_COMMIT]
    if others:
        raise KafkaException(others[0])
    return bool(errors)
