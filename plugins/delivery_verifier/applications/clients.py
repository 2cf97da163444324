"""The client of a member: its consumer and, for a transform, its producer, with librdkafka or the Java client."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer

from delivery_verifier.applications.java.client import JavaConsumer, JavaProducer, require_java
from delivery_verifier.applications.spec import MemberSpec
from delivery_verifier.host.librdkafka import wheels

MemberConsumer = Consumer | JavaConsumer
MemberProducer = Producer | JavaProducer


def consumer_of(spec: MemberSpec) -> MemberConsumer:
    """Returns the consumer that `spec` describes. With the Java client, starts the JVM.

    Raises KafkaException if the client refuses the settings, and what `java.client.Bridge` raises.
    """
    if spec.client == "java":
        return JavaConsumer(spec)
    return Consumer({"log_level": 3, **spec.connection, **spec.settings})


def producer_of(spec: MemberSpec, consumer: MemberConsumer) -> MemberProducer:
    """Returns the producer that `spec` describes. With the Java client, it is in the JVM of `consumer`. Raises
    KafkaException if the client refuses the settings."""
    if isinstance(consumer, JavaConsumer):
        return JavaProducer(consumer.bridge)
    return Producer({"log_level": 3, **spec.connection, **spec.producer})


def require_client(spec: MemberSpec) -> None:
    """Makes sure that the client of `spec` can be started on this host, with its settings. Fetches what it lacks.

    Raises what `java.client.require_java` raises, and WheelError if librdkafka cannot be had in the version of `spec`.
    """
    if spec.client == "java":
        require_java(spec)
    else:
        wheels.environment(spec.client_version)
