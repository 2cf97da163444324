"""Connections to single brokers, over plain sockets with deadlines. A broker that hangs cannot hang a caller."""

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
CORRELATION = slice(4, 8)
"""Where a request has its correlation id, with which its answer begins (Kafka's protocol guide, "Headers")."""


class Channel:
    """A connection to the broker at `address`, for many requests one after the other. Only one thread at a time may use
    it."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._socket: socket.socket | None = None
        self._sent = 0

    def call(self, request: bytes, timeout_s: float) -> Answer:
        """Sends `request` with a correlation id of its own. Returns the answer without the size field that precedes
        the answer. If there is no connection, connects first.

        Raises OSError if the broker cannot be reached, closes the connection, or is silent for `timeout_s` seconds, or
        if what it sends is not the answer to this request. An error closes the connection, so that a late answer is
        never taken for the answer to a later request.
        """
        self._sent += 1
        correlation = struct.pack(">i", self._sent)
        request = request[: CORRELATION.start] + correlation + request[CORRELATION.stop :]
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._address, timeout=timeout_s)
            self._socket.settimeout(timeout_s)
            self._socket.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _exactly(self._socket, 4))
            answer = _exactly(self._socket, size)
            if answer[:4] != correlation:
                raise ConnectionError(f"the broker at {self._address} sent the answer to another request")
            return answer
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
