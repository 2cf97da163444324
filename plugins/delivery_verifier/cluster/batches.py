"""Batches: control records of a log counted off its batch headers, which no consumer shows.

Fetched from the leader by Kafka's own protocol (`FetchRequest.json` v4, isolation level read_uncommitted), by none of the
code that reads the records for the reconciliation: so the offsets that a consumer skips are accounted for independently.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from delivery_verifier.cluster import wire

FETCH_BYTES = 8 << 20
TIMEOUT_S = 20.0
CONTROL = 0x20
"""The bit of a batch's attributes that says: a control batch, e.g. a transaction's commit or abort marker."""
_FRAME = struct.Struct(">qi")
"""Base offset, and length of all that follows."""
_HEADER = struct.Struct(">ibIhiqqqhii")
"""Leader epoch, magic, CRC, attributes, last offset delta, two timestamps, producer id and epoch, sequence, records."""


class Batch(NamedTuple):
    """Offsets [first, end) of the log; `records` is what its header counts."""

    first: int
    end: int
    control: bool
    records: int


def control_records(port: int, topic: str, partition: int, start: int, end: int) -> int:
    """Control records at offsets [start, end), which lie below the high watermark, as the leader on `port` has them.

    Raises OSError where it does not lead, cannot be reached, or leaves any of these offsets out.
    """
    count, at = 0, start
    while at < end:
        batches = [batch for batch in parse(_fetch(port, topic, partition, at)) if batch.end > at]
        if not batches:
            raise ConnectionError(f"the broker on port {port} gave no batch of {topic}/{partition} at offset {at}")
        for batch in batches:
            if batch.first > at:
                raise ConnectionError(f"{topic}/{partition}: no batch holds offset {at}, the next begins at {batch.first}")
            if batch.first < end and batch.control:
                count += batch.records
            at = batch.end
    return count


def parse(data: bytes) -> Iterator[Batch]:
    """The whole batches in `data`; the last may have been cut by the broker. Raises ConnectionError for another format."""
    place = 0
    while place + _FRAME.size + _HEADER.size <= len(data):
        first, length = _FRAME.unpack_from(data, place)
        _, magic, _, attributes, last, *_, records = _HEADER.unpack_from(data, place + _FRAME.size)
        if magic != 2:
            raise ConnectionError(f"offset {first} is in a batch of format {magic}, must be 2")
        place += _FRAME.size + length
        if place <= len(data):
            yield Batch(first, first + last + 1, bool(attributes & CONTROL), records)


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
