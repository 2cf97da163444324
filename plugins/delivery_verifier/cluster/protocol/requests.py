"""Requests of Kafka's protocol, spoken raw: leaders and who shall lead, brokers that are alive, settings of topics.

librdkafka has no DescribeTopicPartitions (KIP-966) and no AlterPartitionReassignments (KIP-455), and its threads may
hang on a frozen broker; one socket with a short timeout cannot. Layouts: Kafka's `DescribeTopicPartitionsRequest.json`
v0, `MetadataRequest.json` v7, `AlterPartitionReassignmentsRequest.json` v0, `IncrementalAlterConfigsRequest.json` v0
and `DescribeConfigsRequest.json` v1.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

TIMEOUT_S = 0.7
ASSIGNMENT_S = 10.0
"""A change waits for the controller, which may be busy."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Leadership of one partition as one broker sees it. `leader` -1: none. `elr`: eligible leader replicas."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    error: int


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(">" + code, self._data, self._at)
        self._at += struct.calcsize(">" + code)
        return int(value)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def skip(self, count: int) -> None:
        self._at += count

    def text(self, length: int) -> str:
        value = self._data[self._at : self._at + max(length, 0)].decode()
        self._at += max(length, 0)
        return value

    def short_text(self) -> str:
        return self.text(self.number("h"))

    def compact_text(self) -> str:
        return self.text(self.varint() - 1)

    def compact_ints(self) -> tuple[int, ...]:
        return tuple(self.number("i") for _ in range(self.varint() - 1))

    def tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.skip(self.varint())


def describe_partitions(
    port: int, topics: list[str], timeout_s: float = TIMEOUT_S
) -> dict[tuple[str, int], PartitionState]:
    """State of every partition of `topics` as the broker on `port` sees it.

    Raises OSError, also on a timeout and where the answer cannot be understood.
    """
    names = b"".join(_varint(len(name) + 1) + name.encode() + b"\0" for name in sorted(topics))
    body = struct.pack(">hhih", 75, 0, 1, 3) + b"kdv\0" + _varint(len(topics) + 1) + names
    answer = call(port, body + struct.pack(">i", 2000) + b"\xff\0", timeout_s)
    try:
        return _described(_Reader(answer))
    except (struct.error, IndexError, ValueError) as error:
        raise ConnectionError(f"the broker on port {port} gave no answer that can be read: {error}") from None


def _described(reader: _Reader) -> dict[tuple[str, int], PartitionState]:
    reader.skip(4)
    reader.tags()
    reader.skip(4)
    found: dict[tuple[str, int], PartitionState] = {}
    for _ in range(reader.varint() - 1):
        reader.skip(2)
        topic = reader.compact_text()
        reader.skip(17)
        for _ in range(reader.varint() - 1):
            partition, state = _partition(reader)
            found[topic, partition] = state
        reader.skip(4)
        reader.tags()
    return found


def _partition(reader: _Reader) -> tuple[int, PartitionState]:
    error, index, leader, epoch = (reader.number(code) for code in "hiii")
    replicas, isr, elr, _last_known, _offline = (reader.compact_ints() for _ in range(5))
    reader.tags()
    return index, PartitionState(leader, epoch, replicas, isr, elr, error)


def live_brokers(port: int, timeout_s: float = TIMEOUT_S) -> set[int]:
    """Ids of the unfenced brokers as the broker on `port` sees them. Raises OSError."""
    reader = _Reader(call(port, struct.pack(">hhih", 3, 7, 2, 3) + b"kdv" + struct.pack(">ib", 0, 0), timeout_s))
    reader.skip(8)
    found = set()
    for _ in range(reader.number("i")):
        found.add(reader.number("i"))
        reader.text(reader.number("h"))
        reader.skip(4)
        reader.text(reader.number("h"))
    return found


def assign_replicas(
    port: int, wanted: Mapping[tuple[str, int], Sequence[int]], timeout_s: float = ASSIGNMENT_S
) -> None:
    """Gives partitions the replicas `wanted`, the preferred leader first; the broker on `port` passes it to the
    controller.

    Raises OSError, also where the controller refuses any of them.
    """
    topics = sorted({topic for topic, _ in wanted})
    body = (
        struct.pack(">hhih", 45, 0, 3, 3)
        + b"kdv\0"
        + struct.pack(">i", int(timeout_s * 1000))
        + _varint(len(topics) + 1)
    )
    for name in topics:
        placed = sorted((partition, replicas) for (topic, partition), replicas in wanted.items() if topic == name)
        body += _varint(len(name) + 1) + name.encode() + _varint(len(placed) + 1)
        for partition, replicas in placed:
            body += struct.pack(">i", partition) + _varint(len(replicas) + 1)
            body += struct.pack(f">{len(replicas)}i", *replicas) + b"\0"
        body += b"\0"
    answer = call(port, body + b"\0", timeout_s)
    try:
        refused = list(_refusals(_Reader(answer)))
    except (struct.error, IndexError, ValueError) as error:
        raise ConnectionError(f"the broker on port {port} gave no answer that can be read: {error}") from None
    if refused:
        raise ConnectionError(f"the controller refused the replicas of {'; '.join(refused)}")


def _refusals(reader: _Reader) -> Iterator[str]:
    """What an AlterPartitionReassignmentsResponse v0 refuses: all, or single partitions."""
    reader.skip(4)
    reader.tags()
    reader.skip(4)
    if error := reader.number("h"):
        yield f"all partitions: error {error} {reader.compact_text()}"
        return
    reader.compact_text()
    for _ in range(reader.varint() - 1):
        topic = reader.compact_text()
        for _ in range(reader.varint() - 1):
            partition, error, why = reader.number("i"), reader.number("h"), reader.compact_text()
            reader.tags()
            if error:
                yield f"{topic}/{partition}: error {error} {why}"
        reader.tags()


_TOPIC, _SET = 2, 0


def alter_topics(port: int, topics: Sequence[str], setting: str, value: str, timeout_s: float = ASSIGNMENT_S) -> None:
    """Sets `setting` of every topic to `value`; the broker on `port` passes it to the controller.

    Raises OSError, also where the controller refuses any of them.
    """
    change = struct.pack(">i", 1) + _short(setting) + struct.pack(">b", _SET) + _short(value)
    body = struct.pack(">hhih", 44, 0, 4, 3) + b"kdv" + struct.pack(">i", len(topics))
    body += b"".join(struct.pack(">b", _TOPIC) + _short(topic) + change for topic in topics)
    _settings(port, call(port, body + b"\0", timeout_s), told=False)


def topic_setting(port: int, topics: Sequence[str], setting: str, timeout_s: float = TIMEOUT_S) -> dict[str, str]:
    """The value of `setting` per topic, as the broker on `port` knows it. Raises OSError."""
    body = struct.pack(">hhih", 32, 1, 5, 3) + b"kdv" + struct.pack(">i", len(topics))
    body += b"".join(
        struct.pack(">b", _TOPIC) + _short(topic) + struct.pack(">i", 1) + _short(setting) for topic in topics
    )
    return _settings(port, call(port, body + b"\0", timeout_s), told=True)


def _settings(port: int, answer: bytes, told: bool) -> dict[str, str]:
    """What an IncrementalAlterConfigsResponse v0, or where `told` a DescribeConfigsResponse v1, says per topic."""
    reader, found = _Reader(answer), dict[str, str]()
    try:
        reader.skip(8)
        for _ in range(reader.number("i")):
            error, why, _type, topic = reader.number("h"), reader.short_text(), reader.number("b"), reader.short_text()
            if error:
                raise ConnectionError(f"the setting of {topic} was refused: error {error} {why}")
            for _ in range(reader.number("i") if told else 0):
                reader.short_text()
                found[topic] = reader.short_text()
                reader.skip(3 + 4)  # three flags, and no synonyms
    except (struct.error, IndexError, ValueError) as error:
        raise ConnectionError(f"the broker on port {port} gave no answer that can be read: {error}") from None
    return found


def _short(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def call(port: int, request: bytes, timeout_s: float) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        return _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    chunks = bytearray()
    while len(chunks) < count:
        chunk = connection.recv(count - len(chunks))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        chunks += chunk
    return bytes(chunks)
