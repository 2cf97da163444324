"""The two clients for which a file of settings can be written: how to tell the client of a file, and the defaults of
each client.

Sources: `ProducerConfig` of Apache Kafka 4.0.2 to 4.4.0, and librdkafka 2.16's own list of its properties
(`rd_kafka_conf_properties_show`).
"""

from __future__ import annotations

from collections.abc import Iterable

from delivery_verifier.model.data import Setting
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Client

CLIENT_NAMES: dict[Client, str] = {"java": "the Java client 4.x", "librdkafka": "librdkafka 2.16"}

LIBRDKAFKA_ONLY = frozenset(
    """
    request.required.acks message.send.max.retries max.in.flight message.timeout.ms queue.buffering.max.ms
    compression.codec enable.gapless.guarantee batch.num.messages compression.level message.max.bytes
    message.copy.max.bytes receive.message.max.bytes queue.buffering.max.kbytes queue.buffering.max.messages
    queue.buffering.backpressure.threshold socket.timeout.ms socket.max.fails socket.keepalive.enable
    socket.nagle.disable socket.send.buffer.bytes socket.receive.buffer.bytes topic.metadata.refresh.interval.ms
    topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.sparse topic.metadata.propagation.max.ms
    metadata.broker.list sasl.mechanisms sasl.username sasl.password ssl.ca.location ssl.key.location
    ssl.certificate.location ssl.ca.pem ssl.key.pem ssl.certificate.pem enable.ssl.certificate.verification
    enable.sasl.oauthbearer.unsecure.jwt broker.address.ttl broker.address.family broker.version.fallback
    api.version.request api.version.fallback.ms log.queue log.connection.close log.thread.name
    statistics.interval.ms log_level debug partitioner
    """.split()
)
"""Property names that the Java client does not have. A file with such a name was written for librdkafka."""

JAVA_ONLY = frozenset(
    """
    key.serializer value.serializer buffer.memory max.block.ms max.request.size metadata.max.age.ms metadata.max.idle.ms
    partitioner.class partitioner.ignore.keys partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms
    interceptor.classes metric.reporters send.buffer.bytes receive.buffer.bytes sasl.jaas.config
    ssl.truststore.location ssl.truststore.password ssl.truststore.type ssl.keystore.type
    """.split()
)
"""Property names that librdkafka does not have. A file with such a name was written for the Java client."""

JAVA_DEFAULTS: dict[str, Setting] = {
    "acks": "all",
    "enable.idempotence": True,
    "retries": 2147483647,
    "max.in.flight.requests.per.connection": 5,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1000,
    "delivery.timeout.ms": 120000,
    "request.timeout.ms": 30000,
    "linger.ms": 5,
    "batch.size": 16384,
    "message.max.bytes": 1048576,
    "queue.buffering.max.kbytes": 32768,
    "compression.type": "none",
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
    "topic.metadata.refresh.interval.ms": 300000,
}
"""The producer's defaults in the Java client 4.x, under librdkafka's names."""

LIBRDKAFKA_DEFAULTS: dict[str, Setting] = {
    "acks": "all",
    "enable.idempotence": False,
    "retries": 2147483647,
    "max.in.flight.requests.per.connection": 1000000,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1000,
    "delivery.timeout.ms": 300000,
    "request.timeout.ms": 30000,
    "socket.timeout.ms": 60000,
    "linger.ms": 5,
    "batch.size": 1000000,
    "batch.num.messages": 10000,
    "message.max.bytes": 1000000,
    "compression.type": "none",
    "reconnect.backoff.ms": 100,
    "reconnect.backoff.max.ms": 10000,
    "topic.metadata.refresh.interval.ms": 300000,
}
"""The producer's defaults in librdkafka 2.16."""

TRANSACTION_TIMEOUT_MS = 60_000
"""The default of transaction.timeout.ms in both clients."""


def client_of(names: Iterable[str]) -> Client:
    """Returns the client for which a file with these property `names` was written. The first rule that applies decides:

    1. A name is in LIBRDKAFKA_ONLY: librdkafka.
    2. A name is in JAVA_ONLY, or is enable.idempotence: the Java client.
    3. None of these is true: raises BadInput. The function cannot guess, because enable.idempotence is true by default
       in the Java client and false in librdkafka.
    """
    present = set(names)
    if LIBRDKAFKA_ONLY & present:
        return "librdkafka"
    if JAVA_ONLY & present or "enable.idempotence" in present:
        return "java"
    raise BadInput(
        "client: nothing in the file tells which client it was written for, and enable.idempotence, which it does not "
        "set, is on by default in the Java client and off in librdkafka; say --client java or --client librdkafka, or "
        "choose the client in the form"
    )
