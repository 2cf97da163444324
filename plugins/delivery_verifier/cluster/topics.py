"""Topics and their offsets. Every arm (one delivery configuration under test) has its own topic.

This module creates these topics, and checks the settings that keep every record in the log. All topics get the same
assignment of replicas to brokers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from delivery_verifier.cluster.connection import Connection
from delivery_verifier.host.waiting import pause
from delivery_verifier.model.application import output_topic
from delivery_verifier.model.data import Setting, setting_text
from delivery_verifier.model.partition_growth import first_partitions
from delivery_verifier.model.scenario import Arm, Scenario

WHOLE_LOG = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
"""Settings of every topic. Under other settings a broker may remove records itself, and then a missing record proves
nothing."""
KAFKA_DEFAULTS = {"min.insync.replicas": "1"}
"""Kafka's own defaults for settings that a profile leaves open. The contract assumes these values. They are written to
every topic, because the brokers may have other defaults."""
TIMEOUT_S = 20.0
_AGAIN_S = 0.2
_MOVED = (
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
)
"""The errors of a question to a broker that leads no more, or not yet: the client does not ask again by itself."""
CREATES_NOTHING: dict[str, str | int | float | bool] = {"allow.auto.create.topics": False, "log_level": 0}
"""For an admin client. It is a producer to librdkafka, and a producer that asks for a topic has the broker create it
where auto.create.topics.enable is true. The client warns that the property is a consumer's, and heeds it."""


def admin(connection: Connection) -> AdminClient:
    """Returns an admin client whose requests fail if no answer comes within 10 s."""
    return AdminClient({**connection.client_properties(), **CREATES_NOTHING, "socket.timeout.ms": 10_000})


def assignment(scenario: Scenario, brokers: Sequence[int]) -> list[list[int]]:
    """Returns, for each partition, the ids of the brokers that hold a replica. The preferred leader stands first.

    Consecutive partitions get consecutive brokers of `brokers` as their preferred leaders. The scenario's seed decides
    which broker is the preferred leader of partition 0.
    """
    copies = scenario.load.replication_factor
    return [
        [brokers[(scenario.seed + partition + copy) % len(brokers)] for copy in range(copies)]
        for partition in range(scenario.load.partitions)
    ]


def output_topics(scenario: Scenario) -> list[str]:
    """Returns the output topics of all arms whose application writes to an output topic, and the output topic of the
    canary.

    The result is empty if no application writes to an output topic.
    """
    arms = [arm for arm in scenario.loaded if arm.application and arm.application.has_output_topic]
    return [output_topic(arm.topic_name) for arm in (*arms, scenario.canary)] if arms else []


def create(
    scenario: Scenario,
    connection: Connection,
    brokers: Sequence[int] | None = None,
    outcome: Callable[[str, KafkaException | None], object] = lambda topic, failure: None,
) -> None:
    """Creates one topic for each arm of the scenario, and the output topics of the scenario's applications. Calls
    `outcome` with each topic, and with why it was not created (None if it was).

    All topics get the same assignment of replicas to `brokers`, which are all brokers of the connection if not given.
    Partitions that the fault plan adds to the topics of arms with load come later. Raises KafkaException with the
    broker's reason if a topic cannot be created.
    """
    client, brokers = admin(connection), sorted(connection.brokers) if brokers is None else brokers
    placed, growing = assignment(scenario, brokers), {arm.topic_name for arm in scenario.loaded}
    new_topics = []
    for topic, of_topic in settings(scenario).items():
        replicas = placed[: first_partitions(scenario)] if topic in growing else placed
        new_topics.append(NewTopic(topic, num_partitions=len(replicas), replica_assignment=replicas, config=of_topic))
    failures = dict[str, KafkaException]()
    for topic, future in client.create_topics(new_topics, operation_timeout=TIMEOUT_S).items():
        try:
            future.result(TIMEOUT_S)
        except KafkaException as failure:
            failures[topic] = failure
        outcome(topic, failures.get(topic))
    if failures:
        raise next(iter(failures.values()))


def settings(scenario: Scenario) -> dict[str, dict[str, str]]:
    """Returns the settings with which each topic of a run is created, by the topic's name."""
    of_arms = {arm.topic_name: _settings_of(arm) for arm in scenario.arms}
    return of_arms | {topic: {**WHOLE_LOG, **_of_outputs(scenario)} for topic in output_topics(scenario)}


def _settings_of(arm: Arm) -> dict[str, str]:
    return {**WHOLE_LOG, **KAFKA_DEFAULTS, **_texts(arm.profile.topic)}


def _texts(settings: Mapping[str, Setting]) -> dict[str, str]:
    return {key: setting_text(value) for key, value in settings.items()}


def _of_outputs(scenario: Scenario) -> dict[str, str]:
    """Returns the settings of output topics. With these settings, no acknowledged record is lost as long as one of two
    replicas lives.

    The settings are the same for every arm, because the profile of an arm applies only to the arm's input topic.
    """
    return {
        "min.insync.replicas": str(min(2, scenario.load.replication_factor)),
        "unclean.leader.election.enable": "false",
    }


def check_whole_log(connection: Connection, topics: list[str]) -> None:
    """Raises ValueError if a topic does not have the settings `WHOLE_LOG`. The error names the topic and the
    setting."""
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
    """Returns one offset of each partition, as the partition's leader reports it. `spec` selects the offset, e.g. the
    earliest.

    If `spec` selects the latest offset, `isolation` decides which one: the high watermark for READ_UNCOMMITTED, the
    last stable offset for READ_COMMITTED. Asks again for at most TIMEOUT_S seconds while a leader has moved, and the
    client does not know that yet. Raises KafkaException.
    """
    specs = {TopicPartition(topic, partition): spec for topic, partition in partitions}
    end = time.monotonic() + TIMEOUT_S
    while True:
        answers = client.list_offsets(specs, isolation_level=isolation, request_timeout=TIMEOUT_S)
        try:
            return {(key.topic, key.partition): future.result(TIMEOUT_S).offset for key, future in answers.items()}
        except KafkaException as error:
            if error.args[0].code() not in _MOVED or time.monotonic() >= end:
                raise
        pause(_AGAIN_S)


def high_watermarks(client: AdminClient, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Returns the high watermark of each partition. Every replica in the ISR holds all records below the high
    watermark."""
    return offsets(client, partitions, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)


def last_stable_offsets(client: AdminClient, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Returns the last stable offset of each partition. A read_committed consumer gets only records below this
    offset."""
    return offsets(client, partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)


def start_offsets(client: AdminClient, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Returns the log start offset of each partition."""
    return offsets(client, partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)
