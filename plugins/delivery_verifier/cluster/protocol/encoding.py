"""Kafka's protocol over a plain socket: encodes the fields of requests, sends requests, and decodes the fields of
answers."""

from __future__ import annotations

import socket
import struct

from delivery_verifier.cluster.connection import Address

Answer = bytes | bytearray
"""The bytes of an answer, without the size field that precedes them."""
MOST_BYTES = 256 << 20
"""The largest answer that is read. Kafka takes requests, and with them batches, of up to 100 MiB
(`socket.request.max.bytes`). A sender that announces more is no broker of Kafka. Examples: the bytes "HTTP" or a
TLS alert, read as a size."""


class Reader:
    """Reads the fields of an answer one after the other.

    A method that reads a number raises struct.error or IndexError if the answer ends inside the number. A method that
    reads a string raises ValueError if the string is not UTF-8.
    """

    def __init__(self, data: Answer) -> None:
        self._data, self._offset = data, 0

    def number(self, code: str) -> int:
        """Reads a big-endian number. `code` is the letter of the number's type in Python's `struct` module."""
        (value,) = struct.unpack_from(">" + code, self._data, self._offset)
        self._offset += struct.calcsize(">" + code)
        return int(value)

    def varint(self) -> int:
        """Reads an unsigned varint."""
        value = shift = 0
        while True:
            byte = self._data[self._offset]
            self._offset += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def skip(self, count: int) -> None:
        """Skips `count` bytes."""
        self._offset += count

    def blob(self, length: int) -> bytes:
        """Reads `length` bytes. A negative length means null, and the result is then empty. Raises IndexError if the
        answer ends too early."""
        return bytes(self.view(length))

    def view(self, length: int) -> memoryview:
        """Reads `length` bytes like `blob`, but does not copy them."""
        value = memoryview(self._data)[self._offset : self._offset + max(length, 0)]
        if len(value) < length:
            raise IndexError(f"{length} bytes were announced, {len(value)} are there")
        self._offset += len(value)
        return value.toreadonly()

    def text(self, length: int) -> str:
        """Reads a string of `length` bytes. A negative length means null, and the result is then an empty string.

        If the answer ends too early, returns a shorter string and raises no error.
        """
        value = self._data[self._offset : self._offset + max(length, 0)].decode()
        self._offset += max(length, 0)
        return value

    def short_text(self) -> str:
        """Reads a string. The string's length stands before the string, as an int16."""
        return self.text(self.number("h"))

    def compact_text(self) -> str:
        """Reads a string. The string's length plus one stands before the string, as an unsigned varint."""
        return self.text(self.varint() - 1)

    def compact_ints(self) -> tuple[int, ...]:
        """Reads an array of int32 numbers. The count of the numbers plus one stands before the array, as an unsigned
        varint."""
        return tuple(self.number("i") for _ in range(self.varint() - 1))

    def tags(self) -> None:
        """Skips the tagged fields. Tagged fields exist only in the flexible versions (KIP-482) of Kafka's requests and
        answers."""
        for _ in range(self.varint()):
            self.varint()
            self.skip(self.varint())


def short_text(text: str) -> bytes:
    """Encodes the string `text`. The result is the string's length in bytes as an int16, and then the string."""
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def varint(value: int) -> bytes:
    """Returns `value` encoded as an unsigned varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


class Channel:
    """A connection to the broker at `address`, for many requests one after the other. Only one thread at a time may use
    it."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._socket: socket.socket | None = None

    def call(self, request: bytes, timeout_s: float) -> Answer:
        """Sends `request`. Returns the answer without the size field that precedes the answer. If there is no
        connection, connects first.

        Raises OSError if the broker cannot be reached, closes the connection, or is silent for `timeout_s` seconds. An
        error closes the connection, so that a late answer is never taken for the answer to a later request.
        """
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._address, timeout=timeout_s)
            self._socket.settimeout(timeout_s)
            self._socket.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _exactly(self._socket, 4))
            return _exactly(self._socket, size)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connection, if there is one. The next `call` makes a new connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def call(address: Address, request: bytes, timeout_s: float) -> Answer:
    """Sends `request` to the broker at `address` over a new connection. Returns the answer without the size field that
    precedes the answer.

    Raises OSError if the broker cannot be reached, closes the connection, or is silent for `timeout_s` seconds.
    """
    channel = Channel(address)
    try:
        return channel.call(request, timeout_s)
    finally:
        channel.close()


def _exactly(connection: socket.socket, count: int) -> bytearray:
    """Receives `count` bytes into one buffer, without a copy, because the replicas of a large run are gigabytes.

    Raises ConnectionError if `count` is above MOST_BYTES, or if the broker closes the connection before.
    """
    if count > MOST_BYTES:
        raise ConnectionError(f"an answer of {count} bytes was announced, which no broker of Kafka sends")
    received, data = 0, bytearray(max(count, 0))
    view = memoryview(data)
    while received < count:
        size = connection.recv_into(view[received:])
        if not size:
            raise ConnectionError("the broker closed the connection")
        received += size
    return data
