"""Counts two kinds of records in a log: control records, and records of aborted transactions. No read_committed
consumer gets these records, so this module counts them in the batches of the log.

The module fetches the batches from the leader in Kafka's own protocol (`BrokerRequests.fetch`). The module shares no
code with Spark, which reads the same log with a consumer. So the two results check each other: every offset that the
consumer skips must be counted here. The control batches in the log say whether a transaction was committed or aborted.
The producer's reports are not used.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from delivery_verifier.cluster.protocol.fetch import FETCH_BYTES, whole_batches
from delivery_verifier.cluster.protocol.requests import BrokerRequests

TRANSACTIONAL, CONTROL = 0x10, 0x20
"""Bits in the attributes of a batch. A control batch is the commit marker or abort marker of a transaction."""
ABORT, COMMIT = 0, 1
"""Types of control records in the log of a data topic (Kafka: `ControlRecordType`)."""
_PRODUCER_ID, _RECORDS, _BODY = 43, 57, 61
"""Positions in the bytes of a batch. The producer id is at `_PRODUCER_ID`, the number of records at `_RECORDS`, and the
first record at `_BODY`."""


class Batch(NamedTuple):
    """The batch at the offsets [first, end) of a log.

    * `records`: the number of records that the batch's header names.
    * `kind`: the type of the control record, `ABORT` or `COMMIT`. None if the batch is not a control batch.
    """

    first: int
    end: int
    records: int
    producer_id: int
    transactional: bool
    kind: int | None


class Unseen(NamedTuple):
    """The numbers of records in a log that no read_committed consumer gets. `control` counts the control records.
    `aborted` counts the records of aborted transactions."""

    control: int
    aborted: int


class Hidden(NamedTuple):
    """The records at the offsets [first, end) of a partition, which no read_committed consumer gets: those of an
    aborted transaction or, if `is_open`, of one that has not ended."""

    partition: int
    first: int
    end: int
    is_open: bool


def unseen(requests: BrokerRequests, broker: int, topic: str, partition: int, start: int, end: int) -> Unseen:
    """Counts the records at the offsets [start, end) that no read_committed consumer gets.

    `broker` is the partition's leader. Batches with a wrong checksum are not counted. Every transaction
    with records in this range must have ended. The control batch of a transaction may stand after `end`, so the log is
    read until all these transactions have ended.

    Raises OSError if a transaction is still open, if the broker cannot be reached or holds no replica, or if an offset
    is missing.
    """
    control = aborted = 0
    undecided: Counter[int] = Counter()
    for batch in _batches(requests, broker, topic, partition, start) if start < end else ():
        inside = batch.first < end
        if batch.kind is not None:
            written = undecided.pop(batch.producer_id, 0)
            aborted += written if batch.kind == ABORT else 0
            control += batch.records if inside else 0
        elif batch.transactional and inside:
            undecided[batch.producer_id] += batch.records
        if batch.end >= end and not undecided:
            break
    return Unseen(control, aborted)


def hidden(
    requests: BrokerRequests, broker: int, topic: str, partition: int, start: int, end: int
) -> tuple[int, list[Hidden]]:
    """Returns what no read_committed consumer gets of the offsets [start, end): the number of control records, and the
    records, in ascending order. A transaction whose control batch does not stand before `end` counts as open.

    Raises the errors of `unseen`, but for that about an open transaction.
    """
    count, ranges = 0, list[Hidden]()
    undecided: dict[int, list[Batch]] = {}
    for batch in _batches(requests, broker, topic, partition, start) if start < end else ():
        if batch.first >= end:
            break
        if batch.kind is not None:
            count += batch.records
            written = undecided.pop(batch.producer_id, [])
            ranges += (Hidden(partition, each.first, each.end, False) for each in written if batch.kind == ABORT)
        elif batch.transactional:
            undecided.setdefault(batch.producer_id, []).append(batch)
        if batch.end >= end:
            break
    ranges += (Hidden(partition, each.first, each.end, True) for written in undecided.values() for each in written)
    return count, sorted(ranges)


def controls(requests: BrokerRequests, broker: int, topic: str, partition: int, start: int, end: int) -> int:
    """Returns the number of control records at the offsets [start, end). Transactions may be open. Raises what `hidden`
    raises."""
    return hidden(requests, broker, topic, partition, start, end)[0]


def _batches(requests: BrokerRequests, broker: int, topic: str, partition: int, offset: int) -> Iterator[Batch]:
    """Yields the batches of the log, beginning at `offset`. Raises ConnectionError at the end of the log, or if an
    offset is missing."""
    while True:
        data = requests.fetch(broker, topic, partition, offset, FETCH_BYTES).data
        batches = [batch for batch in parse(data) if batch.end > offset]
        if not batches:
            raise ConnectionError(f"broker {broker} gave no batch of {topic}/{partition} at offset {offset}")
        for batch in batches:
            if batch.first > offset:
                raise ConnectionError(
                    f"{topic}/{partition}: no batch holds offset {offset}, the next begins at {batch.first}"
                )
            yield batch
            offset = batch.end


def parse(data: bytes) -> Iterator[Batch]:
    """Yields the complete batches in `data`, the bytes of a fetch. Raises the same errors as `whole_batches`.

    The content of a batch with a wrong checksum is unknown. Such a batch is yielded as a batch without records.
    """
    for raw in whole_batches(data):
        if not raw.sound:
            yield Batch(raw.first, raw.end, 0, -1, False, None)
            continue
        (producer_id,) = struct.unpack_from(">q", raw.data, _PRODUCER_ID)
        (records,) = struct.unpack_from(">i", raw.data, _RECORDS)
        kind = _control_kind(raw.data[_BODY:], raw.first) if raw.attributes & CONTROL else None
        yield Batch(raw.first, raw.end, records, producer_id, bool(raw.attributes & TRANSACTIONAL), kind)


def _control_kind(record: bytes, offset: int) -> int:
    """Returns the type of a control record, `ABORT` or `COMMIT`.

    `record` is the only record of a control batch. `offset` is the record's offset, for the error message. Raises
    ConnectionError if the record has another type or ends too early.

    The fields of the record are: length, attributes, timestamp delta, offset delta, length of the key, version, type.
    """
    position = _behind_varint(record, 0) + 1
    for _ in range(3):
        position = _behind_varint(record, position)
    kind = int.from_bytes(record[position + 2 : position + 4])
    if len(record) < position + 4 or kind not in (ABORT, COMMIT):
        raise ConnectionError(f"the control record at offset {offset} ends no transaction: type {kind}")
    return kind


def _behind_varint(data: bytes, position: int) -> int:
    while position < len(data) and data[position] & 0x80:
        position += 1
    return position + 1
