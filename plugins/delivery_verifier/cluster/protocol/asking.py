"""Asks one broker: over a kept connection, in a version that the broker takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.protocol import versions
from delivery_verifier.cluster.protocol.channels import Channel, Channels
from delivery_verifier.cluster.protocol.messages import Answer, decoded, encoded, unreadable
from delivery_verifier.model.errors import VerifierError

ANSWER_S = 5.0
"""Seconds to wait for an answer that nobody polls for."""
WHERE_S = 0.5
"""Seconds to wait for the answer where a broker is."""
_Read = TypeVar("_Read")
_Done = TypeVar("_Done")


class Asking:
    """Sends requests to the broker that the caller names by its id, over a kept connection for each thread, in a
    version that the broker takes. Follows a broker that has moved (see `Connection.may_move`)."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._channels = connection, Channels(connection)
        self._turns: dict[int, int] = {}

    def takes(self, broker: int, name: str) -> bool:
        """Returns whether `broker` knows the request `name` in a version that is spoken here. Raises OSError if it does
        not answer."""
        return versions.takes(name, self._ranges(broker, ANSWER_S))

    def round_trip_s(self, broker: int) -> float:
        """Returns how long a round trip to `broker` took when this thread's connection was made, in seconds. 0: there
        is no connection yet."""
        return self._channels.to(broker).round_trip_s

    def ask(self, broker: int, name: str, timeout_s: float, **fields: object) -> Any:
        """Returns the answer of `broker` to the request `name`, with its fields as attributes (see
        `messages.encoded`).

        Raises OSError if the broker does not answer in time, or gives an answer that cannot be read, and NotSpoken if
        it takes no version that is spoken here.
        """
        version, address = self._version(broker, name, timeout_s), self._channels.address(broker)
        answer = self._call(broker, encoded(name, version, **fields), timeout_s)
        return self._read(broker, lambda: decoded(name, version, answer, address))

    def _version(self, broker: int, name: str, timeout_s: float) -> int:
        return versions.agreed(name, self._ranges(broker, timeout_s), self._channels.address(broker))

    def _ranges(self, broker: int, timeout_s: float) -> versions.Ranges:
        return self._where_it_is(broker, lambda: ranges(self._channels.to(broker), timeout_s))

    def _call(self, broker: int, request: bytes, timeout_s: float) -> Answer:
        return self._where_it_is(broker, lambda: call(self._channels.to(broker), request, timeout_s))

    def _where_it_is(self, broker: int, work: Callable[[], _Done]) -> _Done:
        """Returns `work()`. If `broker` cannot be reached and has moved, does the work once more, where it is now."""
        try:
            return work()
        except OSError:
            if not self._connection.may_move or not self._has_moved(broker):
                raise
        return work()

    def _has_moved(self, broker: int) -> bool:
        """Asks one other broker where `broker` is, the next time another one: several may be silent, and whoever asks
        has little time. Returns whether it is somewhere else than before."""
        others = [each for each in sorted(self._connection.brokers) if each != broker]
        if not others:
            return False
        self._turns[broker] = turn = self._turns.get(broker, -1) + 1
        address = self._address_by(others[turn % len(others)], broker)
        if address is None or address == self._channels.address(broker):
            return False
        self._channels.move(broker, address)
        return True

    def _address_by(self, other: int, broker: int) -> Address | None:
        """Returns where `broker` is, as `other` knows it. None: `other` does not say, for whatever reason."""
        channel = self._channels.to(other)
        try:
            version = versions.agreed("Metadata", ranges(channel, WHERE_S), channel.address)
            request = encoded("Metadata", version, topics=[], allow_auto_topic_creation=False)
            known = decoded("Metadata", version, call(channel, request, WHERE_S), channel.address).brokers or ()
        except (OSError, VerifierError, ValueError):  # the caller raises the error of `broker`, never that of another
            channel.close()
            return None
        return next((Address(each.host, each.port) for each in known if each.node_id == broker), None)

    def _read(self, broker: int, read: Callable[[], _Read]) -> _Read:
        """Returns `read()`. Closes the connection if the answer cannot be read, because it is not known where the next
        one begins."""
        try:
            return read()
        except ConnectionError:
            self._channels.to(broker).close()
            raise

    def _unreadable(self, broker: int, why: str) -> ConnectionError:
        return unreadable(self._channels.address(broker), why)


def call(channel: Channel, request: bytes, timeout_s: float) -> Answer:
    """Sends `request` over `channel`. Returns and raises what `Channel.call` does."""
    return channel.call(request, timeout_s)


def ranges(channel: Channel, timeout_s: float) -> versions.Ranges:
    """Returns the versions of each request that the broker at the other end of `channel` takes."""
    return channel.ranges(timeout_s)
