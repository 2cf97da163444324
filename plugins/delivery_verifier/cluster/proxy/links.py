"""A link of the proxy: the sockets of one client's connection and of its continuation to the broker."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.proxy.flows import Conversation, Flow
from delivery_verifier.cluster.proxy.rules import RuleBook

CHUNK = 1 << 18
"""Bytes that are read at once."""


class LinkEnd:
    """One socket of a link. `incoming`: what was read from the socket. `outgoing`: what is to be written to it. `take`
    is called with the bytes read and the time."""

    def __init__(
        self, stream: socket.socket, incoming: Flow, outgoing: Flow, take: Callable[[bytes, float], None]
    ) -> None:
        self.stream, self.incoming, self.outgoing, self._take = stream, incoming, outgoing, take
        self.registered_events, self._write_side_shut = 0, False
        stream.setblocking(False)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def events(self) -> int:
        """The events of the socket to wait for, as `selectors` counts them; 0: none."""
        events = 0
        if not self.incoming.ended and not self.incoming.full:
            events |= selectors.EVENT_READ
        if self.outgoing.out:
            events |= selectors.EVENT_WRITE
        return events

    def read(self) -> None:
        """Reads what has arrived. Raises NotKafka, Closed."""
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
        """Sends as much as the socket accepts. Nothing is sent to a peer that has ended its own side: no client of
        Kafka half-closes its connection."""
        try:
            if self.outgoing.out and not self.incoming.ended:
                del self.outgoing.out[: self.stream.send(self.outgoing.out)]
            if self.outgoing.drained and not self._write_side_shut:
                self._write_side_shut = True
                self.stream.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return
        except OSError:
            self.incoming.ended = True
        if self.incoming.ended:
            self.outgoing.discard()


class Link:
    """A client's connection and its continuation to the broker. What a client sent before it hung up still arrives."""

    def __init__(self, client: socket.socket, upstream: Address, broker: int, book: RuleBook) -> None:
        conversation, stream = Conversation(broker, book), socket.socket()
        self.broker = broker
        self.flows = (conversation.requests, conversation.responses)
        self.ends = (
            LinkEnd(client, conversation.requests, conversation.responses, conversation.from_client),
            LinkEnd(stream, conversation.responses, conversation.requests, conversation.from_broker),
        )
        stream.connect_ex(upstream)  # if the broker does not listen, the first read shows it

    @property
    def over(self) -> bool:
        """Whether the broker has ended the connection and everything that it sent is on its way."""
        return self.flows[1].drained

    @property
    def due_at(self) -> float:
        """When the next waiting frame is to go out (seconds, monotonic); infinite if none waits."""
        return min(flow.due_at for flow in self.flows)

    def release(self) -> None:
        """Lets out everything that is held or delayed."""
        for flow in self.flows:
            flow.release()

    def advance(self, now: float) -> None:
        """Sends what is due at `now` (seconds, monotonic)."""
        for flow in self.flows:
            flow.advance(now)
        for end in self.ends:
            end.write()
