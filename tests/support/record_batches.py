"""Record batches in Kafka's format 2, made or altered by hand, with a checksum that is right, or with damage."""

from __future__ import annotations

import struct
from pathlib import Path

from delivery_verifier.cluster.protocol.fetch import RawBatch, whole_batches

_CHECKED_FROM = 21
"""The position in a batch from which on its CRC covers all bytes."""


def batch(
    first: int, records: int, *, epoch: int = 0, attributes: int = 0, producer_id: int = -1, body: bytes = b"records\0"
) -> bytes:
    """Returns a batch. Its records are `body`, which nobody parses."""
    header = struct.pack(">hiqqqhii", attributes, records - 1, 0, 0, producer_id, -1, -1, records)
    length = 4 + 1 + 4 + len(header + body)
    return with_crc(struct.pack(">qiibI", first, length, epoch, 2, 0) + header + body)


def with_crc(data: bytes) -> bytes:
    """Returns the batch `data` with the checksum that fits its bytes."""
    return data[:17] + struct.pack(">I", crc32c(data[_CHECKED_FROM:])) + data[_CHECKED_FROM:]


def altered(data: bytes) -> bytes:
    """Returns the batch `data` with another last byte of its last value, and the checksum that fits.

    The last byte of a record without headers is its number of headers. The value stands before this byte.
    """
    return with_crc(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])


def damaged(data: bytes) -> bytes:
    """Returns the batch `data` with another last byte of its last value, and the checksum that it had before."""
    return data[:21] + altered(data)[21:]


def damage_on_disk(segment: Path, offset: int, position: int = -2, value: bytes = b"") -> RawBatch:
    """Damages the batch that holds `offset` in the file `segment` of a log, while its broker may run. Returns the batch
    as it was before.

    `position`: where bytes of the batch change, by default the last byte of its last value. `value`: what is written
    there, by default one byte with another last bit. The checksum stays as it was.
    """
    content = segment.read_bytes()
    (batch,) = (each for each in whole_batches(content) if each.first <= offset < each.end)
    at = position if position >= 0 else len(batch.data) + position
    with segment.open("r+b") as file:
        file.seek(content.index(batch.data) + at)
        file.write(value or bytes([batch.data[at] ^ 1]))
    return batch


def alter_on_disk(segment: Path, offset: int) -> RawBatch:
    """Alters the batch that holds `offset` in the file `segment` of a log. Returns the batch as it was before."""
    content = segment.read_bytes()
    (batch,) = (each for each in whole_batches(content) if each.first <= offset < each.end)
    assert content.count(batch.data) == 1
    assert with_crc(batch.data) == batch.data, "the broker's CRC is computed in the same way"
    segment.write_bytes(content.replace(batch.data, altered(batch.data)))
    return batch


def varint(value: int) -> bytes:
    """Returns `value` as an unsigned varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def crc32c(data: bytes) -> int:
    """Returns the CRC-32C (Castagnoli) of `data`, as Kafka computes it."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = [_entry(byte) for byte in range(256)]
