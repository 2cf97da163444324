"""The settings of a producer with the Java client: as a user wrote them for it, and otherwise translated from
librdkafka's.

Sources: `ProducerConfig` of kafka-clients 4.3.1, and librdkafka's CONFIGURATION.md. A setting of librdkafka that the
Java client has no counterpart for is refused, unless its value is librdkafka's default or what the Java client does
anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from delivery_verifier.load.layout import queue_limit
from delivery_verifier.model import record
from delivery_verifier.model.client import JAVA_NAMES
from delivery_verifier.model.data import Setting, setting_text
from delivery_verifier.model.inputs import BadInput

Properties = dict[str, str]
SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer"
_OWN = {"key.serializer": SERIALIZER, "value.serializer": SERIALIZER}
_NOT_FOR_US = """
    bootstrap.servers client.dns.lookup interceptor.classes partitioner.class metric.reporters key.serializer
    value.serializer transaction.two.phase.commit.enable transactional.id client.id
"""
_LEFT_OUT = frozenset(_NOT_FOR_US.split())
"""Properties of a Java program that do not reach the producer under test as they were written: the address and the code
of another place, and the ids of which each producer has its own. Those with _OF_CONNECTION in front belong to the
connection."""
_OF_CONNECTION = ("ssl.", "sasl.", "security.", "config.providers")
_IN_BOTH = """
    acks enable.idempotence retries max.in.flight.requests.per.connection retry.backoff.ms retry.backoff.max.ms
    delivery.timeout.ms linger.ms compression.type reconnect.backoff.ms reconnect.backoff.max.ms connections.max.idle.ms
    socket.connection.setup.timeout.ms metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms
    transactional.id transaction.timeout.ms client.id
"""
_SAME = frozenset(_IN_BOTH.split())
"""Settings with the same name, unit and meaning in both clients."""
_NEVER_MS = 2**63 - 1
"""librdkafka refreshes no metadata if the interval is -1. The Java client refuses that, and takes the longest one."""
_CONVERTED: dict[str, Callable[[Setting], Setting]] = {
    "batch.size": lambda value: 0 if int(value) == 1 else value,
    "message.max.bytes": lambda value: value,
    "queue.buffering.max.kbytes": lambda value: int(value) * 1024,
    "topic.metadata.refresh.interval.ms": lambda value: _NEVER_MS if int(value) < 0 else value,
    "socket.send.buffer.bytes": lambda value: int(value) or -1,
    "socket.receive.buffer.bytes": lambda value: int(value) or -1,
}
"""Maps a setting of librdkafka to what makes the value that it has in the Java client (under the name in JAVA_NAMES). A
batch of 1 byte and one of 0 bytes both hold one record. 0 and -1 are the size of a buffer that the system chooses."""
_TIMEOUTS = ("request.timeout.ms", "socket.timeout.ms")
"""librdkafka's two timeouts of a request. The Java client has one for both."""
_WITHOUT_COUNTERPART: dict[str, tuple[tuple[str, ...], str]] = {
    "queue.buffering.max.messages": ((), ""),
    "batch.num.messages": (("10000",), "set linger.ms and batch.size, a number of bytes, or leave it out"),
    "enable.gapless.guarantee": (("false",), "leave it out"),
    "socket.max.fails": (("1",), "leave it out"),
    "socket.keepalive.enable": (("true", "false"), ""),
    "socket.nagle.disable": (("true", "false"), ""),
    "message.copy.max.bytes": (("65535",), "leave it out"),
    "receive.message.max.bytes": (("100000000",), "leave it out"),
    "queue.buffering.backpressure.threshold": (("1",), "leave it out"),
    "metadata.max.age.ms": (("900000",), "set topic.metadata.refresh.interval.ms, which is the Java client's"),
    "topic.metadata.refresh.fast.interval.ms": (("100",), "set retry.backoff.ms, or leave it out"),
    "topic.metadata.refresh.sparse": (("true",), "leave it out"),
    "topic.metadata.propagation.max.ms": (("30000",), "leave it out"),
}
"""Maps a setting of librdkafka to its values that a producer of the Java client needs no counterpart for, and to what
to do about another value. No values: this project keeps the bound itself, by the number of records that it hands
over."""
_LONGEST_BLOCK_MS = 60_000
"""How much longer send() may block than a step of the load, in ms, so that no record is refused for want of room."""
BUFFER_BYTES = 33_554_432
"""The default of buffer.memory."""
_BATCH_BYTES = 16_384
"""The default of batch.size."""
_HEAD_BYTES, _RECORD_BYTES = 61, 21
"""What a batch, and at most a record, has in bytes beside the values (`DefaultRecordBatch` and `DefaultRecord` of
kafka-clients)."""
_BLOCKS = 3
"""How many blocks the buffer must have room for: one that is handed over, and the two of `queue_limit`."""


def properties(
    settings: Mapping[str, Setting], own: Mapping[str, str], payload_bytes: int, deadline_s: float
) -> Properties:
    """Returns the properties of a producer of the Java client, without those of its connection.

    `settings` have librdkafka's names, and are translated. `own` are the properties that the user wrote for the Java
    client (see `Profile.java_properties`): they stay as they are, and replace the translations. `payload_bytes` is the
    size of a record, and `deadline_s` the longest time of a step of the load. Raises BadInput for a setting that has no
    counterpart in the Java client, and if the Java client would not start for want of time.
    """
    result = {**_translated(settings), **{name: value for name, value in own.items() if is_sent(name)}}
    result.setdefault("max.request.size", max(1_048_576, payload_bytes + record.ENVELOPE_BYTES))
    result.setdefault("max.block.ms", int(deadline_s * 1000) + _LONGEST_BLOCK_MS)
    _require_time(result)
    return {name: setting_text(value) for name, value in result.items()} | _OWN


def is_sent(name: str) -> bool:
    """Returns whether a property that a user wrote for the Java client may reach a producer of a run as it is."""
    return name not in _LEFT_OUT and not name.startswith(_OF_CONNECTION)


def _translated(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    result: dict[str, Setting] = {}
    for name, value in settings.items():
        if name in _SAME:
            result[name] = value
        elif name in _CONVERTED:
            result[JAVA_NAMES.get(name, name)] = _CONVERTED[name](value)
        elif name == "compression.level":
            result |= _level(settings)
        elif name == "batch.num.messages" and int(value) == 1:
            result["batch.size"] = 0
        elif name not in _TIMEOUTS:
            _require_no_counterpart(name, value)
    timeouts_ms = [int(settings[name]) for name in _TIMEOUTS if name in settings]
    if timeouts_ms:
        result["request.timeout.ms"] = min(timeouts_ms)
    if settings.get("batch.num.messages") == 1:
        result["batch.size"] = 0
    # On by default in the Java client, and off in librdkafka.
    result.setdefault("enable.idempotence", "transactional.id" in settings)
    return result


def _level(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    codec, level = settings.get("compression.type", "none"), settings["compression.level"]
    has_levels = codec in ("gzip", "lz4", "zstd") and int(level) >= 0  # -1 is the codec's own default
    return {f"compression.{codec}.level": level} if has_levels else {}


def _require_no_counterpart(name: str, value: Setting) -> None:
    without, remedy = _WITHOUT_COUNTERPART.get(name, (("",), "leave it out"))
    if without and setting_text(value) not in without:
        raise BadInput(f"{name} is {setting_text(value)}, and the Java client has no such setting; {remedy}")


def _require_time(own: Mapping[str, Setting]) -> None:
    """Raises BadInput if the Java client refuses delivery.timeout.ms as too short. librdkafka does not."""
    delivery_ms, request_ms = int(own.get("delivery.timeout.ms", 120_000)), int(own.get("request.timeout.ms", 30_000))
    linger_ms = int(own.get("linger.ms", 5))
    if delivery_ms < linger_ms + request_ms:
        raise BadInput(
            f"delivery.timeout.ms is {delivery_ms}, and the Java client needs at least linger.ms + request.timeout.ms, "
            f"which is {linger_ms + request_ms}; set socket.timeout.ms to at most {max(1, delivery_ms - linger_ms)}, "
            "or delivery.timeout.ms to more"
        )


def room(
    properties: Mapping[str, str], settings: Mapping[str, Setting], payload_bytes: int, block: int, partitions: int
) -> int:
    """Returns the greatest number of records without a report at which a block may be handed over (see
    `layout.queue_limit`). Beyond it, buffer.memory could be full, and send() would block."""
    bounds = {name: value for name, value in settings.items() if name == "queue.buffering.max.messages"}
    kbytes = max(1, _free_bytes(properties, payload_bytes, partitions) // 1024)
    each_bytes = _bytes_of_record(properties, payload_bytes)
    return queue_limit({**bounds, "queue.buffering.max.kbytes": kbytes}, each_bytes, block)


def require_room(properties: Mapping[str, str], payload_bytes: int, block: int, partitions: int) -> None:
    """Raises BadInput if buffer.memory is so small that send() could block for longer than a step of the load."""
    needed = _BLOCKS * block * _bytes_of_record(properties, payload_bytes)
    if (missing := needed - _free_bytes(properties, payload_bytes, partitions)) > 0:
        buffer, batch = _buffer_bytes(properties), _batch_bytes(properties, payload_bytes)
        raise BadInput(
            f"buffer.memory is {buffer}: beside one batch (batch.size, {batch} bytes) for each of {partitions} "
            f"partitions it has no room for {_BLOCKS} blocks of {block} records, so send() could block for longer than "
            f"a step of the load; set buffer.memory to at least {buffer + missing}, or lower batch.size, --partitions "
            "or --payload-bytes"
        )


def _free_bytes(properties: Mapping[str, str], payload_bytes: int, partitions: int) -> int:
    """Returns how much of buffer.memory is left beside one open batch of each partition."""
    return _buffer_bytes(properties) - partitions * _batch_bytes(properties, payload_bytes)


def _buffer_bytes(properties: Mapping[str, str]) -> int:
    return int(properties.get("buffer.memory", BUFFER_BYTES))


def _batch_bytes(properties: Mapping[str, str], payload_bytes: int) -> int:
    """Returns what one batch takes of buffer.memory: the first record takes the memory of the whole batch
    (`RecordAccumulator.append` of kafka-clients)."""
    return max(int(properties.get("batch.size", _BATCH_BYTES)), payload_bytes + _RECORD_BYTES + _HEAD_BYTES)


def _bytes_of_record(properties: Mapping[str, str], payload_bytes: int) -> int:
    """Returns what a record takes of buffer.memory in a full batch: its share of the batch, whose end may stay
    empty."""
    batch = _batch_bytes(properties, payload_bytes)
    return -(-batch // ((batch - _HEAD_BYTES) // (payload_bytes + _RECORD_BYTES)))
