"""Topics: creation with one replica assignment for all arms, offsets, and the settings that keep the log whole."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from delivery_verifier.cluster.connection import Connection
from delivery_verifier.model.data import setting_text
from delivery_verifier.model.scenario import Scenario

WHOLE_LOG = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
"""Settings of every topic. Without them a broker may remove records itself, and the absence of a record would prove
nothing."""
TIMEOUT_S = 20.0


def admin(connection: Connection) -> AdminClient:
    """An admin client with short timeouts."""
    return AdminClient({**connection.client_properties(), "socket.timeout.ms": 10_000, "log_level": 0})


def assignment(scenario: Scenario, brokers: Sequence[int]) -> list[list[int]]:
    """Replicas per partition, the preferred leader first: leadership goes round `brokers`, from the seed on."""
    copies = scenario.load.replication_factor
    return [
        [brokers[(scenario.seed + partition + copy) % len(brokers)] for copy in range(copies)]
        for partition in range(scenario.load.partitions)
    ]


def create(scenario: Scenario, connection: Connection) -> None:
    """Creates every arm's topic, with the same replica assignment. Raises KafkaException with the broker's reason."""
    client, brokers = admin(connection), sorted(connection.brokers)
    new_topics = [
        NewTopic(
            arm.topic_name,
            num_partitions=scenario.load.partitions,
            replica_assignment=assignment(scenario, brokers),
            config={**WHOLE_LOG, **{key: setting_text(value) for key, value in arm.profile.topic.items()}},
        )
        for arm in scenario.arms
    ]
    for future in client.create_topics(new_topics, operation_timeout=TIMEOUT_S).values():
        future.result(TIMEOUT_S)


def check_whole_log(connection: Connection, topics: list[str]) -> None:
    """Raises ValueError naming the first topic and setting under which a broker may remove records itself."""
    client = admin(connection)
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    for resource, future in client.describe_configs(resources).items():
        settings = future.result(TIMEOUT_S)
        for key, value in WHOLE_LOG.items():
            if settings[key].value != value:
                raise ValueError(f"topic {resource.name}: {key} is {settings[key].value}, but must be {value}")


def offsets(
    client: AdminClient, partitions: list[tuple[str, int]], spec: OffsetSpec, isolation: IsolationLevel
) -> dict[tuple[str, int], int]:
    """Offset per partition, as the leader answers."""
    specs = {TopicPartition(topic, partition): spec for topic, partition in partitions}
    answers = client.list_offsets(specs, isolation_level=isolation, request_timeout=TIMEOUT_S)
    return {(key.topic, key.partition): future.result(TIMEOUT_S).offset for key, future in answers.items()}


def high_watermarks(client: AdminClient, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """High watermark per partition. With a full ISR, all replicas have the records below it."""
    return offsets(client, partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)


def last_stable_offsets(client: AdminClient, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Last stable offset per partition: a read_committed consumer sees all below it."""
    return offsets(client, partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)


def start_offsets(client: AdminClient, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Log start offset per partition."""
    return offsets(client, partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)
