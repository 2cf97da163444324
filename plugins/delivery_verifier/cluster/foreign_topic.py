"""A topic of a cluster that this project did not start: what it promises, and where it ends."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol import batches
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.model.inputs import bad_input

ANSWER_S = 15.0
"""How long a cluster may take to answer a question, in seconds."""
DELIVERY = ("min.insync.replicas", "unclean.leader.election.enable", "flush.messages")
"""The settings of a topic that matter for delivery."""


def connected(bootstrap_servers: str) -> Connection:
    """Returns the connection to the cluster behind `bootstrap_servers`, without encryption.

    Raises BadInput if no broker answers.
    """
    client = AdminClient({"bootstrap.servers": bootstrap_servers, "socket.timeout.ms": 10_000, "log_level": 0})
    try:
        brokers = client.list_topics(timeout=ANSWER_S).brokers
    except KafkaException as error:
        reason = error.args[0].str()
        raise bad_input("--bootstrap-server", bootstrap_servers, "brokers that answer without TLS", reason) from None
    return Connection({number: Address(str(broker.host), broker.port) for number, broker in brokers.items()})


@dataclass(frozen=True)
class TopicFacts:
    """A topic: its partitions, the replicas of each, and its settings, by Kafka's names."""

    partitions: int
    replicas: int
    settings: dict[str, str]


@dataclass(frozen=True)
class Look:
    """What a partition looked like: its offsets [start, end) up to the high watermark, its last stable offset, its
    leader and leader epoch, and whether all replicas are in sync."""

    start: int
    end: int
    stable: int
    leader: int
    leader_epoch: int
    in_sync: bool


def facts(connection: Connection, topic: str) -> TopicFacts:
    """Returns the facts about `topic`. Raises BadInput if there is no such topic, or if it is compacted."""
    client = topics.admin(connection)
    metadata = client.list_topics(topic, timeout=ANSWER_S).topics[topic]
    if metadata.error is not None or not metadata.partitions:
        reason = metadata.error.str() if metadata.error else "it has no partitions"
        raise bad_input("--topic", topic, "a topic of this cluster", reason)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (future,) = client.describe_configs([resource]).values()
    settings = {name: entry.value for name, entry in future.result(topics.TIMEOUT_S).items()}
    if "compact" in settings["cleanup.policy"]:
        allowed = "a topic with cleanup.policy=delete"
        reason = "it is compacted, and in a compacted topic a missing record proves nothing"
        raise bad_input("--topic", topic, allowed, reason)
    replicas = {len(part.replicas) for part in metadata.partitions.values()}
    return TopicFacts(len(metadata.partitions), min(replicas), settings)


def look(connection: Connection, topic: str, partitions: int) -> dict[int, Look]:
    """Returns what each partition looks like now. The ends are high watermarks."""
    client = topics.admin(connection)
    keys = [TopicPartition(topic, number) for number in range(partitions)]
    raw, stable = IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED
    # The last stable offset is asked first: what ends later has its control record below the high watermark.
    starts, stables, ends = (
        {
            key.partition: future.result(topics.TIMEOUT_S)
            for key, future in client.list_offsets(
                dict.fromkeys(keys, spec), isolation_level=isolation, request_timeout=topics.TIMEOUT_S
            ).items()
        }
        for spec, isolation in (
            (OffsetSpec.earliest(), raw),
            (OffsetSpec.latest(), stable),
            (OffsetSpec.latest(), raw),
        )
    )
    metadata = client.list_topics(topic, timeout=ANSWER_S).topics[topic].partitions
    return {
        number: Look(
            start=starts[number].offset,
            end=ends[number].offset,
            stable=stables[number].offset,
            leader=metadata[number].leader,
            leader_epoch=-1 if ends[number].leader_epoch is None else ends[number].leader_epoch,
            in_sync=sorted(metadata[number].isrs) == sorted(metadata[number].replicas),
        )
        for number in range(partitions)
    }


def control_records(connection: Connection, topic: str, partition: int, leader: int, start: int, end: int) -> int:
    """Returns the number of control records at the offsets [start, end) of the leader's log.

    Raises ConnectionError if the leader does not give its batches, and UnsupportedSecurity if the connection is
    encrypted.
    """
    return batches.controls(BrokerRequests(connection), leader, topic, partition, start, end)
