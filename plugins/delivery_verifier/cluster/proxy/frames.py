"""Kafka's frames, and the part of their headers that identifies a request.

A frame is a size (int32) and so many bytes. Requests begin with API key and version (int16), correlation id (int32)
and client.id (nullable string), responses with the correlation id of their request. Source: Kafka protocol guide;
`ProduceRequest.json` for where acks stands.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.step_options import APIS

PRODUCE, PRODUCE_FLEXIBLE, PRODUCE_TRANSACTIONAL = APIS["Produce"], 9, 3
LARGEST = 1 << 27
"""Bytes of the largest frame. Brokers accept no frame above 100 MiB (socket.request.max.bytes)."""


class NotKafka(VerifierError, ValueError):
    """The bytes are no frame of Kafka's protocol."""


class Splitter:
    """Cuts the byte stream of one direction into frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes, each with its size before it. Raises NotKafka."""
        self._rest += data
        frames, start = [], 0
        while len(self._rest) - start >= 4:
            (size,) = struct.unpack_from(">i", self._rest, start)
            if not 4 <= size <= LARGEST:
                raise NotKafka(f"a frame of {size} bytes")
            if len(self._rest) - start < 4 + size:
                break
            frames.append(bytes(self._rest[start : start + 4 + size]))
            start += 4 + size
        del self._rest[:start]
        return frames


@dataclass(frozen=True, slots=True)
class Request:
    """What the header of a request says. `answered`: a response will come, as for all but Produce with acks=0."""

    api: int
    correlation: int
    client: str
    answered: bool = True


def request_of(frame: bytes) -> Request:
    """The request in `frame`. Raises NotKafka."""
    try:
        api, version, correlation, length = struct.unpack_from(">hhih", frame, 4)
        body = 14 + max(length, 0)
        client = frame[14:body].decode(errors="replace")
        return Request(api, correlation, client, api != PRODUCE or _acks(frame, version, body) != 0)
    except (struct.error, IndexError) as error:
        raise NotKafka(f"a request that ends too early: {error}") from None


def correlation_of(frame: bytes) -> int:
    """The correlation id of a response."""
    (correlation,) = struct.unpack_from(">i", frame, 4)
    return int(correlation)


def _acks(frame: bytes, version: int, offset: int) -> int:
    """acks of a Produce request. `offset`: where its header ends, without the tagged fields of flexible versions."""
    if version >= PRODUCE_FLEXIBLE:
        if frame[
            offset
        ]:  # no client here sends tagged fields; a request with any counts as one that expects a response
            return 1
        length, offset = _varint(frame, offset + 1)  # of the transactional.id, plus one; 0: null
        offset += max(length - 1, 0)
    elif version >= PRODUCE_TRANSACTIONAL:
        (length,) = struct.unpack_from(">h", frame, offset)
        offset += 2 + max(length, 0)
    (acks,) = struct.unpack_from(">h", frame, offset)
    return int(acks)


def _varint(frame: bytes, offset: int) -> tuple[int, int]:
    """The unsigned varint at `offset`, and where it ends."""
    value = shift = 0
    while True:
        byte = frame[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7
