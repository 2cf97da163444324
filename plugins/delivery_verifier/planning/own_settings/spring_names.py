"""The names that Spring Boot binds below `spring.kafka`, and the Kafka property that each of them sets.

Source of the names: `META-INF/spring-configuration-metadata.json` in the jars of METADATA. Source of the Kafka
properties: `KafkaProperties` in the same jars, whose docstrings name each setting.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

METADATA = (
    "org/springframework/boot/spring-boot-autoconfigure/3.4.11/spring-boot-autoconfigure-3.4.11.jar",
    "org/springframework/boot/spring-boot-kafka/4.0.0/spring-boot-kafka-4.0.0.jar",
)
"""The jars whose metadata list the names, as paths in Maven Central. Boot 4.0 binds three names more than 3.4."""

Kind = Literal["text", "int", "size", "duration", "bool", "enum"]


class Bound(NamedTuple):
    """A property that Spring Boot binds. `kafka`: Kafka's own name of it. `kind`: what Boot converts its value to."""

    kafka: str
    kind: Kind = "text"


_COMMON = {"bootstrap-servers": Bound("bootstrap.servers"), "client-id": Bound("client.id")}
PRODUCER: dict[str, Bound] = {
    **_COMMON,
    "acks": Bound("acks"),
    "batch-size": Bound("batch.size", "size"),
    "buffer-memory": Bound("buffer.memory", "size"),
    "compression-type": Bound("compression.type"),
    "key-serializer": Bound("key.serializer"),
    "retries": Bound("retries", "int"),
    "transaction-id-prefix": Bound("transactional.id"),
    "value-serializer": Bound("value.serializer"),
}
"""The ten names below `spring.kafka.producer`, beside the sections `properties`, `security` and `ssl`."""
CONSUMER: dict[str, Bound] = {
    **_COMMON,
    "auto-commit-interval": Bound("auto.commit.interval.ms", "duration"),
    "auto-offset-reset": Bound("auto.offset.reset"),
    "enable-auto-commit": Bound("enable.auto.commit", "bool"),
    "fetch-max-wait": Bound("fetch.max.wait.ms", "duration"),
    "fetch-min-size": Bound("fetch.min.bytes", "size"),
    "group-id": Bound("group.id"),
    "heartbeat-interval": Bound("heartbeat.interval.ms", "duration"),
    "isolation-level": Bound("isolation.level", "enum"),
    "key-deserializer": Bound("key.deserializer"),
    "max-poll-interval": Bound("max.poll.interval.ms", "duration"),
    "max-poll-records": Bound("max.poll.records", "int"),
    "value-deserializer": Bound("value.deserializer"),
}
"""The names below `spring.kafka.consumer`. `max-poll-interval` exists since Boot 3.5."""
LISTENER = frozenset(
    """
    ack-count ack-mode ack-time async-acks auth-exception-retry-interval auto-startup change-consumer-thread-name
    client-id concurrency idle-between-polls idle-event-interval idle-partition-event-interval immediate-stop
    log-container-config missing-topics-fatal monitor-interval no-poll-threshold observation-enabled
    only-log-record-metadata poll-timeout type
    """.split()
)
"""The names below `spring.kafka.listener`."""
TEMPLATE = frozenset({"default-topic", "observation-enabled", "transaction-id-prefix"})
"""The names below `spring.kafka.template`."""
SECTIONS = frozenset("admin consumer jaas listener producer properties retry security ssl streams template".split())
"""The sections below `spring.kafka`."""


def uniform(name: str) -> str:
    """Returns the form in which Spring Boot compares names: `batch-size`, `batchSize` and `BATCH_SIZE` are all
    `batchsize` (Spring Boot reference, "Relaxed Binding"). Boot compares the parts between dots one by one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
