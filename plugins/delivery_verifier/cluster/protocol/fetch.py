"""What a Fetch brings: the raw batches of a log, and their checksums.

This reader is independent of every client, and of Spark: it is the verifier's second pair of eyes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c

FETCH_BYTES = 8 << 20
"""The greatest size of one answer, in bytes. A first batch that is larger is still sent whole."""
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
    data: bytes


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


def whole_batches(data: bytes) -> Iterator[RawBatch]:
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
            yield RawBatch(first, first + last + 1, epoch, crc, attributes, data[position:behind])
        position = behind
