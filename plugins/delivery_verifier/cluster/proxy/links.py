"""A link of the proxy. A link has two sockets: one for the client's connection to the proxy, and one for the proxy's
connection to the broker."""

from __future__ import annotations

import fcntl
import selectors
import socket
import sys
import termios
import time
from collections.abc import Callable

from delivery_verifier.cluster.connection import Address
from delivery_verifier.cluster.proxy.flows import Conversation, Flow
from delivery_verifier.cluster.proxy.rules import RuleBook

CHUNK = 1 << 18
"""The most bytes that one read returns."""
SIP = 1 << 12
"""The most bytes that one read returns from a client that may be stalled: few, so that most of a request is still at
the client when its begin is read."""


class LinkEnd:
    """One of the two sockets of a `Link`.

    * `stream`: the socket.
    * `incoming`: the direction whose bytes are read from the socket.
    * `outgoing`: the direction whose bytes are written to the socket.
    * `take`: a function that is called with the bytes that were read, and with the time (seconds, monotonic).
    * `may_stall`: a function that returns whether a rule may stall the peer in the middle of a frame.
    * `registered_events`: the events for which the proxy now waits at the socket.
    """

    def __init__(
        self,
        stream: socket.socket,
        incoming: Flow,
        outgoing: Flow,
        take: Callable[[bytes, float], None],
        may_stall: Callable[[], bool] = lambda: False,
    ) -> None:
        self.stream, self.incoming, self.outgoing, self._take = stream, incoming, outgoing, take
        self._may_stall = may_stall
        self.registered_events, self._write_side_shut = 0, False
        stream.setblocking(False)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def events(self) -> int:
        """The events for which the proxy should wait at this socket, as a bit mask of `selectors`. 0: no events."""
        events = 0
        if not self.incoming.ended and not self._must_wait:
            events |= selectors.EVENT_READ
        if self.outgoing.out:
            events |= selectors.EVENT_WRITE
        return events

    @property
    def _must_wait(self) -> bool:
        """Whether the peer has to wait, because the buffer of `incoming` is full or a rule stalls the peer."""
        return self.incoming.full or self.incoming.stalled_until > 0

    @property
    def unread_bytes(self) -> int:
        """How many bytes have come from the peer and were not read yet."""
        return int.from_bytes(fcntl.ioctl(self.stream, termios.FIONREAD, bytes(4)), sys.byteorder)

    def read(self) -> None:
        """Reads the bytes that have arrived. Reads nothing while the peer has to wait.

        Raises NotKafka if the bytes are not Kafka's protocol, and Closed if a rule closes the connection.
        """
        if self._must_wait:
            return
        try:
            data = self.stream.recv(SIP if self._may_stall() else CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._take(data, time.monotonic())
        else:
            self.incoming.ended = True

    def write(self) -> None:
        """Sends as many bytes of `outgoing` as the socket accepts.

        If the peer (the client or the broker at this socket) has closed its side of the connection, drops the bytes
        instead. Such a peer no longer reads, because every Kafka client closes both sides at once.
        """
        try:
            if self.outgoing.out and not self.incoming.ended:
                del self.outgoing.out[: self.stream.send(self.outgoing.out)]
            if self.outgoing.drained and not self._write_side_shut:
                self._write_side_shut = True
                self.stream.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return
        except OSError:
            # What a client that must wait has sent is still to be read; the end comes behind it.
            self.incoming.ended = self.incoming.ended or not self._must_wait
            self.outgoing.discard()
        if self.incoming.ended:
            self.outgoing.discard()


class Link:
    """A client's connection to the proxy, and the proxy's connection to the broker at `upstream`. `book` holds the
    rules.

    If the client hangs up, the broker still gets all requests that the client sent before and that no rule drops.
    """

    def __init__(self, client: socket.socket, upstream: Address, broker: int, book: RuleBook) -> None:
        conversation, stream = Conversation(broker, book), socket.socket()
        self.broker = broker
        self.flows = (conversation.requests, conversation.responses)
        self._conversation = conversation
        self.ends = (
            LinkEnd(
                client,
                conversation.requests,
                conversation.responses,
                conversation.from_client,
                lambda: book.stalls(broker),
            ),
            LinkEnd(stream, conversation.responses, conversation.requests, conversation.from_broker),
        )
        stream.connect_ex(upstream)  # if the broker does not listen, the first read fails

    @property
    def over(self) -> bool:
        """Whether the broker has ended the connection, and no bytes are left to send to the client."""
        return self.flows[1].drained

    @property
    def due_at(self) -> float:
        """The time (seconds, monotonic) at which the next waiting frame of either direction is due, or at which a
        stalled client is read again."""
        return min(flow.due_at for flow in self.flows)

    def release(self) -> None:
        """Makes every waiting frame due now, even if a rule holds or delays the frame. Stalls the client no longer. The
        next `advance` sends the frames."""
        for flow in self.flows:
            flow.release()

    def advance(self, now: float) -> None:
        """Sends the frames that are due at `now` (seconds, monotonic). Also sends the bytes that the sockets did not
        accept earlier. Ends a stall that is over at `now`."""
        if 0 < self.flows[0].stalled_until <= now:
            self._conversation.end_stall(self.ends[0].unread_bytes)
        for flow in self.flows:
            flow.advance(now)
        for end in self.ends:
            end.write()
