"""The proxy before every broker: forwards Kafka's frames, and does to some of them what its rules say.

A process of its own, owned by the keeper. Brokers advertise it on their listener PROXIED only, so that proxied and
direct clients coexist. Protocol: one JSON object per line on a Unix socket in the workspace (see `lease.call`): `put` a
rule, ask for its `hits`, `release` brokers.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.layout import PROXY_SOCKET, ClusterLayout
from delivery_verifier.cluster.proxy.flows import UNTIL_RELEASED, Closed, Conversation, Flow
from delivery_verifier.cluster.proxy.frames import NotKafka
from delivery_verifier.cluster.proxy.rules import RuleBook, rule_of

CHUNK = 1 << 18
ASKED_S = 2.0
"""Whoever asks something has said it by then."""


class _End:
    """One socket of a link: what comes out of it, and what goes into it."""

    def __init__(
        self, stream: socket.socket, incoming: Flow, outgoing: Flow, take: Callable[[bytes, float], None]
    ) -> None:
        self.stream, self.incoming, self.outgoing, self._take = stream, incoming, outgoing, take
        self.mask, self._told = 0, False
        stream.setblocking(False)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def wanted(self) -> int:
        """What to wait for."""
        reading = not self.incoming.ended and not self.incoming.full
        return reading * selectors.EVENT_READ | bool(self.outgoing.out) * selectors.EVENT_WRITE

    def read(self) -> None:
        """Takes in what there is. Raises NotKafka, Closed."""
        if self.incoming.full:
            return
        try:
            data = self.stream.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._take(data, time.monotonic())
        else:
            self.incoming.ended = True

    def write(self) -> None:
        """Sends what goes now. Who has ended, in whatever way, takes nothing any more: no client of Kafka
        half-closes."""
        try:
            if self.outgoing.out and not self.incoming.ended:
                del self.outgoing.out[: self.stream.send(self.outgoing.out)]
            if self.outgoing.drained and not self._told:
                self._told = True
                self.stream.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return
        except OSError:
            self.incoming.ended = True
        if self.incoming.ended:
            self.outgoing.discard()


class _Link:
    """A client's connection and its continuation to the broker. What a client sent before it hung up still arrives."""

    def __init__(self, client: socket.socket, port: int, broker: int, book: RuleBook) -> None:
        talk, upstream = Conversation(broker, book), socket.socket()
        self.broker = broker
        self.flows = (talk.requests, talk.responses)
        self.ends = (
            _End(client, talk.requests, talk.responses, talk.from_client),
            _End(upstream, talk.responses, talk.requests, talk.from_broker),
        )
        upstream.connect_ex(("127.0.0.1", port))  # that a broker does not listen shows at the first read

    @property
    def over(self) -> bool:
        """Whether the broker has ended and all it said is on its way."""
        return self.flows[1].drained

    @property
    def due_at(self) -> float:
        """When the next frame of it is to go out that waits; infinite if none."""
        return min(flow.due_at for flow in self.flows)

    def release(self) -> None:
        """Nothing is kept back any longer."""
        for flow in self.flows:
            flow.release()

    def advance(self, now: float) -> None:
        """Moves on what is due."""
        for flow in self.flows:
            flow.advance(now)
        for end in self.ends:
            end.write()


class Proxy:
    """All links to all brokers, in one thread. `ports` are (where it listens, where the broker does) by broker id."""

    def __init__(self, ports: dict[int, tuple[int, int]]) -> None:
        self.selector, self.book = selectors.DefaultSelector(), RuleBook()
        self.links: set[_Link] = set()
        self._touched: set[_Link] = set()
        self._waiting: set[_Link] = set()
        for broker, (listening, port) in ports.items():
            listener = socket.create_server(("127.0.0.1", listening), backlog=128)
            listener.setblocking(False)
            self.selector.register(listener, selectors.EVENT_READ, partial(self._accept, listener, port, broker))

    def serve(self, orders: socket.socket) -> None:
        """Serves links, and the orders that come over `orders`, until the process ends."""
        self.selector.register(orders, selectors.EVENT_READ, partial(self._obey, orders))
        while True:
            self.turn()

    def turn(self, patience_s: float | None = None) -> None:
        """Waits for something to do, at most so long, and does it."""
        due_at = min((link.due_at for link in self._waiting), default=UNTIL_RELEASED)
        if due_at != UNTIL_RELEASED:
            patience_s = max(0.0, due_at - time.monotonic())
        for key, _ in self.selector.select(patience_s):
            key.data()
        now = time.monotonic()
        self._touched |= {link for link in self._waiting if link.due_at <= now}
        while self._touched:
            self._settle(self._touched.pop(), now)

    def _accept(self, listener: socket.socket, port: int, broker: int) -> None:
        try:
            client, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # it hung up before it was let in
        link = _Link(client, port, broker, self.book)
        self.links.add(link)
        self._touched.add(link)

    def _read(self, link: _Link, end: _End) -> None:
        if link not in self.links:
            return  # closed by what came in at its other end just now
        self._touched.add(link)
        try:
            end.read()
        except Closed:
            link.advance(time.monotonic())  # what came before goes out
            self._close(link)
        except NotKafka as error:
            print(f"proxy: closes a connection: {error}", flush=True)
            self._close(link)

    def _settle(self, link: _Link, now: float) -> None:
        """Sends what can go, and waits for what can come next."""
        if link not in self.links:
            return
        link.advance(now)
        if link.over:
            self._close(link)
            return
        for end in link.ends:
            if end.wanted == end.mask:
                continue
            if not end.mask:
                self.selector.register(end.stream, end.wanted, partial(self._read, link, end))
            elif end.wanted:
                self.selector.modify(end.stream, end.wanted, partial(self._read, link, end))
            else:
                self.selector.unregister(end.stream)
            end.mask = end.wanted
        if link.due_at != UNTIL_RELEASED:
            self._waiting.add(link)
        else:
            self._waiting.discard(link)

    def _close(self, link: _Link) -> None:
        self.links.discard(link)
        self._waiting.discard(link)
        for end in link.ends:
            if end.mask:
                self.selector.unregister(end.stream)
            end.stream.close()

    # ---- orders: each takes and returns JSON values ----

    def _obey(self, orders: socket.socket) -> None:
        connection, _ = orders.accept()
        with connection:
            connection.settimeout(ASKED_S)
            try:
                with connection.makefile("r") as stream:
                    asked = json.loads(stream.readline())
                answer = self._order(asked.pop("operation"), asked)
            except (OSError, ValueError, KeyError, TypeError) as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            try:
                connection.sendall(json.dumps(answer).encode() + b"\n")
            except OSError:
                print("proxy: the caller hung up before the answer", flush=True)

    def _order(self, operation: str, asked: dict[str, Any]) -> dict[str, Any]:
        if operation == "put":
            self.book.put(rule_of(asked["rule"]))
            return {}
        if operation == "hits":
            return {"hits": self.book.hits(rule_of(asked["rule"]))}
        if operation == "release":
            return self.release(asked["brokers"])
        raise ValueError(f"unknown operation {operation!r}")

    def release(self, brokers: list[int]) -> dict[str, Any]:
        """Ends every rule at `brokers`; what was held back there goes out, in order."""
        self.book.release(brokers)
        for link in self.links:
            if link.broker in brokers:
                link.release()
                self._touched.add(link)
        return {}


def main() -> None:
    """`python -m delivery_verifier.cluster.proxy.server ORDERS`: ORDERS is the keeper's JSON file."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    layout = msgspec.convert(spec["layout"], ClusterLayout, strict=False)
    proxy = Proxy({broker: (layout.proxy_ports[broker], layout.proxied_ports[broker]) for broker in layout.proxy_ports})
    with lease.listening(Path(layout.workspace) / PROXY_SOCKET) as orders:
        proxy.serve(orders)


if __name__ == "__main__":
    main()
