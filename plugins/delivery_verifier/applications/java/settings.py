"""The settings of a consumer with the Java client, translated from librdkafka's.

Sources: `ConsumerConfig` of kafka-clients 4.3.1, and librdkafka's CONFIGURATION.md. A setting of librdkafka that the
Java client has no counterpart for is refused, unless its value is librdkafka's default, or what the Java client does
anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from delivery_verifier.load.java import settings as producers
from delivery_verifier.model.data import Setting, setting_text
from delivery_verifier.model.inputs import BadInput

DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_CONSUMER = "org.apache.kafka.clients.consumer"
_IN_BOTH = """
    group.id client.id client.rack group.instance.id group.protocol group.remote.assignor auto.offset.reset
    isolation.level enable.auto.commit auto.commit.interval.ms session.timeout.ms heartbeat.interval.ms
    max.poll.interval.ms fetch.min.bytes fetch.max.bytes max.partition.fetch.bytes check.crcs allow.auto.create.topics
    retry.backoff.ms retry.backoff.max.ms reconnect.backoff.ms reconnect.backoff.max.ms connections.max.idle.ms
    socket.connection.setup.timeout.ms metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms
"""
_SAME = frozenset(_IN_BOTH.split())
"""Settings with the same name, unit and meaning in both clients."""
_ASSIGNORS = {
    "range": f"{_CONSUMER}.RangeAssignor",
    "roundrobin": f"{_CONSUMER}.RoundRobinAssignor",
    "cooperative-sticky": f"{_CONSUMER}.CooperativeStickyAssignor",
}
_NEVER_MS = 2**63 - 1
_RENAMED: dict[str, tuple[str, Callable[[Setting], Setting]]] = {
    "fetch.wait.max.ms": ("fetch.max.wait.ms", lambda value: value),
    "fetch.message.max.bytes": ("max.partition.fetch.bytes", lambda value: value),
    "socket.timeout.ms": ("request.timeout.ms", lambda value: value),
    "topic.metadata.refresh.interval.ms": ("metadata.max.age.ms", lambda value: _NEVER_MS if int(value) < 0 else value),
    "socket.send.buffer.bytes": ("send.buffer.bytes", lambda value: int(value) or -1),
    "socket.receive.buffer.bytes": ("receive.buffer.bytes", lambda value: int(value) or -1),
}
"""Maps a setting of librdkafka to the one of the Java client, and to what makes the value of it."""
_WITHOUT_COUNTERPART: dict[str, tuple[str, ...]] = {
    "enable.partition.eof": ("false",),
    "queued.min.messages": ("100000",),
    "queued.max.messages.kbytes": ("65536",),
    "fetch.queue.backoff.ms": ("1000",),
    "fetch.error.backoff.ms": ("500",),
    "coordinator.query.interval.ms": ("600000",),
    "socket.keepalive.enable": ("true", "false"),
    "socket.nagle.disable": ("true", "false"),
    "socket.max.fails": ("1",),
}
"""Maps a setting of librdkafka to its values that a consumer of the Java client needs no counterpart for."""
_OF_BROKERS = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")
"""With group.protocol=consumer, these are settings of brokers, and the Java client does not start with them."""


def consumer_properties(settings: Mapping[str, Setting], batch: int) -> dict[str, str]:
    """Returns the properties of a consumer of the Java client, without those of its connection. `batch` is the greatest
    number of records that one poll() returns.

    Raises BadInput for a setting that has no counterpart in the Java client.
    """
    own: dict[str, Setting] = {}
    is_new = setting_text(settings.get("group.protocol", "classic")).lower() == "consumer"
    for name, value in settings.items():
        if is_new and name in _OF_BROKERS:
            continue
        if name in _SAME:
            own[name] = value
        elif name in _RENAMED:
            java, translate = _RENAMED[name]
            own[java] = translate(value)
        elif name == "partition.assignment.strategy":
            own[name] = _assignors(str(value))
        elif name == "enable.auto.offset.store":
            _require_stored(settings)
        elif setting_text(value) not in _WITHOUT_COUNTERPART.get(name, ()):
            raise BadInput(f"{name} is {setting_text(value)}, and the Java client has no such setting; leave it out")
    own.setdefault("allow.auto.create.topics", False)  # on by default in the Java client, and off in librdkafka
    own |= {"max.poll.records": batch, "key.deserializer": DESERIALIZER, "value.deserializer": DESERIALIZER}
    return {name: setting_text(value) for name, value in own.items()}


def _assignors(strategies: str) -> str:
    names = [name.strip() for name in strategies.split(",")]
    if unknown := [name for name in names if name not in _ASSIGNORS]:
        raise BadInput(
            f"partition.assignment.strategy is {strategies}, and the Java client has no {unknown[0]!r}; allowed: "
            f"{', '.join(_ASSIGNORS)}"
        )
    return ",".join(_ASSIGNORS[name] for name in names)


def _require_stored(settings: Mapping[str, Setting]) -> None:
    """Raises BadInput if a program must store offsets itself for the client's timer."""
    commits, stores = (setting_text(settings.get(name, True)) for name in ("enable.auto.commit", _STORE))
    if (commits, stores) == ("true", "false"):
        raise BadInput(
            f"{_STORE} is false with enable.auto.commit=true, and the Java client commits what poll() has returned, "
            "and nothing that a program stores; commit after applying (commit_after), or choose librdkafka"
        )


_STORE = "enable.auto.offset.store"


def producer_properties(settings: Mapping[str, Setting]) -> dict[str, str]:
    """Returns the properties of the producer of a transform with the Java client, without those of its connection. They
    are empty if `settings` are. Raises BadInput as `consumer_properties` does."""
    return producers.properties(settings, {}, 0, 0.0) if settings else {}
