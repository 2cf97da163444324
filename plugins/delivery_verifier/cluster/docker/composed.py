"""The composed cluster (brokers that Docker Compose runs) as its brokers describe themselves: their addresses, settings
and features.

`differences` compares this cluster with the cluster that a scenario asks for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.broker_settings import settings_of
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.docker.nodes import Node
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.scenario import ClusterSpec

ANSWER_S = 10.0
_ELR = "eligible.leader.replicas.version"
_TOPIC = re.compile(r"kdv-([a-z0-9]{8})-.*")
"""The names of the topics of runs. Group 1 is the run's token, which is also the name of its workspace."""


def bootstrap_servers() -> str:
    """Returns the addresses in KDV_BOOTSTRAP_SERVERS: host:port, separated by commas."""
    return os.environ.get("KDV_BOOTSTRAP_SERVERS", "")


def connection() -> Connection:
    """Returns a connection to the brokers that are up now. The addresses are those that the brokers advertise.

    Raises KafkaException if no broker of KDV_BOOTSTRAP_SERVERS answers.
    """
    client = AdminClient({"bootstrap.servers": bootstrap_servers(), "log_level": 0})
    brokers = client.list_topics(timeout=ANSWER_S).brokers
    return Connection({broker: Address(str(metadata.host), int(metadata.port)) for broker, metadata in brokers.items()})


def differences(spec: ClusterSpec, nodes: Sequence[Node]) -> list[str]:
    """Returns a text for each difference between the cluster that Docker Compose runs and the cluster that `spec`
    describes.

    `nodes` are the nodes that Docker Compose runs. Raises StepFailed if a broker is down, and KafkaException or OSError
    if a broker does not answer.
    """
    brokers = [node for node in nodes if node.broker]
    if len(brokers) != spec.brokers:
        return [f"it has {len(brokers)} brokers, not {spec.brokers}"]
    versions = {_tag(node.image) or f"unknown ({node.image} has no tag)" for node in brokers}
    different = [f"its image is version {version}" for version in sorted(versions - {spec.kafka_version})]
    reached = connection()
    containers = {node.node: node.container for node in brokers}
    if set(reached.brokers) - set(containers):
        return [f"its brokers call themselves {sorted(reached.brokers)}, and its containers {sorted(containers)}"]
    if down := [containers[broker] for broker in sorted(set(containers) - set(reached.brokers))]:
        raise StepFailed(f"{', '.join(down)} not up: look at docker compose ps and docker compose logs {down[0]}")
    different += _different_settings(spec, reached)
    requests = BrokerRequests(reached)
    for broker in reached.brokers:
        has_elr = requests.finalized_features(broker).get(_ELR, 0) > 0
        if has_elr != spec.elr:
            different.append(f"its feature {_ELR} is {'on' if has_elr else 'off'}")
    return sorted(set(different))


def _different_settings(spec: ClusterSpec, reached: Connection) -> Iterator[str]:
    """Yields a text for each setting of a broker whose value differs from the value that `spec` gives."""
    client = topics.admin(reached)
    for broker in reached.brokers:  # librdkafka takes one broker per call
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        settings = client.describe_configs([resource], request_timeout=ANSWER_S)[resource].result(ANSWER_S)
        for name, value in settings_of(spec).items():
            current = settings[name].value if name in settings else None
            if current != value:
                yield f"its {name} is {current}, not {value}"


def _tag(image: str) -> str:
    """Returns the tag in the name of an image, e.g. `4.3.1`, without the digest. Returns an empty text if the name has
    no tag."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def remove_old_topics(reached: Connection, workspaces: Path) -> list[str]:
    """Removes the topics of all runs whose workspace is gone. Returns the names of the removed topics.

    `workspaces` is the folder of all workspaces. Raises KafkaException if a topic cannot be removed.
    """
    client = topics.admin(reached)
    names = client.list_topics(timeout=ANSWER_S).topics
    old = [name for name in names if (run := _TOPIC.fullmatch(name)) and not (workspaces / run[1]).exists()]
    for future in (client.delete_topics(old, operation_timeout=ANSWER_S) if old else {}).values():
        future.result(2 * ANSWER_S)
    return sorted(old)


def lists_all(nodes: Sequence[Node]) -> bool:
    """Returns whether all brokers of `nodes` are up. Returns False if no broker answers."""
    try:
        return set(connection().brokers) == {node.node for node in nodes if node.broker}
    except KafkaException:
        return False
