"""The process of the proxy between the producers under test and the brokers. The proxy forwards Kafka's frames (one
request or response each), and applies its rules to some of the frames.

The cluster agent starts the proxy. Brokers advertise the proxy's addresses only on their listener PROXIED, so that
clients can also connect directly. The proxy takes these control requests on a Unix socket in the workspace (see
`lease.call`):

* `put` puts a rule in force.
* `hits` returns how often a rule acted.
* `late_ends` returns the EndTxn requests that a rule made late.
* `release` removes brokers from all rules, ends the stalls of their clients, and sends all frames that wait on
  connections to these brokers.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.layout import HOST, PROXY_SOCKET, ClusterLayout
from delivery_verifier.cluster.proxy.flows import UNTIL_RELEASED, Closed
from delivery_verifier.cluster.proxy.frames import NotKafka
from delivery_verifier.cluster.proxy.links import Link, LinkEnd
from delivery_verifier.cluster.proxy.rules import RuleBook, rule_of

REQUEST_S = 2.0
"""Seconds that a control request may take to arrive. The time is short, because the proxy forwards no frame
meanwhile."""

AHEAD_BYTES = 1 << 16
"""What the system may receive from a client ahead of the reads (SO_RCVBUF): so little that a client which is stalled in
a long request keeps a part of it, and more than two segments of a loopback connection. It is set before a connection is
there, because a window that shrinks later makes the connection slow."""


class Proxy:
    """Serves the links (see `proxy.links`) to all brokers, in one thread. `book` holds the rules in force.

    `ports` maps each broker id to two ports. At the first port, the proxy accepts the connections of clients. At the
    second port, the broker accepts the connections of the proxy.
    """

    def __init__(self, ports: dict[int, tuple[int, int]]) -> None:
        self.selector, self.book = selectors.DefaultSelector(), RuleBook()
        self.links: set[Link] = set()
        self._touched: set[Link] = set()
        self._waiting: set[Link] = set()
        for broker, (listening, port) in ports.items():
            listener = socket.create_server((HOST, listening), backlog=128)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, AHEAD_BYTES)  # its connections inherit it
            listener.setblocking(False)
            self.selector.register(
                listener, selectors.EVENT_READ, partial(self._accept, listener, Address(HOST, port), broker)
            )

    def serve(self, control: socket.socket) -> None:
        """Serves all links, and the control requests that arrive at the socket `control`, until the process ends."""
        self.selector.register(
            control,
            selectors.EVENT_READ,
            partial(lease.answer, control, self.carry_out, server="proxy", timeout_s=REQUEST_S),
        )
        while True:
            self.turn()

    def turn(self, patience_s: float | None = None) -> None:
        """Waits for events at the sockets, and handles the events. Waits at most until the next waiting frame is due or
        the next stall is over, and at most `patience_s` seconds (None: no limit)."""
        due_at = min((link.due_at for link in self._waiting), default=UNTIL_RELEASED)
        if due_at != UNTIL_RELEASED:
            left_s = max(0.0, due_at - time.monotonic())
            patience_s = left_s if patience_s is None else min(patience_s, left_s)
        for key, _ in self.selector.select(patience_s):
            key.data()
        now = time.monotonic()
        self._touched |= {link for link in self._waiting if link.due_at <= now}
        while self._touched:
            self._settle(self._touched.pop(), now)

    def _accept(self, listener: socket.socket, upstream: Address, broker: int) -> None:
        try:
            client, _ = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # the client hung up before the proxy accepted the connection
        link = Link(client, upstream, broker, self.book)
        self.links.add(link)
        self._touched.add(link)

    def _read(self, link: Link, end: LinkEnd) -> None:
        """Reads from one end of a link. Closes the link if a rule closes the connection, or if the bytes are not
        Kafka's protocol."""
        if link not in self.links:
            return  # an event at the other end of the link has just closed the link
        self._touched.add(link)
        try:
            end.read()
        except Closed:
            link.advance(time.monotonic())  # earlier frames still go out
            self._close(link)
        except NotKafka as error:
            print(f"proxy: closes a connection: {error}", flush=True)
            self._close(link)

    def _settle(self, link: Link, now: float) -> None:
        if link not in self.links:
            return
        link.advance(now)
        if link.over:
            self._close(link)
            return
        for end in link.ends:
            if end.events == end.registered_events:
                continue
            if not end.registered_events:
                self.selector.register(end.stream, end.events, partial(self._read, link, end))
            elif end.events:
                self.selector.modify(end.stream, end.events, partial(self._read, link, end))
            else:
                self.selector.unregister(end.stream)
            end.registered_events = end.events
        if link.due_at != UNTIL_RELEASED:
            self._waiting.add(link)
        else:
            self._waiting.discard(link)

    def _close(self, link: Link) -> None:
        self.links.discard(link)
        self._waiting.discard(link)
        for end in link.ends:
            if end.registered_events:
                self.selector.unregister(end.stream)
            end.stream.close()

    def carry_out(self, operation: str, arguments: Mapping[str, Any]) -> object:
        """Carries out one control request, and returns the result.

        Raises ValueError if the operation is unknown or a rule is not accepted, and KeyError if an argument is missing.
        """
        if operation == "put":
            self.book.put(rule_of(arguments["rule"]))
            return None
        if operation == "hits":
            return self.book.hits(rule_of(arguments["rule"]))
        if operation == "late_ends":
            return msgspec.to_builtins(self.book.late_ends(rule_of(arguments["rule"])), str_keys=True)
        if operation == "release":
            self.release(arguments["brokers"])
            return None
        raise ValueError(f"unknown operation {operation!r}")

    def release(self, brokers: list[int]) -> None:
        """Removes `brokers` from all rules in force, and ends the stalls of their clients. Sends all frames that wait,
        in order."""
        self.book.release(brokers)
        for link in self.links:
            if link.broker in brokers:
                link.release()
                self._touched.add(link)


def main() -> None:
    """Runs the proxy: `python -m delivery_verifier.cluster.proxy.server SPEC`. SPEC is the path of a JSON file with the
    inputs of the cluster agent (see `embedded.backend.EmbeddedAgentSpec`)."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    layout = msgspec.convert(spec["layout"], ClusterLayout, strict=False)
    proxy = Proxy({broker: (layout.proxy_ports[broker], layout.proxied_ports[broker]) for broker in layout.proxy_ports})
    with lease.listening(Path(layout.workspace) / PROXY_SOCKET) as control:
        proxy.serve(control)


if __name__ == "__main__":
    main()
