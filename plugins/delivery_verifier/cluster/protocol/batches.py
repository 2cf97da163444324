"""Batches: what a consumer does not show, control records and aborted ones, counted off the headers of a log's batches.

Fetched from the leader by Kafka's own protocol (`FetchRequest.json` v4, isolation level read_uncommitted), by none of
the code that reads the records for the reconciliation: so the offsets that a consumer skips are accounted for
independently. How a transaction ended is told by the control batch that ends it in the partition, and by no producer.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from delivery_verifier.cluster.protocol import requests as wire

FETCH_BYTES = 8 << 20
TIMEOUT_S = 20.0
TRANSACTIONAL, CONTROL = 0x10, 0x20
"""Bits of a batch's attributes. A control batch is a transaction's commit or abort marker."""
ABORT, COMMIT = 0, 1
"""Types of control records in a log of data (`ControlRecordType`)."""
_FRAME = struct.Struct(">qi")
"""Base offset, and length of all that follows."""
_HEADER = struct.Struct(">ibIhiqqqhii")
"""Leader epoch, magic, CRC, attributes, last offset delta, two timestamps, producer id and epoch, sequence, records."""


class Batch(NamedTuple):
    """Offsets [first, end) of the log; `records` is what its header counts. `kind` is a control record's type, else
    None."""

    first: int
    end: int
    records: int
    producer_id: int
    transactional: bool
    kind: int | None


class Unseen(NamedTuple):
    """Records between two offsets: `control` ones, which no consumer shows, and those of `aborted` transactions."""

    control: int
    aborted: int


def unseen(port: int, topic: str, partition: int, start: int, end: int) -> Unseen:
    """Of offsets [start, end), whose transactions are all decided, as the leader on `port` has them.

    What ends a transaction may stand behind `end`: the log is read until each is ended that has records before it.
    Raises OSError where the broker does not lead, cannot be reached, or leaves any offset out up to there.
    """
    control = aborted = 0
    undecided: Counter[int] = Counter()
    for batch in _batches(port, topic, partition, start) if start < end else ():
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


def _batches(port: int, topic: str, partition: int, at: int) -> Iterator[Batch]:
    """The log's batches from offset `at` on. Raises ConnectionError at its end, and where an offset is left out."""
    while True:
        batches = [batch for batch in parse(_fetch(port, topic, partition, at)) if batch.end > at]
        if not batches:
            raise ConnectionError(f"the broker on port {port} gave no batch of {topic}/{partition} at offset {at}")
        for batch in batches:
            if batch.first > at:
                raise ConnectionError(
                    f"{topic}/{partition}: no batch holds offset {at}, the next begins at {batch.first}"
                )
            yield batch
            at = batch.end


def parse(data: bytes) -> Iterator[Batch]:
    """The whole batches in `data`; the last may have been cut by the broker. Raises ConnectionError for another
    format."""
    place = 0
    while place + _FRAME.size + _HEADER.size <= len(data):
        first, length = _FRAME.unpack_from(data, place)
        header = _HEADER.unpack_from(data, place + _FRAME.size)
        magic, attributes, last, producer_id, records = header[1], header[3], header[4], header[7], header[10]
        if magic != 2:
            raise ConnectionError(f"offset {first} is in a batch of format {magic}, must be 2")
        body, place = place + _FRAME.size + _HEADER.size, place + _FRAME.size + length
        if place <= len(data):
            kind = _control_kind(data[body:place], first) if attributes & CONTROL else None
            yield Batch(first, first + last + 1, records, producer_id, bool(attributes & TRANSACTIONAL), kind)


def _control_kind(record: bytes, offset: int) -> int:
    """The type in the key of a control batch's only record: length, attributes, two deltas, length of the key, version,
    type."""
    place = _behind_varint(record, 0) + 1
    for _ in range(3):
        place = _behind_varint(record, place)
    kind = int.from_bytes(record[place + 2 : place + 4])
    if len(record) < place + 4 or kind not in (ABORT, COMMIT):
        raise ConnectionError(f"the control record at offset {offset} ends no transaction: type {kind}")
    return kind


def _behind_varint(data: bytes, place: int) -> int:
    while place < len(data) and data[place] & 0x80:
        place += 1
    return place + 1


def _fetch(port: int, topic: str, partition: int, offset: int) -> bytes:
    body = struct.pack(">hhih", 1, 4, 6, 3) + b"kdv" + struct.pack(">iiiibi", -1, 1000, 1, FETCH_BYTES, 0, 1)
    body += struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">iiqi", 1, partition, offset, FETCH_BYTES)
    answer = wire.call(port, body, TIMEOUT_S)
    try:
        return _records(answer, len(topic))
    except struct.error as error:
        raise ConnectionError(f"the broker on port {port} gave no answer that can be read: {error}") from None


def _records(answer: bytes, name_bytes: int) -> bytes:
    """The records of a FetchResponse v4 of one partition."""
    at = 4 + 4 + 4 + 2 + name_bytes + 4  # correlation, throttle, topics, name, partitions
    partition, error, _mark, _stable, aborted = struct.unpack_from(">ihqqi", answer, at)
    if error:
        raise ConnectionError(f"partition {partition} was not fetched: error {error}")
    at += 26 + 16 * max(aborted, 0)
    (length,) = struct.unpack_from(">i", answer, at)
    return answer[at + 4 : at + 4 + max(length, 0)]
