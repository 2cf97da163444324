"""The Java client of a member, as its member process uses it: a consumer and, for a transform, a producer in one JVM.

Both have the part of confluent_kafka's surface that members use, and raise KafkaException as it does. A call of theirs
is one request and one answer, with a whole batch in it. Only a record to send has no answer: its report comes with
flush().
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from delivery_verifier.applications.java import errors
from delivery_verifier.applications.java.errors import Thrown
from delivery_verifier.applications.java.settings import consumer_properties, producer_properties
from delivery_verifier.applications.spec import MemberSpec
from delivery_verifier.host.java.jvm import ClientDied, Jvm, command, packed, text
from delivery_verifier.model.application import output_topic
from delivery_verifier.model.client import CLIENTS

PROGRAM = Path(__file__).with_name("MemberClient.java")
HEAP_MB = 256
TAKEN_S = 120.0
"""The longest time, in seconds, for which the JVM may take nothing that it is given."""
COMMIT_S = 10.0
"""The longest time that one commit may take, in seconds. A member repeats it."""
_RECORD, _OFFSET, _COUNT = struct.Struct(">iqi"), struct.Struct(">iq"), struct.Struct(">i")

Partitions = list[TopicPartition]
Callback = Callable[["JavaConsumer", Partitions], object]
Raised = Callable[[Thrown], KafkaException]
"""Makes of an error of the Java client what is raised here."""


class Message:
    """A record that was handed over, or an error instead of one."""

    __slots__ = ("_error", "_offset", "_partition", "_value")

    def __init__(
        self, partition: int | None, offset: int | None, value: bytes | None, error: KafkaError | None
    ) -> None:
        self._partition, self._offset, self._value, self._error = partition, offset, value, error

    def error(self) -> KafkaError | None:
        return self._error

    def partition(self) -> int | None:
        return self._partition

    def offset(self) -> int | None:
        return self._offset

    def value(self) -> bytes | None:
        return self._value


def require_java(spec: MemberSpec) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """Returns the properties of the consumer and of the producer that `spec` describes, and the command that starts
    their JVM. Fetches missing jars.

    Raises BadInput if a setting cannot be translated, JavaError if there is no usable Java, and JarError if the client
    cannot be had in this version.
    """
    start = command(PROGRAM, spec.client_version or CLIENTS["java"].default, HEAP_MB)
    return consumer_properties(spec.settings, spec.batch), producer_properties(spec.producer), start


class Bridge:
    """A JVM with the Java client of one member: requests go in, answers come out, and events in between.

    Raises KafkaException if the Java client refuses the settings, what `require_java` raises, and ClientDied if the JVM
    ends. `on_event` deals with an event of the group: its name, and the partitions.
    """

    def __init__(self, spec: MemberSpec) -> None:
        self.topic = spec.topic
        self.on_event: Callable[[str, list[int]], None] = lambda event, partitions: None
        consumer, producer, start = require_java(spec)
        layout = {"topic": spec.topic, "output": output_topic(spec.topic)}
        self._jvm = Jvm(Path(spec.folder), start, TAKEN_S, "member")
        try:
            inputs = [packed(properties | spec.connection if properties else {}) for properties in (consumer, producer)]
            self._jvm.write(packed(layout) + b"".join(inputs))
            self._answer(lambda error: KafkaException(KafkaError(KafkaError._INVALID_ARG, error.text)))
        except BaseException:
            self._jvm.close()
            raise

    def tell(self, request: bytes) -> None:
        """Gives the JVM a request that has no answer."""
        self._jvm.write(request)

    def ask(self, request: bytes, raised: Raised) -> bytes:
        """Returns the answer to a request. Deals with events until it comes. If the Java client has thrown an error,
        raises what `raised` makes of it."""
        self._jvm.write(request)
        return self._answer(raised)

    def _answer(self, raised: Raised) -> bytes:
        while True:
            kind = self._jvm.take(1)
            content = self._jvm.take(_COUNT.unpack(self._jvm.take(4))[0])
            if kind == b"D":
                return content
            if kind == b"E":
                (code,) = _COUNT.unpack_from(content)
                types, said = _texts(content, 4, 2)
                raise raised(Thrown(code, tuple(types.split(",")), said))
            if kind != b"V":
                raise ClientDied(f"the JVM of this member has answered {kind!r}, which it never does")
            (event,) = _texts(content, 0, 1)
            self.on_event(event, _numbers(content, 4 + len(event)))
            self._jvm.write(b"X")

    def close(self) -> None:
        self._jvm.close()


class JavaConsumer:
    """The consumer of a member. See `Bridge` for what the constructor raises."""

    def __init__(self, spec: MemberSpec) -> None:
        self.bridge = Bridge(spec)
        self._callbacks: dict[str, Callback] = {}
        self.bridge.on_event = self._on_event

    def _on_event(self, event: str, numbers: list[int]) -> None:
        self._callbacks[event](self, [TopicPartition(self.bridge.topic, number) for number in numbers])

    def subscribe(self, topics: list[str], on_assign: Callback, on_revoke: Callback, on_lost: Callback) -> None:
        assert topics == [self.bridge.topic], "a member has one topic"
        self._callbacks = {"assigned": on_assign, "revoked": on_revoke, "lost": on_lost}
        self._ask(b"S")

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        """Returns the partitions of `topic` in the form of confluent_kafka."""
        content = self._ask(b"L" + _COUNT.pack(int(timeout * 1000)))
        described = SimpleNamespace(error=None, partitions=dict.fromkeys(_numbers(content, 0)))
        return SimpleNamespace(topics={topic: described})

    def assign(self, partitions: Partitions) -> None:
        """Assigns partitions. A consumer that has subscribed has its partitions from the group: it begins at the given
        offsets. One that has not begins where the group has committed."""
        self._ask((b"K" if self._callbacks else b"A") + _offsets(partitions))

    def consume(self, most: int, timeout: float) -> list[Message]:
        """Returns the records of one poll(): at most `most`, as soon as there are some. An error that the client may
        overcome is a message. Raises KafkaException for any other."""
        try:
            content = self._ask(b"P" + _COUNT.pack(most) + _COUNT.pack(int(timeout * 1000)))
        except KafkaException as raised:
            if not raised.args[0].retriable():
                raise
            return [Message(None, None, None, raised.args[0])]
        return list(_messages(content))

    def commit(self, offsets: Partitions, asynchronous: bool) -> Partitions | None:
        """Commits `offsets`, each with the leader epoch of the record before it, as Java's commitSync() does. Asks the
        group once: an error that is in `errors.REFUSED` proves that nothing was committed."""
        if asynchronous:
            self._ask(b"N" + _offsets(offsets))
            return None
        self._ask(b"C" + _COUNT.pack(int(COMMIT_S * 1000)) + _offsets(offsets))
        return []

    def store_offsets(self, offsets: Partitions) -> None:
        """Raises NotImplementedError: the Java client has no such call (see `settings`)."""
        raise NotImplementedError("the Java client stores no offsets for its timer")

    def seek(self, partition: TopicPartition) -> None:
        self._ask(b"K" + _offsets([partition]))

    def consumer_group_metadata(self) -> None:
        """Returns nothing: the JVM asks its consumer at the moment of the call that needs it."""

    def close(self) -> None:
        """Leaves the group, and ends the JVM."""
        self._ask(b"Q")
        self.bridge.close()

    def _ask(self, request: bytes) -> bytes:
        return self.bridge.ask(request, errors.of_consumer)


class JavaProducer:
    """The producer of a transform, in the JVM of its consumer. Its calls take as long as max.block.ms allows, whatever
    time a caller gives them."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._on_delivery: Callable[[KafkaError | None, Any], object] | None = None

    def produce(
        self,
        topic: str,
        value: bytes,
        partition: int,
        headers: Sequence[tuple[str, bytes]],
        on_delivery: Callable[[KafkaError | None, Any], object],
    ) -> None:
        """Gives a record with one header to the client. `flush` calls `on_delivery` for each record that failed."""
        assert topic == output_topic(self._bridge.topic), "a member has one output topic"
        self._on_delivery = on_delivery
        ((name, header),) = headers
        parts = (_COUNT.pack(partition), _bytes(value), text(name), _bytes(header))
        self._bridge.tell(b"W" + b"".join(parts))

    def flush(self, timeout: float) -> int:
        """Waits for the reports of all records. Returns how many have none. Raises KafkaException if the producer was
        fenced."""
        content = self._ask("flush", b"F")
        unreported, count = (_COUNT.unpack_from(content, begin)[0] for begin in (0, 4))
        failed = [tuple(types.split(",")) for types in _texts(content, 8, count)]
        if (ended := errors.of_reports(failed)) is not None:
            raise ended
        for types in failed:
            assert self._on_delivery is not None, "only a record that was given has a report"
            error = KafkaError(KafkaError._FAIL, types[0].rpartition(".")[2])
            self._on_delivery(error, Message(None, None, None, error))
        return int(unreported)

    def init_transactions(self, timeout: float) -> None:
        self._ask("init_transactions", b"I")

    def begin_transaction(self) -> None:
        self._ask("begin_transaction", b"B")

    def send_offsets_to_transaction(self, offsets: Partitions, group: object, timeout: float) -> None:
        self._ask("send_offsets_to_transaction", b"O" + _offsets(offsets))

    def commit_transaction(self, timeout: float) -> None:
        self._ask("commit_transaction", b"M")

    def abort_transaction(self, timeout: float) -> None:
        self._ask("abort_transaction", b"R")

    def _ask(self, call: str, request: bytes) -> bytes:
        return self._bridge.ask(request, partial(errors.of_producer, call))


def _offsets(partitions: Partitions) -> bytes:
    packed_offsets = [_OFFSET.pack(each.partition, each.offset) for each in partitions]
    return _COUNT.pack(len(packed_offsets)) + b"".join(packed_offsets)


def _bytes(content: bytes) -> bytes:
    return _COUNT.pack(len(content)) + content


def _numbers(content: bytes, begin: int) -> list[int]:
    """Returns the list of numbers that begins at the byte `begin`."""
    (count,) = _COUNT.unpack_from(content, begin)
    return list(struct.unpack_from(f">{count}i", content, begin + 4))


def _texts(content: bytes, begin: int, count: int) -> list[str]:
    """Returns the `count` texts that begin at the byte `begin`."""
    texts = list[str]()
    for _ in range(count):
        (size,) = _COUNT.unpack_from(content, begin)
        texts.append(content[begin + 4 : begin + 4 + size].decode())
        begin += 4 + size
    return texts


def _messages(content: bytes) -> Iterator[Message]:
    (count,), end = _COUNT.unpack_from(content), 4
    for _ in range(count):
        partition, offset, size = _RECORD.unpack_from(content, end)
        end += _RECORD.size + size
        yield Message(partition, offset, content[end - size : end], None)
