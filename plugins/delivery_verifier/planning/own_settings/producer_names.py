"""Names of producer properties: tables of all known names, which say what happens to each property.

Sources: `ProducerConfig` of Apache Kafka 4.0.2 to 4.4.0, and librdkafka 2.16's own list of its properties
(`rd_kafka_conf_properties_show`). A name that is in none of these tables is refused.
"""

from __future__ import annotations

EXERCISED = frozenset(
    """
    acks enable.idempotence enable.gapless.guarantee retries max.in.flight.requests.per.connection retry.backoff.ms
    retry.backoff.max.ms delivery.timeout.ms request.timeout.ms linger.ms batch.size batch.num.messages compression.type
    compression.level message.max.bytes message.copy.max.bytes receive.message.max.bytes queue.buffering.max.kbytes
    queue.buffering.max.messages queue.buffering.backpressure.threshold socket.timeout.ms socket.max.fails
    socket.keepalive.enable socket.nagle.disable socket.send.buffer.bytes socket.receive.buffer.bytes
    socket.connection.setup.timeout.ms connections.max.idle.ms reconnect.backoff.ms reconnect.backoff.max.ms
    metadata.max.age.ms metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms
    topic.metadata.refresh.interval.ms topic.metadata.refresh.fast.interval.ms topic.metadata.refresh.sparse
    topic.metadata.propagation.max.ms transactional.id transaction.timeout.ms
    """.split()
)
"""Producer properties that the verifier's own producers can have, under librdkafka's names."""

SAME = {
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.timeout.ms": "delivery.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "compression.codec": "compression.type",
    "max.request.size": "message.max.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
"""Maps another name of a property, in librdkafka or in Java, to the property's main name in librdkafka. Values under
both names have the same unit."""

NOT_DELIVERY = "no part in delivery"
_OWN_PARTITIONS = "the verifier chooses every record's partition itself"
SERIALIZERS = "a serializer's property: no part in delivery"
INERT = "without transactional.id it does nothing"
_OWN_CALLBACKS = "the verifier's own instruments; they do not change what happens to a record"

LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(
        (
            "key.serializer",
            "value.serializer",
            "client.id",
            "client.rack",
            "metric.reporters",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
            "enable.metrics.push",
            "metadata.max.idle.ms",
            "metadata.cluster.check.enable",
            "allow.auto.create.topics",
            "auto.include.jmx.reporter",
            "builtin.features",
            "enable.random.seed",
            "reconnect.backoff.jitter.ms",
            "socket.blocking.max.ms",
            "topic.metadata.refresh.fast.cnt",
        ),
        NOT_DELIVERY,
    ),
    "interceptor.classes": "it runs inside a Java application, before the client sees the record",
    **dict.fromkeys(
        (
            "partitioner",
            "partitioner.class",
            "partitioner.ignore.keys",
            "partitioner.adaptive.partitioning.enable",
            "partitioner.availability.timeout.ms",
            "partitioner.rack.aware",
            "sticky.partitioning.linger.ms",
        ),
        _OWN_PARTITIONS,
    ),
    "max.block.ms": "librdkafka never blocks: the verifier waits for room in the queue, however long, so that no "
    "record is refused for want of it",
    "buffer.memory.allocation.strategy": NOT_DELIVERY,
    "transaction.two.phase.commit.enable": "the producer under test ends its transactions itself; librdkafka knows no "
    "other way",
    **dict.fromkeys(
        (
            "statistics.interval.ms",
            "log_level",
            "log.queue",
            "log.thread.name",
            "log.connection.close",
            "debug",
            "enabled_events",
        ),
        _OWN_CALLBACKS,
    ),
}
"""Producer properties that the verifier leaves out, each with the reason."""

ONLY_VALUE: dict[str, tuple[str, str]] = {
    "socket.max.fails": (
        "1",
        "with another value librdkafka keeps a connection on which a request timed out, and sends later requests "
        "before it tries that one again, even with one request in flight; leave it out",
    ),
}
"""The properties of EXERCISED for which only one value is allowed, each as `name: (allowed value, text for the user)`.

The text says why other values are refused, and what the user can do.
"""

REFUSED: dict[str, str] = {
    "queuing.strategy": "the contract has no rule for a producer that sends the newest record first; "
    "what can be judged is fifo, by leaving it out",
    "delivery.report.only.error": "a success that is not reported cannot be held against the log; leave it out",
    "produce.offset.report": "deprecated, and the offsets are always reported; leave it out",
    "plugin.library.paths": "no foreign code is loaded into the verifier's producers; leave it out",
    "topic.blacklist": "it would hide the topics under test; leave it out",
    "api.version.request": "deprecated, and the brokers under test speak for themselves; leave it out",
    "api.version.request.timeout.ms": "deprecated; leave it out",
    "api.version.fallback.ms": "deprecated; leave it out",
    "broker.version.fallback": "deprecated; leave it out",
    "block.on.buffer.full": "gone since Kafka 0.10; nearest: max.block.ms",
    "metadata.fetch.timeout.ms": "gone since Kafka 0.10; nearest: max.block.ms",
    "timeout.ms": "gone since Kafka 2.0; nearest: request.timeout.ms",
}
"""Maps a producer property that the verifier refuses to a text for the user. The text gives the reason, and says what
the user can do instead."""
