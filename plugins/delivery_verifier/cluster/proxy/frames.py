"""Kafka's frames, and the part of a frame's header that identifies a request.

A frame consists of a size field (int32), and of a request or response of this size. A request begins with API key and
version (int16 each), correlation id (int32) and client.id (nullable string). A response begins with the correlation id
of its request. Sources: the Kafka protocol guide; `ProduceRequest.json` for the position of acks; `EndTxnRequest.json`
and `EndTxnResponse.json`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from delivery_verifier.model.act import APIS
from delivery_verifier.model.errors import VerifierError

PRODUCE, PRODUCE_FLEXIBLE, PRODUCE_TRANSACTIONAL = APIS["Produce"], 9, 3
"""`PRODUCE` is the API key of Produce requests. `PRODUCE_FLEXIBLE` is the first flexible version (KIP-482) of Produce
requests. `PRODUCE_TRANSACTIONAL` is their first version with a transactional.id."""
END_TXN, END_TXN_FLEXIBLE = APIS["EndTxn"], 3
"""`END_TXN` is the API key of EndTxn requests. `END_TXN_FLEXIBLE` is their first flexible version (KIP-482)."""
LARGEST = 1 << 27
"""Size in bytes of the largest frame that the proxy accepts. Brokers accept no frame above 100 MiB
(socket.request.max.bytes)."""


class NotKafka(VerifierError, ValueError):
    """The bytes are not a frame of Kafka's protocol, that is a request or a response with its size."""


class Splitter:
    """Cuts the bytes that one side of a connection sends into frames. A frame is one request or one response."""

    def __init__(self) -> None:
        self._rest = bytearray()

    @property
    def rest(self) -> bytearray:
        """The bytes of the next frame that have come so far. They are no complete frame."""
        return self._rest

    @property
    def missing(self) -> int:
        """How many bytes of the next frame have not come yet. At least 4 bytes of it must be there."""
        (size,) = struct.unpack_from(">i", self._rest, 0)
        return 4 + int(size) - len(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        """Takes in `data`. Returns the frames that are now complete, each including its size field. Raises NotKafka if
        a size is below 4 or above `LARGEST`."""
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
    """The header of a request.

    * `api`: the API key.
    * `correlation`: the correlation id.
    * `client`: the client.id.
    * `answered`: whether the broker will answer the request. The only request without an answer is Produce with acks=0.
    """

    api: int
    correlation: int
    client: str
    answered: bool = True


def request_of(frame: bytes) -> Request:
    """Returns the header of the request in `frame`. Raises NotKafka if the frame ends too early."""
    try:
        api, version, correlation, length = struct.unpack_from(">hhih", frame, 4)
        body = 14 + max(length, 0)
        client = frame[14:body].decode(errors="replace")
        return Request(api, correlation, client, api != PRODUCE or _acks(frame, version, body) != 0)
    except (struct.error, IndexError) as error:
        raise NotKafka(f"a request that ends too early: {error}") from None


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """An EndTxn request. It ends the transaction of `transactional_id`. `is_commit` is True for a commit, and False for
    an abort. `is_flexible`: whether request and response have a flexible version (KIP-482)."""

    transactional_id: str
    is_commit: bool
    is_flexible: bool = False


def transaction_end_of(frame: bytes) -> TransactionEnd | None:
    """Returns the TransactionEnd of the EndTxn request in `frame`.

    Returns None for any other request. Raises NotKafka if the frame ends too early.
    """
    try:
        api, version, _, length = struct.unpack_from(">hhih", frame, 4)
        if api != END_TXN:
            return None
        start, is_flexible = 14 + max(length, 0), version >= END_TXN_FLEXIBLE
        if is_flexible:
            length, start = _varint(frame, _behind_tags(frame, start))  # length of the transactional.id plus one
            length -= 1
        else:
            (length,) = struct.unpack_from(">h", frame, start)
            start += 2
        # Behind the transactional.id stand the producer id (int64) and its epoch (int16).
        transactional_id = frame[start : start + length].decode(errors="replace")
        return TransactionEnd(transactional_id, frame[start + length + 10] != 0, is_flexible)
    except (struct.error, IndexError) as error:
        raise NotKafka(f"an EndTxn request that ends too early: {error}") from None


def error_of_transaction_end(frame: bytes, is_flexible: bool) -> int:
    """Returns the error code in the response `frame` to an EndTxn request. `is_flexible`: whether it has a flexible
    version.

    The code follows the correlation id, the tagged fields of a flexible version, and the throttle time. The two numbers
    are int32. Raises NotKafka if the frame ends too early.
    """
    try:
        (code,) = struct.unpack_from(">h", frame, 4 + (_behind_tags(frame, 8) if is_flexible else 8))
    except (struct.error, IndexError) as error:
        raise NotKafka(f"an EndTxn response that ends too early: {error}") from None
    return int(code)


def correlation_of(frame: bytes) -> int:
    """Returns the correlation id of the response in `frame`."""
    (correlation,) = struct.unpack_from(">i", frame, 4)
    return int(correlation)


def _acks(frame: bytes, version: int, offset: int) -> int:
    """Returns the acks of a Produce request. `version` is the version of the request. `offset` is the position after
    the client.id.

    If the request has tagged fields at `offset`, returns 1 without reading the acks. The proxy then expects a response.
    """
    if version >= PRODUCE_FLEXIBLE:
        # No client here sends tagged fields. A request that has tagged fields counts as a request with a response.
        if frame[offset]:
            return 1
        length, offset = _varint(frame, offset + 1)  # length of the transactional.id plus one; 0: null
        offset += max(length - 1, 0)
    elif version >= PRODUCE_TRANSACTIONAL:
        (length,) = struct.unpack_from(">h", frame, offset)
        offset += 2 + max(length, 0)
    (acks,) = struct.unpack_from(">h", frame, offset)
    return int(acks)


def _behind_tags(frame: bytes, offset: int) -> int:
    """Returns the position behind the tagged fields at `offset`: their number, and of each its tag, size and value."""
    count, offset = _varint(frame, offset)
    for _ in range(count):
        _, offset = _varint(frame, offset)
        size, offset = _varint(frame, offset)
        offset += size
    return offset


def _varint(frame: bytes, offset: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = frame[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
        shift += 7
