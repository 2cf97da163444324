"""Reads `__consumer_offsets`: what brokers wrote down of the commits and generations of consumer groups.

A consumer reads the records. The headers of the batches, which are fetched apart (`cluster.protocol.fetch`), say which
records belong to transactions, how these ended, and whether the broker has removed records.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.batches import ABORT, Batch, parse
from delivery_verifier.cluster.protocol.fetch import fetch
from delivery_verifier.cluster.protocol.group_records import GroupCommit, GroupGeneration, decode
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.model.coordinators import partition_of

CONSUMER_OFFSETS = "__consumer_offsets"
STABLE_S = 120.0
"""Seconds in which every transaction must have ended."""
READING_S = 60.0
_READER = {
    "isolation.level": "read_uncommitted",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "log_level": 3,
}


class LogEntry(NamedTuple):
    """One decoded record of the log. `is_valid`: whether it counts, i.e. no transaction that was aborted holds it."""

    offset: int
    written_ms: int
    record: GroupCommit | GroupGeneration
    is_transactional: bool
    is_valid: bool


class GroupLog(NamedTuple):
    """What partition number `partition` of `__consumer_offsets` holds of `groups`, in order.

    `removed` is the number of offsets, from the first of `entries` to the end of the log, at which no record stands any
    more. Brokers compact this topic: of each key they keep the last record, and may remove earlier ones.
    """

    partition: int
    groups: frozenset[str]
    entries: list[LogEntry]
    removed: int


def read_groups(cluster: Cluster, groups: Collection[str]) -> list[GroupLog]:
    """Reads the partitions of `__consumer_offsets` in which `groups` are kept. Returns only records of these groups.

    The result is empty if the topic does not exist, because no group of the cluster has ever had a member. Raises
    DeadlinePassed if a transaction stays open, ConnectionError if a leader gives no answer, and UnknownFormat if a
    record cannot be decoded.
    """
    leaders = {number: state.leader for (_, number), state in cluster.partitions([CONSUMER_OFFSETS]).items()}
    if not leaders:
        return []
    groups_by_key = defaultdict[tuple[str, int], set[str]](set)
    for group in groups:
        groups_by_key[CONSUMER_OFFSETS, partition_of(group, len(leaders))].add(group)
    keys = sorted(groups_by_key)
    client = topics.admin(cluster.connection)
    wait_until(
        lambda: topics.last_stable_offsets(client, keys) == topics.high_watermarks(client, keys),
        f"the transactions in {CONSUMER_OFFSETS} to end",
        STABLE_S,
    )
    starts, ends = topics.start_offsets(client, keys), topics.high_watermarks(client, keys)
    messages, logs = _messages(cluster, {number: starts[topic, number] for topic, number in keys}), []
    for key in keys:
        _, number = key
        here = [message for message in messages if message.partition() == number and _offset(message) < ends[key]]
        batches = _batches(cluster.address(leaders[number]), number, starts[key], ends[key])
        logs.append(_log(number, frozenset(groups_by_key[key]), here, batches, ends[key]))
    return logs


def _log(partition: int, groups: frozenset[str], messages: list[Message], batches: list[Batch], end: int) -> GroupLog:
    """Combines the records of a partition with the batches in which they stand. `end`: the end of the log.

    Raises ConnectionError if the consumer was not handed exactly the records that the batches hold.
    """
    written = sum(batch.records for batch in batches if batch.kind is None)
    if written != len(messages):
        raise ConnectionError(
            f"{CONSUMER_OFFSETS}/{partition}: {len(messages)} records were read, and its batches hold {written}"
        )
    transactional, aborted = _transactional(batches)
    entries = []
    for message in messages:
        offset, record = _offset(message), decode(_bytes(message.key()) or b"", _bytes(message.value()))
        if record is not None and record.group in groups:
            _, written_ms = message.timestamp()
            entries.append(LogEntry(offset, written_ms, record, offset in transactional, offset not in aborted))
    first = entries[0].offset if entries else end
    standing = sum(_offset(message) >= first for message in messages)
    standing += sum(batch.records for batch in batches if batch.kind is not None and batch.first >= first)
    return GroupLog(partition, groups, entries, end - first - standing)


def _transactional(batches: list[Batch]) -> tuple[set[int], set[int]]:
    """Returns the offsets that belong to transactions, and those of them that belong to aborted transactions."""
    pending, transactional, aborted = defaultdict[int, set[int]](set), set[int](), set[int]()
    for batch in batches:
        if batch.kind is not None:
            ended = pending.pop(batch.producer_id, set())
            aborted |= ended if batch.kind == ABORT else set()
        elif batch.transactional:
            offsets = set(range(batch.first, batch.end))
            pending[batch.producer_id] |= offsets
            transactional |= offsets
    return transactional, aborted


def _batches(address: Address, partition: int, start: int, end: int) -> list[Batch]:
    """Returns the headers of the batches at the offsets [start, end), fetched from the leader at `address`."""
    batches, offset = list[Batch](), start
    while offset < end:
        data = fetch(address, CONSUMER_OFFSETS, partition, offset).data
        if not (more := [batch for batch in parse(data) if batch.end > offset and batch.first < end]):
            raise ConnectionError(f"{address} gave no batch of {CONSUMER_OFFSETS}/{partition} from offset {offset} on")
        batches += more
        offset = more[-1].end
    return batches


def _messages(cluster: Cluster, starts: Mapping[int, int]) -> list[Message]:
    """Returns the records that a read_uncommitted consumer is handed, up to the present end of each partition.

    `starts` maps partitions to the offsets at which to start. Raises KafkaException for an error of the client, and
    DeadlinePassed after `READING_S` seconds.
    """
    messages, ended, deadline_s = list[Message](), set[int | None](), time.monotonic() + READING_S
    consumer = Consumer({**cluster.connection.client_properties(), **_READER, "group.id": "kdv-witness"})
    try:
        consumer.assign([TopicPartition(CONSUMER_OFFSETS, partition, start) for partition, start in starts.items()])
        while ended != starts.keys():
            if time.monotonic() >= deadline_s:
                raise DeadlinePassed(f"waited {READING_S:g} s for the end of {CONSUMER_OFFSETS}")
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    messages.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    raise KafkaException(error)
        return messages
    finally:
        consumer.close()


def _offset(message: Message) -> int:
    return message.offset() or 0


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
