"""Connections to single brokers, with deadlines: plain, or with TLS and SASL. A hanging broker cannot hang a caller."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Mapping
from functools import cached_property

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol import authentication, versions
from delivery_verifier.cluster.protocol.messages import Answer
from delivery_verifier.cluster.security import names, tls

MOST_BYTES = 256 << 20
"""The largest answer that is read. Kafka takes requests, and with them batches, of up to 100 MiB
(`socket.request.max.bytes`). A sender that announces more is no broker of Kafka. Examples: the bytes "HTTP" or a
TLS alert, read as a size."""
CORRELATION = slice(4, 8)
"""Where a request has its correlation id, with which its answer begins (Kafka's protocol guide, "Headers")."""
SECURED_S = 5.0
"""Seconds that TLS and SASL may take at least, however soon an answer is wanted. They take seven round trips, and the
broker computes a hash many times."""
ROUND_TRIPS = 4
"""How many measured round trips are added to the seconds in which an answer must come."""
_RENEWED_AT = 0.8
"""The part of a session's lifetime after which a new connection is made."""


class Transport:
    """Makes sockets to brokers with the security properties `security`, which have librdkafka's names. May be used by
    several threads."""

    def __init__(self, security: Mapping[str, str]) -> None:
        self._security = names.usual(security)
        self._lock = threading.Lock()
        protocol = self._security.get(names.PROTOCOL, "PLAINTEXT").upper()
        self.is_secured, self.uses_sasl = protocol != "PLAINTEXT", protocol.startswith("SASL_")

    @cached_property
    def _context(self) -> ssl.SSLContext | None:
        return tls.context(self._security)

    def secured(self, plain: socket.socket, address: Address) -> socket.socket:
        """Returns `plain` with TLS around it, if the properties say so. Raises OSError if TLS fails, and BadInput if a
        file that it needs cannot be read."""
        with self._lock:
            context = self._context
        return plain if context is None else context.wrap_socket(plain, server_hostname=address.host)

    def authenticate(self, exchange: authentication.Exchange, address: Address) -> float:
        """Proves to the broker who the client is. Returns after how many seconds the session ends. Raises OSError if
        the broker refuses."""
        lifetime_ms = authentication.authenticate(exchange, self._security, address).lifetime_ms
        return lifetime_ms / 1000 if lifetime_ms else float("inf")


PLAIN = Transport({})


class Channel:
    """A connection to the broker at `address`, for many requests one after the other. Only one thread at a time may use
    it.

    `address`: where the broker is. `round_trip_s`: how long the operating system took to connect, in seconds: a round
    trip of the network.
    """

    def __init__(self, address: Address, transport: Transport = PLAIN) -> None:
        self._socket: socket.socket | None = None
        self.address, self._transport = address, transport
        self._sent = 0
        self._renewed_at_s = float("inf")
        self._ranges: versions.Ranges | None = None
        self.round_trip_s = 0.0

    def __del__(self) -> None:
        self.close()

    def call(self, request: bytes, timeout_s: float) -> Answer:
        """Sends `request` with a correlation id of its own. Returns the answer without the size field that precedes
        the answer. If there is no connection, or the broker has closed it since the last request, connects first.

        Raises OSError if the broker cannot be reached, refuses the client, closes the connection, or is silent for
        `timeout_s` seconds and some round trips, or if what it sends is not the answer to this request. An error closes
        the connection, so that a late answer is never taken for the answer to a later request.
        """
        if time.monotonic() >= self._renewed_at_s:
            self.close()
        is_kept = self._socket is not None
        try:
            return self._call(request, timeout_s)
        except _Gone:
            if not is_kept:
                raise
        return self._call(request, timeout_s)  # brokers close idle connections (connections.max.idle.ms)

    def ranges(self, timeout_s: float) -> versions.Ranges:
        """Returns the versions of each request that the broker takes. It is asked once per connection."""
        if self._ranges is None or self._socket is None or time.monotonic() >= self._renewed_at_s:
            try:
                self._ranges = versions.asked_of(lambda request: self.call(request, timeout_s), self.address)
            except ConnectionError:
                self.close()
                raise
        return self._ranges

    def close(self) -> None:
        """Closes the connection, if there is one. The next `call` makes a new connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._ranges, self._renewed_at_s = None, None, float("inf")

    def _call(self, request: bytes, timeout_s: float) -> Answer:
        try:
            connection = self._socket or self._connect(timeout_s)
            connection.settimeout(timeout_s + ROUND_TRIPS * self.round_trip_s)
            return self._exchange(connection, request)
        except BaseException:
            self.close()
            raise

    def _connect(self, timeout_s: float) -> socket.socket:
        began_s = time.monotonic()
        patience_s = max(timeout_s, SECURED_S) if self._transport.is_secured else timeout_s
        connection = self._socket = socket.create_connection(self.address, timeout=patience_s)
        self.round_trip_s = time.monotonic() - began_s
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(patience_s + ROUND_TRIPS * self.round_trip_s)
        connection = self._socket = self._transport.secured(connection, self.address)
        if self._transport.uses_sasl:
            opened_s = time.monotonic()
            lifetime_s = self._transport.authenticate(lambda token: self._exchange(connection, token), self.address)
            self._renewed_at_s = opened_s + _RENEWED_AT * lifetime_s
        return connection

    def _exchange(self, connection: socket.socket, request: bytes) -> Answer:
        self._sent += 1
        correlation = struct.pack(">i", self._sent)
        request = request[: CORRELATION.start] + correlation + request[CORRELATION.stop :]
        try:
            connection.sendall(struct.pack(">i", len(request)) + request)
            head = _exactly(connection, 1)
        except (ConnectionError, ssl.SSLZeroReturnError, ssl.SSLEOFError) as error:
            raise _Gone(str(error)) from error
        (size,) = struct.unpack(">i", head + _exactly(connection, 3))
        answer = _exactly(connection, size)
        if answer[:4] != correlation:
            raise ConnectionError(f"the broker at {self.address} sent the answer to another request")
        return answer


class Channels:
    """A kept channel to each broker of `connection`, for each thread one of its own."""

    def __init__(self, connection: Connection) -> None:
        self._transport = Transport(connection.security)
        self._addresses = dict(connection.brokers)
        self._local = threading.local()

    def address(self, broker: int) -> Address:
        """Returns where `broker` is, as far as it is known."""
        return self._addresses[broker]

    def move(self, broker: int, address: Address) -> None:
        """Notes that `broker` is at `address` now: the next request of each thread goes there."""
        self._addresses[broker] = address

    def to(self, broker: int) -> Channel:
        """Returns this thread's channel to `broker`. A forked process has channels of its own, because two processes
        that share a connection would read each other's answers."""
        if getattr(self._local, "process", None) != os.getpid():
            self._local.process, self._local.channels = os.getpid(), {}
        channels: dict[int, Channel] = self._local.channels
        address = self.address(broker)
        if broker not in channels or channels[broker].address != address:
            channels[broker] = Channel(address, self._transport)
        return channels[broker]


class _Gone(ConnectionError):
    """The broker closed the connection before it began to answer."""


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
