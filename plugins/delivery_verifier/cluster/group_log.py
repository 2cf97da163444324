"""Reads `__consumer_offsets`, the topic in which brokers write down the commits and generations of consumer groups.

A consumer reads the records. The headers of the batches are fetched separately (`BrokerRequests.fetch`). The headers
say which records belong to transactions, how these transactions ended, and whether the broker has removed records.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.batches import ABORT, Batch, parse
from delivery_verifier.cluster.protocol.fetch import FETCH_BYTES
from delivery_verifier.cluster.protocol.group_records import GroupCommit, GroupGeneration, decode
from delivery_verifier.cluster.protocol.requests import BrokerRequests
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.model.coordinators import partition_of

CONSUMER_OFFSETS = "__consumer_offsets"
STABLE_S = 120.0
"""Seconds in which every transaction in `__consumer_offsets` must end, so that the reading can begin."""
READING_S = 60.0
READINGS = 3
"""How often a partition is read at most, until two ways of reading give the same number of records."""
_READER = {
    "isolation.level": "read_uncommitted",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "log_level": 3,
}


class LogEntry(NamedTuple):
    """One decoded record of the log. `is_valid` is False if the record belongs to an aborted transaction."""

    offset: int
    written_ms: int
    record: GroupCommit | GroupGeneration
    is_transactional: bool
    is_valid: bool


class GroupLog(NamedTuple):
    """The records about `groups` in partition number `partition` of `__consumer_offsets`, in the order of the log.

    `removed` is the number of offsets without a record. Brokers compact this topic: they keep the last record of each
    key, and may remove earlier records. `removed` does not count offsets before the run (see `read_groups`).
    """

    partition: int
    groups: frozenset[str]
    entries: list[LogEntry]
    removed: int


def read_groups(cluster: Cluster, groups: Collection[str], began_ms: int) -> list[GroupLog]:
    """Reads the partitions of `__consumer_offsets` that hold the records of `groups`. Returns only records of these
    groups.

    All members of the groups must have ended. Others may go on with transactions of theirs in the same partitions.

    `began_ms` is a time before the first record of the groups, in ms since the epoch. The count of removed records
    begins behind the last record that was written before `began_ms`.

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
    # Others may write transactions there without end. Only those that began below `present` can be of the groups.
    present = topics.high_watermarks(client, keys)
    wait_until(
        lambda: _all_reached(topics.last_stable_offsets(client, keys), present),
        f"the transactions in {CONSUMER_OFFSETS} to end",
        STABLE_S,
    )
    # The markers that ended them may stand behind `present`, so the ends are taken anew.
    starts, ends = topics.start_offsets(client, keys), topics.high_watermarks(client, keys)
    logs = []
    for key in keys:
        bounds = _Bounds(key[1], starts[key], ends[key], began_ms)
        logs.append(_read(cluster, leaders[key[1]], bounds, frozenset(groups_by_key[key])))
    return logs


def _all_reached(offsets: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int]) -> bool:
    """Returns whether each partition of `ends` has reached its end. `offsets`: where each partition is now."""
    return all(offsets[key] >= end for key, end in ends.items())


class _Bounds(NamedTuple):
    """The range of offsets [start, end) of a partition of `__consumer_offsets` that is read. `read_groups` explains
    `began_ms`."""

    partition: int
    start: int
    end: int
    began_ms: int


def _read(cluster: Cluster, leader: int, bounds: _Bounds, groups: frozenset[str]) -> GroupLog:
    """Reads the records of one partition with a consumer, and the headers of the batches from the broker `leader`.

    The consumer and the headers must agree on the number of records. They may disagree because the broker removes
    records meanwhile. Then reads both again. Raises ConnectionError if they disagree `READINGS` times.
    """
    for _ in range(READINGS):
        messages = _messages(cluster, bounds)
        batches = _batches(cluster.requests, leader, bounds)
        written = sum(batch.records for batch in batches if batch.kind is None)
        if written == len(messages):
            return _log(bounds, groups, messages, batches)
    name = f"{CONSUMER_OFFSETS}/{bounds.partition}"
    raise ConnectionError(f"{name}: {len(messages)} records were read, and its batches hold {written}")


def _log(bounds: _Bounds, groups: frozenset[str], messages: list[Message], batches: list[Batch]) -> GroupLog:
    """Combines the records of a partition with the batches in which they stand."""
    transactional, aborted = _transactional(batches)
    entries = []
    for message in messages:
        offset, record = _offset(message), decode(_bytes(message.key()) or b"", _bytes(message.value()))
        if record is not None and record.group in groups:
            _, written_ms = message.timestamp()
            entries.append(LogEntry(offset, written_ms, record, offset in transactional, offset not in aborted))
    older = (_offset(message) for message in messages if message.timestamp()[1] < bounds.began_ms)
    first = max(older, default=bounds.start - 1) + 1
    standing = sum(_offset(message) >= first for message in messages)
    standing += sum(batch.records for batch in batches if batch.kind is not None and batch.first >= first)
    return GroupLog(bounds.partition, groups, entries, bounds.end - first - standing)


def _transactional(batches: list[Batch]) -> tuple[set[int], set[int]]:
    """Returns two sets: the offsets that belong to transactions, and the offsets that belong to aborted
    transactions."""
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


def _batches(requests: BrokerRequests, leader: int, bounds: _Bounds) -> list[Batch]:
    """Returns the headers of the batches in the range `bounds`. Fetches them from the broker `leader`."""
    batches, offset = list[Batch](), bounds.start
    while offset < bounds.end:
        data = requests.fetch(leader, CONSUMER_OFFSETS, bounds.partition, offset, FETCH_BYTES).data
        if not (more := [batch for batch in parse(data) if batch.end > offset and batch.first < bounds.end]):
            name = f"{CONSUMER_OFFSETS}/{bounds.partition}"
            raise ConnectionError(f"broker {leader} gave no batch of {name} from offset {offset} on")
        batches += more
        offset = more[-1].end
    return batches


def _messages(cluster: Cluster, bounds: _Bounds) -> list[Message]:
    """Returns the records in the range `bounds` that a read_uncommitted consumer gets.

    Raises KafkaException for an error of the client, and DeadlinePassed after `READING_S` seconds.
    """
    messages, deadline_s, has_ended = list[Message](), time.monotonic() + READING_S, False
    consumer = Consumer({**cluster.connection.client_properties(), **_READER, "group.id": "kdv-group_log"})
    try:
        consumer.assign([TopicPartition(CONSUMER_OFFSETS, bounds.partition, bounds.start)])
        while not has_ended:
            if time.monotonic() >= deadline_s:
                raise DeadlinePassed(f"waited {READING_S:g} s for the end of {CONSUMER_OFFSETS}/{bounds.partition}")
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    messages.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    has_ended = True
                else:
                    raise KafkaException(error)
        return [message for message in messages if _offset(message) < bounds.end]
    finally:
        consumer.close()


def _offset(message: Message) -> int:
    return message.offset() or 0


def _bytes(part: str | bytes | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
