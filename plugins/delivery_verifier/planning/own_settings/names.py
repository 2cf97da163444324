"""Names: every producer, topic and consumer property that is known, and what becomes of it.

Sources: `ProducerConfig`, `ConsumerConfig` and `LogConfig` of Apache Kafka 4.0.2 to 4.4.0, and what librdkafka 2.16
says of itself (`rd_kafka_conf_properties_show`). A name that stands nowhere here is refused.
"""

from __future__ import annotations

from typing import Literal

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
"""Producer properties, under librdkafka's names, that the verifier's producers really run with."""

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
"""Second names, librdkafka's own and Java's, of the same thing in the same unit."""

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
"""Names that no Java client has: a file with one of them was written for librdkafka."""

JAVA_ONLY = frozenset(
    """
    key.serializer value.serializer buffer.memory max.block.ms max.request.size metadata.max.age.ms metadata.max.idle.ms
    partitioner.class partitioner.ignore.keys partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms
    interceptor.classes metric.reporters send.buffer.bytes receive.buffer.bytes sasl.jaas.config
    ssl.truststore.location ssl.truststore.password ssl.truststore.type ssl.keystore.type
    """.split()
)
"""Names that librdkafka does not have: a file with one of them was written for the Java client."""

_NOT_DELIVERY = "no part in delivery"
_OWN_PARTITIONS = "the verifier chooses every record's partition itself"
INERT = "without transactional.id it does nothing"
_OWN_CALLBACKS = "the verifier's own instruments; they do not change what happens to a record"
_METRICS = tuple(
    "metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms enable.metrics.push".split()
)

LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(
        (
            "key.serializer",
            "value.serializer",
            "client.id",
            "client.rack",
            *_METRICS,
            "metadata.max.idle.ms",
            "metadata.cluster.check.enable",
            "allow.auto.create.topics",
            "auto.include.jmx.reporter",
            "auto.register.schemas",
            "use.latest.version",
        ),
        _NOT_DELIVERY,
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
    "buffer.memory.allocation.strategy": _NOT_DELIVERY,
    "transaction.two.phase.commit.enable": "the producer under test ends its transactions itself; librdkafka knows no "
    "other way",
    **dict.fromkeys(
        "statistics.interval.ms log_level log.queue log.thread.name log.connection.close debug enabled_events".split(),
        _OWN_CALLBACKS,
    ),
}
"""Producer properties that cannot change what becomes of a record, with the reason."""

REFUSED: dict[str, str] = {
    "queuing.strategy": "the contract has no rule for a producer that sends the newest record first; nearest: fifo, by "
    "leaving it out",
    "delivery.report.only.error": "a success that is not reported cannot be held against the log; leave it out",
    "produce.offset.report": "deprecated, and the offsets are always reported; leave it out",
    "plugin.library.paths": "no foreign code is loaded into the verifier's producers; leave it out",
    "topic.blacklist": "it would hide the topics under test; leave it out",
    "api.version.request": "deprecated, and the brokers under test speak for themselves; leave it out",
    "api.version.fallback.ms": "deprecated; leave it out",
    "broker.version.fallback": "deprecated; leave it out",
    "block.on.buffer.full": "gone since Kafka 0.10; nearest: max.block.ms",
    "metadata.fetch.timeout.ms": "gone since Kafka 0.10; nearest: max.block.ms",
    "timeout.ms": "gone since Kafka 2.0; nearest: request.timeout.ms",
}
"""Producer properties that nothing here can honour, with the reason and the nearest equivalent."""

JAVA: dict[str, str | int | bool] = {
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
"""What the Java client 4.x does where a file is silent, under librdkafka's names."""

LIBRDKAFKA: dict[str, str | int | bool] = {
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
"""What librdkafka 2.16 does where a file is silent."""

TRANSACTION_TIMEOUT_MS = 60_000
"""transaction.timeout.ms where nobody says it, of either client."""

Kind = Literal["int", "bool", "float", "text"]

_INTS = """
    compression.gzip.level compression.lz4.level compression.zstd.level delete.retention.ms file.delete.delay.ms
    flush.messages flush.ms index.interval.bytes max.compaction.lag.ms max.decompressed.message.bytes max.message.bytes
    message.timestamp.after.max.ms message.timestamp.before.max.ms min.compaction.lag.ms min.insync.replicas
    segment.bytes segment.index.bytes segment.jitter.ms segment.ms
    """
_BOOLEANS = "preallocate unclean.leader.election.enable errors.deadletterqueue.group.enable"

TOPIC: dict[str, Kind] = {
    **dict.fromkeys(_INTS.split(), "int"),
    **dict.fromkeys(_BOOLEANS.split(), "bool"),
    **dict.fromkeys(("compression.type", "message.timestamp.type"), "text"),
    "min.cleanable.dirty.ratio": "float",
}
"""Topic properties that the topics under test are really made with, and what their values are."""

TOPIC_SINCE = {"errors.deadletterqueue.group.enable": (4, 4), "max.decompressed.message.bytes": (4, 4)}
"""The first Kafka version that knows a topic property, where that is later than 4.0."""

_EXPIRY = "the topics of a run keep everything: what expired could not be told from what was lost"
_TIERED = "the cluster under test has no tiered storage"

TOPIC_LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(("retention.ms", "retention.bytes"), _EXPIRY),
    **dict.fromkeys(
        (
            "local.retention.ms",
            "local.retention.bytes",
            "remote.copy.lag.bytes",
            "remote.copy.lag.ms",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
        ),
        _TIERED,
    ),
    **dict.fromkeys(
        ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas"),
        "it names brokers of another cluster",
    ),
}
"""Topic properties that are not taken over, with the reason."""

TOPIC_DEFAULTS: dict[str, str | int | bool] = {
    "min.insync.replicas": 1,
    "unclean.leader.election.enable": False,
    "flush.messages": 9223372036854775807,
}
"""What a broker does where a topic is silent."""

CONSUMER_SAME = {"fetch.max.wait.ms": "fetch.wait.max.ms", "fetch.message.max.bytes": "max.partition.fetch.bytes"}
"""Java's names of what librdkafka's consumer calls otherwise, and the reverse."""

CONSUMER = frozenset(
    """
    group.id group.instance.id group.protocol group.remote.assignor partition.assignment.strategy session.timeout.ms
    heartbeat.interval.ms max.poll.interval.ms enable.auto.commit auto.commit.interval.ms enable.auto.offset.store
    auto.offset.reset isolation.level fetch.min.bytes fetch.max.bytes fetch.wait.max.ms fetch.max.wait.ms
    fetch.error.backoff.ms fetch.queue.backoff.ms max.partition.fetch.bytes fetch.message.max.bytes check.crcs
    queued.min.messages queued.max.messages.kbytes enable.partition.eof allow.auto.create.topics
    coordinator.query.interval.ms group.protocol.type max.poll.records default.api.timeout.ms request.timeout.ms
    exclude.internal.topics key.deserializer value.deserializer share.acknowledgement.mode share.acquire.mode
    """.split()
)
"""Consumer properties of either client, beside those that it shares with the producer."""

CONSUMER_JAVA_ONLY: dict[str, str] = {
    "max.poll.records": "librdkafka hands over records one by one",
    "default.api.timeout.ms": "librdkafka takes a timeout per call",
    "request.timeout.ms": "librdkafka's consumer has socket.timeout.ms",
    "exclude.internal.topics": "librdkafka has no such filter",
    "key.deserializer": _NOT_DELIVERY,
    "value.deserializer": _NOT_DELIVERY,
    "share.acquire.mode": "librdkafka's consumer has no such choice",
    "interceptor.classes": LEFT_OUT["interceptor.classes"],
    "max.block.ms": "a producer's property",
}
"""Consumer properties that librdkafka lacks, with the nearest it has."""
