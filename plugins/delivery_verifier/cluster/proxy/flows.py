"""One connection through the proxy: two directions of frames, each in order, each with the frames that wait.

This module has no sockets and no clock: bytes and times come in as arguments, and bytes go out.
"""

from __future__ import annotations

from collections import deque

from delivery_verifier.cluster.proxy.frames import Request, Splitter, correlation_of, request_of
from delivery_verifier.cluster.proxy.rules import Direction, ProxyRule, RuleBook
from delivery_verifier.model.errors import VerifierError

UNTIL_RELEASED = float("inf")
BUFFER_BYTES = 1 << 25
"""Bytes of one direction that the proxy buffers before the sender has to wait, as on any network."""


class Closed(VerifierError):
    """A rule closes this connection."""


class Flow:
    """One direction. `out`: the bytes to send now. `waiting`: the frames that are held or delayed, and all frames
    behind them, each with the time at which it is due. `ended`: the sender has ended."""

    def __init__(self) -> None:
        self.splitter, self.out, self.ended = Splitter(), bytearray(), False
        self.waiting: deque[tuple[float, bytes]] = deque()
        self.waiting_bytes = 0

    @property
    def full(self) -> bool:
        """Whether the sender has to wait."""
        return len(self.out) + self.waiting_bytes > BUFFER_BYTES

    @property
    def drained(self) -> bool:
        """Whether the sender has ended and everything that it sent is on its way."""
        return self.ended and not self.waiting and not self.out

    @property
    def due_at(self) -> float:
        """When the next waiting frame is to go out (seconds, monotonic); infinite if none waits."""
        return self.waiting[0][0] if self.waiting else UNTIL_RELEASED

    def put(self, frame: bytes, due_at: float = 0.0) -> None:
        """Sends the frame at `due_at` (seconds, monotonic), but not before any that came earlier."""
        if not due_at and not self.waiting:
            self.out += frame
        else:
            self.waiting.append((due_at, frame))
            self.waiting_bytes += len(frame)

    def advance(self, now: float) -> None:
        """Lets out the frames that are due at `now` (seconds, monotonic)."""
        while self.waiting and self.waiting[0][0] <= now:
            _, frame = self.waiting.popleft()
            self.waiting_bytes -= len(frame)
            self.out += frame

    def release(self) -> None:
        """Lets out every frame that waits."""
        self.waiting = deque((0.0, frame) for _, frame in self.waiting)
        self.advance(0.0)

    def discard(self) -> None:
        """Forgets everything: the receiver is gone."""
        self.out.clear()
        self.waiting.clear()
        self.waiting_bytes = 0


class Conversation:
    """A client's connection to one broker. A response is matched to its request by the correlation id."""

    def __init__(self, broker: int, book: RuleBook) -> None:
        self.broker, self._book = broker, book
        self.requests, self.responses = Flow(), Flow()
        self._open: dict[int, Request] = {}

    def from_client(self, data: bytes, now: float) -> None:
        """Takes in what the client sent. Raises NotKafka, Closed."""
        for frame in self.requests.splitter.feed(data):
            request = request_of(frame)
            rule = self._decide("request", request)
            if rule is None or rule.action != "drop":
                if request.answered:
                    self._open[request.correlation] = request
                self._pass(self.requests, frame, rule, now)

    def from_broker(self, data: bytes, now: float) -> None:
        """Takes in what the broker sent. Raises NotKafka, Closed."""
        for frame in self.responses.splitter.feed(data):
            request = self._open.pop(correlation_of(frame), None)
            rule = None if request is None else self._decide("response", request)
            if rule is None or rule.action != "drop":
                self._pass(self.responses, frame, rule, now)

    def _decide(self, direction: Direction, request: Request) -> ProxyRule | None:
        return self._book.decide(direction, request.api, request.client, self.broker)

    def _pass(self, flow: Flow, frame: bytes, rule: ProxyRule | None, now: float) -> None:
        if rule is None:
            flow.put(frame)
        elif rule.action == "close":
            raise Closed
        else:
            flow.put(frame, UNTIL_RELEASED if rule.action == "hold" else now + rule.delay_ms / 1000)
