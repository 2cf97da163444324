"""One connection through the proxy. The connection has two directions. Each direction passes on frames (one request or
response each, see `proxy.frames`) in order, and keeps the frames that have to wait.

This module uses no sockets and no clock. Its functions take bytes and times as arguments, and return or store the bytes
to send.
"""

from __future__ import annotations

from collections import deque

from delivery_verifier.cluster.proxy.frames import (
    Request,
    Splitter,
    TransactionEnd,
    correlation_of,
    error_of_transaction_end,
    request_of,
    transaction_end_of,
)
from delivery_verifier.cluster.proxy.rules import BEGIN_BYTES, LONG_BYTES, Direction, LateEnd, ProxyRule, RuleBook
from delivery_verifier.model.errors import VerifierError

UNTIL_RELEASED = float("inf")
"""The due time of a frame that a rule holds. The time is infinite, because such a frame waits until `Flow.release` is
called."""
BUFFER_BYTES = 1 << 25
"""The size of the proxy's buffer for one direction, in bytes. If the buffer is full, the proxy reads no more, and the
sender has to wait."""


class Closed(VerifierError):
    """A rule of the proxy says that the connection must be closed."""


class Flow:
    """One direction of a connection. A frame is one request or one response.

    * `splitter`: cuts the sender's bytes into frames.
    * `out`: the bytes that can be sent to the receiver now.
    * `waiting`: the frames that wait, each with the time at which the frame is due. A frame waits if a rule holds or
      delays the frame, or if an earlier frame waits.
    * `ended`: whether the sender has closed its side of the connection.
    * `stalled_until`: until when a rule stalls the sender (seconds, monotonic; 0: no rule does). Until then, nothing is
      read from it.
    """

    def __init__(self) -> None:
        self.splitter, self.out, self.ended = Splitter(), bytearray(), False
        self.waiting: deque[tuple[float, bytes]] = deque()
        self.waiting_bytes, self.stalled_until = 0, 0.0

    @property
    def full(self) -> bool:
        """Whether the buffer is full, so that the sender has to wait."""
        return len(self.out) + self.waiting_bytes > BUFFER_BYTES

    @property
    def drained(self) -> bool:
        """Whether the sender has closed its side of the connection, and no bytes are left to send to the receiver."""
        return self.ended and not self.waiting and not self.out

    @property
    def due_at(self) -> float:
        """The time (seconds, monotonic) at which the next waiting frame is due, or at which a stalled sender is read
        again, whichever is earlier. The time is infinite if neither waits, or if a rule holds the next frame."""
        return min(self.waiting[0][0] if self.waiting else UNTIL_RELEASED, self.stalled_until or UNTIL_RELEASED)

    def put(self, frame: bytes, due_at: float = 0.0) -> None:
        """Queues a frame. The frame is sent at `due_at` (seconds, monotonic; 0: at once), but never before an earlier
        frame."""
        if not due_at and not self.waiting:
            self.out += frame
        else:
            self.waiting.append((due_at, frame))
            self.waiting_bytes += len(frame)

    def advance(self, now: float) -> None:
        """Moves waiting frames that are due at `now` (seconds, monotonic) to `out`. Stops at the first frame that is
        not due."""
        while self.waiting and self.waiting[0][0] <= now:
            _, frame = self.waiting.popleft()
            self.waiting_bytes -= len(frame)
            self.out += frame

    def release(self) -> None:
        """Moves every waiting frame to `out`, and stalls the sender no longer."""
        self.stalled_until = 0.0
        self.waiting = deque((0.0, frame) for _, frame in self.waiting)
        self.advance(0.0)

    def discard(self) -> None:
        """Drops all bytes and frames, because the receiver is gone."""
        self.out.clear()
        self.waiting.clear()
        self.waiting_bytes = 0


class Conversation:
    """A client's connection to the broker with the id `broker`. The rules in `book` act on the requests and responses
    of this connection.

    A rule acts on responses of one API, but a response does not name its API. So this class remembers each request by
    its correlation id until the response with this id arrives. This class also notes in `book` what becomes of an
    EndTxn request that a rule holds or delays (see LateEnd).
    """

    def __init__(self, broker: int, book: RuleBook) -> None:
        self.broker, self._book = broker, book
        self.requests, self.responses = Flow(), Flow()
        self._open: dict[int, Request] = {}
        self._late_ends: dict[int, tuple[LateEnd, TransactionEnd]] = {}
        self._is_begun = False
        self._stalled: tuple[ProxyRule, str] | None = None

    def from_client(self, data: bytes, now: float) -> None:
        """Takes in bytes that the client sent, and applies the rules to each complete request. `now` is the monotonic
        time in seconds.

        Raises NotKafka if the bytes are not Kafka's protocol, and Closed if a rule closes the connection.
        """
        for frame in self.requests.splitter.feed(data):
            request = request_of(frame)
            if not self._late_ends:  # a later request on the connection of a late request overtakes nothing
                self._book.note_overtaking(request.api, request.client, self.broker)
            rule = self._decide("request", request)
            if rule is not None and rule.action in ("hold", "delay"):
                self._note_late_end(frame, request, rule, now)
            if rule is None or rule.action != "drop":
                if request.answered:
                    self._open[request.correlation] = request
                self._pass(self.requests, frame, rule, now)
            self._is_begun = False
        self._begin(now)

    def from_broker(self, data: bytes, now: float) -> None:
        """Takes in bytes that the broker sent, and applies the rules to each complete response. `now` is the monotonic
        time in seconds.

        Raises NotKafka if the bytes are not Kafka's protocol, and Closed if a rule closes the connection.
        """
        for frame in self.responses.splitter.feed(data):
            if known := self._late_ends.pop(correlation_of(frame), None):
                late, end = known
                late.answer(error_of_transaction_end(frame, end.is_flexible), now)
            request = self._open.pop(correlation_of(frame), None)
            rule = None if request is None else self._decide("response", request)
            if rule is None or rule.action != "drop":
                self._pass(self.responses, frame, rule, now)

    def _begin(self, now: float) -> None:
        """Applies the rules to the begin of the request of which only a part is there. Does so once per request."""
        splitter = self.requests.splitter
        if self._is_begun or len(splitter.rest) < BEGIN_BYTES:
            return
        self._is_begun = True
        if not self._book.stalls(self.broker) or len(splitter.rest) + splitter.missing < LONG_BYTES:
            return
        request = request_of(bytes(splitter.rest))
        if rule := self._decide("begin", request):
            self._stalled = rule, request.client
            self.requests.stalled_until = now + rule.delay_ms / 1000

    def end_stall(self, unread_bytes: int) -> None:
        """Ends a stall that has run out. `unread_bytes` have come from the client, and are still to be read. The stall
        is a hit only if they are not the whole rest of the request."""
        if self._stalled and unread_bytes < self.requests.splitter.missing:
            self._book.note_stall(*self._stalled, self.broker)
        self._stalled, self.requests.stalled_until = None, 0.0

    def _decide(self, direction: Direction, request: Request) -> ProxyRule | None:
        return self._book.decide(direction, request.api, request.client, self.broker)

    def _note_late_end(self, frame: bytes, request: Request, rule: ProxyRule, now: float) -> None:
        if end := transaction_end_of(frame):
            late = LateEnd(
                client=request.client,
                broker=self.broker,
                transactional_id=end.transactional_id,
                is_commit=end.is_commit,
                came_at=now,
            )
            self._late_ends[request.correlation] = late, end
            self._book.note(rule, late)

    def _pass(self, flow: Flow, frame: bytes, rule: ProxyRule | None, now: float) -> None:
        """Puts a frame into `flow`, with the time at which the frame is due. Without a rule, the frame is due at once.

        A rule that holds or delays the frame makes it due later. Raises Closed if the rule closes the connection.
        """
        if rule is None:
            flow.put(frame)
        elif rule.action == "close":
            raise Closed
        else:
            flow.put(frame, UNTIL_RELEASED if rule.action == "hold" else now + rule.delay_ms / 1000)
