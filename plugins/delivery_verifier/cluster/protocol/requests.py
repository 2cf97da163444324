"""Requests of Kafka's protocol over plain sockets. They concern partition states, replica assignments, live brokers and
topic settings.

librdkafka has no DescribeTopicPartitions (KIP-966) and no AlterPartitionReassignments (KIP-455), and librdkafka's
threads may hang on a frozen broker. A plain socket with a short timeout cannot hang. Sources of the layouts: Kafka's
`DescribeTopicPartitionsRequest.json` v0, `MetadataRequest.json` v7, `AlterPartitionReassignmentsRequest.json` v0,
`IncrementalAlterConfigsRequest.json` v0 and `DescribeConfigsRequest.json` v1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.protocol.encoding import Answer, Reader, call, short_text, varint

TIMEOUT_S = 0.7
ASSIGNMENT_S = 10.0
"""Seconds to wait for the answer to a request that changes something. The controller makes the change, and may be
busy."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of one partition, as one broker sees the partition.

    * `leader`: the broker id of the leader. -1 if the partition has no leader.
    * `elr`: the eligible leader replicas (KIP-966).
    * `error`: an error code of Kafka's protocol. 0 means no error.
    """

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    error: int


def describe_partitions(
    address: Address, topics: list[str], timeout_s: float = TIMEOUT_S
) -> dict[tuple[str, int], PartitionState]:
    """Returns the state of every partition of `topics`, by (topic, partition), as the broker at `address` reports it.

    Raises OSError if the broker does not answer within `timeout_s` seconds, or if the answer cannot be read.
    """
    return partition_states(address, call(address, description_request(topics), timeout_s))


def description_request(topics: list[str]) -> bytes:
    """Returns a DescribeTopicPartitionsRequest v0 for `topics`."""
    names = b"".join(varint(len(name) + 1) + name.encode() + b"\0" for name in sorted(topics))
    body = struct.pack(">hhih", 75, 0, 1, 3) + b"kdv\0" + varint(len(topics) + 1) + names
    return body + struct.pack(">i", 2000) + b"\xff\0"


def partition_states(address: Address, answer: Answer) -> dict[tuple[str, int], PartitionState]:
    """Returns the states of partitions in `answer`, a DescribeTopicPartitionsResponse v0, by (topic, partition). Leaves
    out a topic that does not exist.

    Raises ConnectionError if the answer cannot be read. The error names `address`.
    """
    try:
        return _partition_states(Reader(answer))
    except (struct.error, IndexError, ValueError) as error:
        raise ConnectionError(f"the broker at {address} gave no answer that can be read: {error}") from None


def _partition_states(reader: Reader) -> dict[tuple[str, int], PartitionState]:
    reader.skip(4)
    reader.tags()
    reader.skip(4)
    states: dict[tuple[str, int], PartitionState] = {}
    for _ in range(reader.varint() - 1):
        reader.skip(2)
        topic = reader.compact_text()
        reader.skip(17)
        for _ in range(reader.varint() - 1):
            partition, state = _partition(reader)
            states[topic, partition] = state
        reader.skip(4)
        reader.tags()
    return states


def _partition(reader: Reader) -> tuple[int, PartitionState]:
    """Reads one partition of a DescribeTopicPartitionsResponse v0. Returns the partition's number and state."""
    error, index, leader, epoch = (reader.number(code) for code in "hiii")
    replicas, isr, elr, _last_known, _offline = (reader.compact_ints() for _ in range(5))
    reader.tags()
    return index, PartitionState(leader, epoch, replicas, isr, elr, error)


def live_brokers(address: Address, timeout_s: float = TIMEOUT_S) -> set[int]:
    """Returns the ids of the unfenced brokers, as the broker at `address` reports them.

    Raises OSError if the broker does not answer within `timeout_s` seconds, or if the answer cannot be read.
    """
    reader = Reader(call(address, struct.pack(">hhih", 3, 7, 2, 3) + b"kdv" + struct.pack(">ib", 0, 0), timeout_s))
    ids = set()
    try:
        reader.skip(8)
        for _ in range(reader.number("i")):
            ids.add(reader.number("i"))
            reader.short_text()
            reader.skip(4)
            reader.short_text()
    except (struct.error, IndexError, ValueError) as error:
        raise ConnectionError(f"the broker at {address} gave no answer that can be read: {error}") from None
    return ids


def assign_replicas(
    address: Address, replicas_of: Mapping[tuple[str, int], Sequence[int]], timeout_s: float = ASSIGNMENT_S
) -> None:
    """Assigns replicas to partitions. The broker at `address` passes the request to the controller.

    `replicas_of` maps (topic, partition) to the ids of the brokers that get a replica. The preferred leader stands
    first. Raises OSError if the broker does not answer, or if the controller refuses any of the changes.
    """
    topics = sorted({topic for topic, _ in replicas_of})
    body = (
        struct.pack(">hhih", 45, 0, 3, 3)
        + b"kdv\0"
        + struct.pack(">i", int(timeout_s * 1000))
        + varint(len(topics) + 1)
    )
    for name in topics:
        assignments = sorted(
            (partition, replicas) for (topic, partition), replicas in replicas_of.items() if topic == name
        )
        body += varint(len(name) + 1) + name.encode() + varint(len(assignments) + 1)
        for partition, replicas in assignments:
            body += struct.pack(">i", partition) + varint(len(replicas) + 1)
            body += struct.pack(f">{len(replicas)}i", *replicas) + b"\0"
        body += b"\0"
    answer = call(address, body + b"\0", timeout_s)
    try:
        refused = list(_refusals(Reader(answer)))
    except (struct.error, IndexError, ValueError) as error:
        raise ConnectionError(f"the broker at {address} gave no answer that can be read: {error}") from None
    if refused:
        raise ConnectionError(f"the controller refused the replicas of {'; '.join(refused)}")


def _refusals(reader: Reader) -> Iterator[str]:
    """Yields a text for each refusal in an AlterPartitionReassignmentsResponse v0. If the controller refused the whole
    request, yields only one text."""
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
"""`_TOPIC` is the code in Kafka's protocol for a resource that is a topic. `_SET` is the code for the operation that
sets a value."""


def alter_topics(
    address: Address, topics: Sequence[str], setting: str, value: str, timeout_s: float = ASSIGNMENT_S
) -> None:
    """Sets `setting` of every topic to `value`. The broker at `address` passes the request to the controller.

    Raises OSError if the broker does not answer, or if the controller refuses any of the changes.
    """
    change = struct.pack(">i", 1) + short_text(setting) + struct.pack(">b", _SET) + short_text(value)
    body = struct.pack(">hhih", 44, 0, 4, 3) + b"kdv" + struct.pack(">i", len(topics))
    body += b"".join(struct.pack(">b", _TOPIC) + short_text(topic) + change for topic in topics)
    _settings(address, call(address, body + b"\0", timeout_s), with_values=False)


def topic_setting(
    address: Address, topics: Sequence[str], setting: str, timeout_s: float = TIMEOUT_S
) -> dict[str, str]:
    """Returns the value of `setting` by topic, as the broker at `address` reports it.

    Raises OSError if the broker does not answer or refuses the request, or if the answer cannot be read.
    """
    body = struct.pack(">hhih", 32, 1, 5, 3) + b"kdv" + struct.pack(">i", len(topics))
    body += b"".join(
        struct.pack(">b", _TOPIC) + short_text(topic) + struct.pack(">i", 1) + short_text(setting) for topic in topics
    )
    return _settings(address, call(address, body + b"\0", timeout_s), with_values=True)


def _settings(address: Address, answer: Answer, with_values: bool) -> dict[str, str]:
    """Reads `answer`, a response of the broker at `address` about topic settings.

    If `with_values` is true, the answer is a DescribeConfigsResponse v1 about one setting, and the result maps each
    topic to the value of this setting. Otherwise, the answer is an IncrementalAlterConfigsResponse v0, and the result
    is empty. Raises ConnectionError if the request was refused for one of the topics, or if the answer cannot be read.
    """
    reader, values = Reader(answer), dict[str, str]()
    try:
        reader.skip(8)
        for _ in range(reader.number("i")):
            error, why, _type, topic = reader.number("h"), reader.short_text(), reader.number("b"), reader.short_text()
            if error:
                raise ConnectionError(f"the setting of {topic} was refused: error {error} {why}")
            for _ in range(reader.number("i") if with_values else 0):
                reader.short_text()
                values[topic] = reader.short_text()
                reader.skip(3 + 4)  # three flags, and an empty list of synonyms
    except (struct.error, IndexError, ValueError) as error:
        raise ConnectionError(f"the broker at {address} gave no answer that can be read: {error}") from None
    return values
