"""Kafka's frames: cut out of a byte stream, and as much of their headers as says which request they are.

A frame is its size (int32) and so many bytes. Requests begin with API key and version (int16), correlation id (int32)
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
"""Above this it is no frame: socket.request.max.bytes is 100 MiB."""


class NotKafka(VerifierError, ValueError):
    """The bytes are no frame of Kafka's protocol."""


class Splitter:
    """Cuts one direction of a connection into frames, wherever the network has cut it."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that `data` completes, each with its size before it. Raises NotKafka."""
        self._rest += data
        frames, at = [], 0
        while len(self._rest) - at >= 4:
            (size,) = struct.unpack_from(">i", self._rest, at)
            if not 4 <= size <= LARGEST:
                raise NotKafka(f"a frame of {size} bytes")
            if len(self._rest) - at < 4 + size:
                break
            frames.append(bytes(self._rest[at : at + 4 + size]))
            at += 4 + size
        del self._rest[:at]
        return frames


@dataclass(frozen=True, slots=True)
class Request:
    """What the header of a request says. `answered`: a response will come (not so for Produce with acks=0)."""

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


def _acks(frame: bytes, version: int, at: int) -> int:
    """acks of a Produce request whose header, but for the tags of flexible versions, ends at `at`."""
    if version >= PRODUCE_FLEXIBLE:
        if frame[at]:  # tags: nobody sends any here, and whoever does is taken to want an answer
            return 1
        length, at = _varint(frame, at + 1)  # of the transactional.id, plus one; 0: null
        at += max(length - 1, 0)
    elif version >= PRODUCE_TRANSACTIONAL:
        (length,) = struct.unpack_from(">h", frame, at)
        at += 2 + max(length, 0)
    (acks,) = struct.unpack_from(">h", frame, at)
    return int(acks)


def _varint(frame: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint, and where it ends."""
    value = shift = 0
    while True:
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
