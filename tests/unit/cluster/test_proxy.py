"""Tests of the proxy on real sockets, before a broker that only echoes. Without a rule, no byte is lost, changed or
reordered."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from msgspec.structs import replace
from support.patience import PATIENCE_S

from delivery_verifier.cluster.proxy.rules import ProxyRule
from delivery_verifier.cluster.proxy.server import AHEAD_BYTES, Proxy
from delivery_verifier.host.waiting import wait_until

METADATA = 3
HELD = ProxyRule(action="hold", brokers=(1,), direction="request", api="Metadata")
STALL = ProxyRule(action="stall", brokers=(1,), direction="begin", api="Metadata", count=1)
SIZE = 1_000_000
"""The size of a request of which the sockets take a part only."""


class Broker:
    """A broker that answers every request with the request's correlation id and body. `heard` are the correlation ids
    of the requests."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                body = stream.read(struct.unpack(">i", head)[0])
                self.heard.append(struct.unpack_from(">i", body, 4)[0])
                connection.sendall(struct.pack(">i", len(body) - 4) + body[4:])


class Stage:
    """A broker, a proxy before it, a thread that runs the proxy, and functions for clients and rules."""

    def __init__(self) -> None:
        self.broker, self.done = Broker(), threading.Event()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        self.proxy = Proxy({1: (self.port, self.broker.port)})
        self.orders: list[ProxyRule | None] = []
        self.thread = threading.Thread(target=self._turn, daemon=True)
        self.thread.start()

    def _turn(self) -> None:
        while not self.done.is_set():
            while self.orders:
                rule = self.orders.pop()
                self.proxy.release([1]) if rule is None else self.proxy.book.put(rule)
            self.proxy.turn(0.01)

    def order(self, rule: ProxyRule | None) -> None:
        self.orders.append(rule)
        wait_until(lambda: not self.orders, "the proxy to take the order", PATIENCE_S, every_s=0.01)

    def stalled_until(self) -> float:
        """Waits until a client is stalled. Returns until when it is (seconds, monotonic)."""
        seen: list[float] = []

        def is_stalled() -> bool:
            seen.extend(until for link in [*self.proxy.links] if (until := link.flows[0].stalled_until))
            return bool(seen)

        wait_until(is_stalled, "a client to be stalled", PATIENCE_S, every_s=0.001)
        return seen[0]

    def client(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.done.set()
    made.thread.join(PATIENCE_S)
    made.broker.listener.close()


def request(correlation: int, size: int = 0) -> bytes:
    body = struct.pack(">hhih", METADATA, 9, correlation, 1) + b"c" + correlation.to_bytes(4, "big") * (size // 4)
    return struct.pack(">i", len(body)) + body


def response(correlation: int, size: int = 0) -> bytes:
    body = request(correlation, size)[8:]
    return struct.pack(">i", len(body)) + body


def received(client: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count and (chunk := client.recv(1 << 20)):
        found += chunk
    return bytes(found)


def test_megabytes_pass_unchanged_also_when_nobody_reads_for_a_while(stage: Stage) -> None:
    sizes = [4 * (number * 7919 % 200_000) for number in range(150)]
    with stage.client() as client:
        sent = b"".join(request(number, size) for number, size in enumerate(sizes))
        writer = threading.Thread(target=client.sendall, args=(sent,))
        writer.start()
        wait_until(lambda: len(stage.broker.heard) > 10 or not writer.is_alive(), "answers to pile up", PATIENCE_S)
        wanted = b"".join(response(number, size) for number, size in enumerate(sizes))
        assert received(client, len(wanted)) == wanted
        writer.join(PATIENCE_S)
    assert len(wanted) > 50_000_000 and stage.broker.heard == list(range(150))


def test_what_was_held_is_delivered_in_order_though_its_client_is_gone(stage: Stage) -> None:
    stage.order(HELD)
    with stage.client() as client:
        client.sendall(request(1) + request(2) + request(3))
        wait_until(lambda: stage.proxy.book.hits(HELD), "the requests to be held", PATIENCE_S)
    wait_until(lambda: any(link.flows[0].ended for link in stage.proxy.links), "the hang-up to be noticed", PATIENCE_S)
    assert stage.broker.heard == []
    stage.order(None)
    wait_until(lambda: stage.broker.heard == [1, 2, 3], "all requests to arrive", PATIENCE_S)
    wait_until(lambda: not stage.proxy.links, "the link to end", PATIENCE_S)


def test_delayed_answers_come_when_they_are_due_without_anything_else_happening(stage: Stage) -> None:
    stage.order(ProxyRule(action="delay", brokers=(1,), api="Metadata", delay_ms=150))
    with stage.client() as client:
        client.sendall(request(1) + request(2))
        wanted = response(1) + response(2)
        assert received(client, len(wanted)) == wanted


def test_a_client_that_is_stalled_in_a_request_keeps_the_rest_until_the_stall_is_over(stage: Stage) -> None:
    rule = replace(STALL, delay_ms=2000)
    stage.order(rule)
    whole, answer = request(1, SIZE), response(1, SIZE)
    with stage.client() as client:
        writer = _writer(client, whole)
        until_s = stage.stalled_until()
        with stage.client() as other:
            other.sendall(request(2))
            assert received(other, len(response(2))) == response(2)
        if time.monotonic() < until_s:  # else the host stood still
            assert writer.is_alive() and stage.broker.heard == [2], "only the other connection passes"
        assert received(client, len(answer)) == answer
        assert time.monotonic() >= until_s
        writer.join(PATIENCE_S)
    assert stage.proxy.book.hits(rule) == {"1": {"c": 1}}


def test_a_release_ends_a_stall(stage: Stage) -> None:
    rule = replace(STALL, delay_ms=1000 * int(PATIENCE_S) * 10)
    stage.order(rule)
    with stage.client() as client:
        writer = _writer(client, request(1, SIZE))
        stage.stalled_until()
        assert stage.broker.heard == [] and stage.proxy.book.hits(rule) == {}
        stage.order(None)
        assert received(client, len(response(1, SIZE))) == response(1, SIZE)
        writer.join(PATIENCE_S)


@pytest.mark.parametrize(("size", "hits"), [(50_000, {}), (300_000, {"1": {"c": 1}})])
def test_a_stall_is_a_hit_unless_the_proxys_socket_takes_the_rest(
    stage: Stage, size: int, hits: dict[str, dict[str, int]]
) -> None:
    rule = replace(STALL, delay_ms=300)
    stage.order(rule)
    with stage.client() as client:
        writer = _writer(client, request(1, size))
        until_s = stage.stalled_until()
        sizes = {link.ends[0].stream.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for link in [*stage.proxy.links]}
        assert sizes == {2 * AHEAD_BYTES}, "Linux doubles it; without it, it grows with the traffic of a connection"
        assert received(client, len(response(1, size))) == response(1, size)
        assert time.monotonic() >= until_s
        writer.join(PATIENCE_S)
    assert stage.proxy.book.hits(rule) == hits


def _writer(client: socket.socket, data: bytes) -> threading.Thread:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 13)
    writer = threading.Thread(target=client.sendall, args=(data,), daemon=True)
    writer.start()
    return writer


def test_a_closed_connection_has_delivered_what_came_before(stage: Stage) -> None:
    stage.order(ProxyRule(action="close", brokers=(1,), api="Metadata", nth=2))
    with stage.client() as client:
        client.sendall(request(1) + request(2))
        assert received(client, 1000) == response(1)
    wait_until(lambda: not stage.proxy.links, "the link to end", PATIENCE_S)


def test_where_no_broker_listens_the_client_is_hung_up_on(stage: Stage) -> None:
    stage.broker.listener.shutdown(socket.SHUT_RDWR)
    stage.broker.listener.close()
    with stage.client() as client:
        with suppress(ConnectionResetError):
            assert client.recv(1) == b""
