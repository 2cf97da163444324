"""A topic of a cluster that this project did not start: what it promises, and where it ends."""

from __future__ import annotations

import time
from dataclasses import dataclass

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import ConfigResource, OffsetSpec, ResourceType

from delivery_verifier.cluster import topics, workspaces
from delivery_verifier.cluster.check import cluster_check, rights
from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.external.cluster import read
from delivery_verifier.cluster.protocol import batches
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.cluster.security import spark_options
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.inputs import bad_input

ANSWER_S = 15.0
"""How long a cluster may take to answer a question, in seconds."""
DELIVERY = ("min.insync.replicas", "unclean.leader.election.enable", "flush.messages")
"""The settings of a topic that matter for delivery."""


class RightsMissing(VerifierError, RuntimeError):
    """This client may not read the topic. The message has one line for each right, with the command that gives it."""

    exit_code = 69


def connected(access: ClusterAccess, topic: str) -> Connection:
    """Returns the connection to the cluster that `access` names, once it is known that `topic` can be read there.

    Raises, within seconds, BadInput and UnsupportedSecurity if the connection cannot be used, SecretsOutOfReach if
    Spark could not read its secrets, Unreachable if no server or no leader of the topic answers, and RightsMissing.
    """
    current = read(access)
    spark_options.require_within_reach(current.security, spark_options.HERE, workspaces.folder())
    reached = cluster_check.reach(current, time.monotonic() + cluster_check.WITHIN_S)
    asked = min(reached.software)
    question = rights.RightsQuestion(reached.asking, asked, topic, rights.Wanted({}, []))
    missing = [right for right in rights.to_read(topic) if rights.ask(right, question).standing == "missing"]
    if missing:
        principal, servers = cluster_check.principal(current.security), ",".join(map(str, current.servers))
        said = [f"missing: {right}; remedy: {right.command(servers, principal)}" for right in missing]
        raise RightsMissing(f"{principal} may not read the topic {topic}\n" + "\n".join(said))
    _require_leaders(reached, asked, topic)
    return Connection({broker.number: broker.address for broker in reached.members.brokers}, current.security)


def _require_leaders(reached: cluster_check.Reached, asked: int, topic: str) -> None:
    """Raises Unreachable if a broker that leads a partition of `topic` did not answer."""
    about = {"topics": [(topic,)], "allow_auto_topic_creation": False}
    (said,) = reached.asking.ask(asked, "Metadata", ANSWER_S, **about).topics
    leaders = {part.leader_id for part in said.partitions or ()}
    if silent := [each for each in reached.unreached if each.number in leaders]:
        raise cluster_check.Unreachable(cluster_check.lines(silent))


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


def hidden(
    connection: Connection, topic: str, partition: int, leader: int, start: int, end: int
) -> tuple[int, list[batches.Hidden]]:
    """Returns what no read_committed consumer gets of the offsets [start, end) of the leader's log (see
    `batches.hidden`). Raises ConnectionError if the leader does not give its batches."""
    return batches.hidden(BrokerRequests(connection), leader, topic, partition, start, end)
