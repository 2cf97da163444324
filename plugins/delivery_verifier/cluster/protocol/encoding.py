"""The encoding of Kafka's protocol: fields of requests and answers, and one exchange of them over a plain socket."""

from __future__ import annotations

import socket
import struct

from delivery_verifier.cluster.connection import Address


class Reader:
    """Reads the fields of an answer one after the other. Raises struct.error, IndexError or ValueError if the answer
    ends too early."""

    def __init__(self, data: bytes) -> None:
        self._data, self._offset = data, 0

    def number(self, code: str) -> int:
        """A big-endian number; `code` is its letter in `struct`."""
        (value,) = struct.unpack_from(">" + code, self._data, self._offset)
        self._offset += struct.calcsize(">" + code)
        return int(value)

    def varint(self) -> int:
        """An unsigned varint."""
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

    def text(self, length: int) -> str:
        """A string of `length` bytes. A negative length means null, which is read as an empty string."""
        value = self._data[self._offset : self._offset + max(length, 0)].decode()
        self._offset += max(length, 0)
        return value

    def short_text(self) -> str:
        """A string behind its length as int16."""
        return self.text(self.number("h"))

    def compact_text(self) -> str:
        """A string behind its length plus one as varint."""
        return self.text(self.varint() - 1)

    def compact_ints(self) -> tuple[int, ...]:
        """An array of int32 behind its length plus one as varint."""
        return tuple(self.number("i") for _ in range(self.varint() - 1))

    def tags(self) -> None:
        """Skips the tagged fields of a flexible version."""
        for _ in range(self.varint()):
            self.varint()
            self.skip(self.varint())


def short_text(text: str) -> bytes:
    """A string behind its length as int16."""
    return struct.pack(">h", len(text)) + text.encode()


def varint(value: int) -> bytes:
    """An unsigned varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def call(address: Address, request: bytes, timeout_s: float) -> bytes:
    """Sends one request, and returns the answer without its size. Raises OSError."""
    with socket.create_connection(address, timeout=timeout_s) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        return _exactly(connection, size)


def _exactly(connection: socket.socket, count: int) -> bytes:
    chunks = bytearray()
    while len(chunks) < count:
        chunk = connection.recv(count - len(chunks))
        if not chunk:
            raise ConnectionError("the broker closed the connection")
        chunks += chunk
    return bytes(chunks)
