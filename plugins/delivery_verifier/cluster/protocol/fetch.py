"""Fetches batches of a partition from one broker. The broker may be the partition's leader or a follower.

Uncommitted records are fetched, too, as by a consumer with read_uncommitted. The module sends the request Fetch of
Kafka's protocol in version 12 (`FetchRequest.json`) for two reasons:

* A follower answers a consumer only from version 11 on, and only up to the follower's own high watermark (KIP-392).
* From version 13 on, a Fetch must name a topic by its id instead of its name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.protocol.encoding import Answer, Reader, call, varint

FETCH_BYTES = 8 << 20
"""The greatest size of one answer, in bytes. A first batch that is larger is still sent whole."""
TIMEOUT_S = 20.0
WAIT_MS = 1000
"""Milliseconds that a broker waits for a batch if it has no batch at the requested offset yet. After this time, the
broker sends an empty answer."""
_HEADER = struct.Struct(">qiibIhi")
"""The first fields of a batch: base offset, length, leader epoch, magic, CRC, attributes, last offset delta. The length
is the size in bytes of the rest of the batch, which begins after the field length."""
_HEADER_BYTES, _FRAME_BYTES = 61, 12
"""Sizes in bytes. `_HEADER_BYTES`: the size of all fields before the records of a batch. `_FRAME_BYTES`: the size of
the fields base offset and length together."""
_CHECKED_FROM = 21
"""The CRC of a batch covers all bytes from this position on."""
CORRUPT_MESSAGE = 2
"""Kafka's error code for a batch that a broker or a client cannot read."""

Bytes = bytes | memoryview
"""The bytes of batches. A view into an answer spares a copy of up to FETCH_BYTES."""


class Refused(ConnectionError):
    """The broker answered a Fetch with the error code `code` of Kafka's protocol. `name` is the name of the
    partition."""

    def __init__(self, name: str, code: int) -> None:
        self.code = code
        super().__init__(f"{name} was not fetched: error {code}" + " (CORRUPT_MESSAGE)" * (code == CORRUPT_MESSAGE))


class Fetched(NamedTuple):
    """The answer to a Fetch of one partition.

    * `high_watermark`: the high watermark that the answering broker knows.
    * `data`: the bytes of the batches. The last batch may be incomplete.
    """

    high_watermark: int
    data: Bytes


class RawBatch(NamedTuple):
    """One batch of a log, at the offsets [first, end). `epoch` is the leader epoch. `crc` is the checksum in the
    header. `data` holds all bytes of the batch."""

    first: int
    end: int
    epoch: int
    crc: int
    attributes: int
    data: bytes

    @property
    def computed_crc(self) -> int:
        """The CRC-32C of the batch's bytes. If the bytes have changed, this checksum differs from `crc`, the checksum
        in the header."""
        return int(google_crc32c.value(self.data[_CHECKED_FROM:]))

    @property
    def sound(self) -> bool:
        """Whether the checksum in the header fits the bytes of the batch. The checksum covers all bytes except the
        first five fields of the header."""
        return self.computed_crc == self.crc


def fetch(address: Address, topic: str, partition: int, offset: int, most_bytes: int = FETCH_BYTES) -> Fetched:
    """Fetches batches of a partition, beginning at `offset`. The first batch may begin before `offset`.

    If `most_bytes` is 1, the broker sends one batch, and does not wait for more data. Raises Refused if the broker
    reports an error, and another OSError if the broker does not answer.
    """
    wait_ms = WAIT_MS if most_bytes > 1 else 0
    body = struct.pack(">hhih", 1, 12, 6, 3) + b"kdv\0" + struct.pack(">iiiibii", -1, wait_ms, 1, most_bytes, 0, 0, -1)
    body += b"\2" + varint(len(topic) + 1) + topic.encode() + b"\2"
    body += struct.pack(">iiqiqi", partition, -1, offset, -1, -1, most_bytes) + b"\0\0"
    answer = call(address, body + b"\1\1\0", TIMEOUT_S)  # no forgotten topic, no rack, no tagged field
    try:
        return _fetched(answer, f"{topic}/{partition}")
    except (struct.error, IndexError, ValueError) as error:
        raise ConnectionError(f"the broker at {address} gave no answer that can be read: {error}") from None


def _fetched(answer: Answer, name: str) -> Fetched:
    """Returns the content of `answer`, a FetchResponse v12 about one partition. `name` is the partition's name, for the
    error message."""
    reader = Reader(answer)
    reader.skip(4)
    reader.tags()
    reader.skip(4)
    if error := reader.number("h"):
        raise Refused(name, error)
    reader.skip(4)
    if reader.varint() != 2:
        raise ValueError(f"it is not about {name}")
    reader.compact_text()
    reader.varint()
    reader.skip(4)
    error, high_watermark = reader.number("h"), reader.number("q")
    if error:
        raise Refused(name, error)
    reader.skip(16)
    for _ in range(reader.varint() - 1):  # aborted transactions
        reader.skip(16)
        reader.tags()
    reader.skip(4)
    return Fetched(high_watermark, reader.view(reader.varint() - 1))


def whole_batches(data: Bytes) -> Iterator[RawBatch]:
    """Yields the complete batches in `data`, the bytes of a Fetch. Leaves out the last batch if the broker sent only a
    part of it.

    Raises ConnectionError if the format (magic) of a batch is not 2, or if the length of a batch is impossible.
    """
    position = 0
    while position + _HEADER_BYTES <= len(data):
        first, length, epoch, magic, crc, attributes, last = _HEADER.unpack_from(data, position)
        if magic != 2:
            raise ConnectionError(f"offset {first} is in a batch of format {magic}, must be 2")
        if length < _HEADER_BYTES - _FRAME_BYTES:
            raise ConnectionError(f"offset {first} is in a batch of {length} bytes, which is too short")
        behind = position + _FRAME_BYTES + length
        if behind <= len(data):
            yield RawBatch(first, first + last + 1, epoch, crc, attributes, bytes(data[position:behind]))
        position = behind
