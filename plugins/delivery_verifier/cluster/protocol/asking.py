"""Asks one broker: over a kept connection, in a version that the broker takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.protocol import versions
from delivery_verifier.cluster.protocol.channels import Channel, Channels
from delivery_verifier.cluster.protocol.messages import Answer, decoded, encoded, unreadable

ANSWER_S = 5.0
"""Seconds to wait for an answer that nobody polls for."""
_Read = TypeVar("_Read")


class Asking:
    """Sends requests to the broker that the caller names by its id, over a kept connection for each thread, in a
    version that the broker takes."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._channels = connection, Channels(connection)

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
        version, address = self._version(broker, name, timeout_s), self._connection.address(broker)
        answer = self._call(broker, encoded(name, version, **fields), timeout_s)
        return self._read(broker, lambda: decoded(name, version, answer, address))

    def _version(self, broker: int, name: str, timeout_s: float) -> int:
        return versions.agreed(name, self._ranges(broker, timeout_s), self._connection.address(broker))

    def _ranges(self, broker: int, timeout_s: float) -> versions.Ranges:
        return ranges(self._channels.to(broker), timeout_s)

    def _call(self, broker: int, request: bytes, timeout_s: float) -> Answer:
        return call(self._channels.to(broker), request, timeout_s)

    def _read(self, broker: int, read: Callable[[], _Read]) -> _Read:
        """Returns `read()`. Closes the connection if the answer cannot be read, because it is not known where the next
        one begins."""
        try:
            return read()
        except ConnectionError:
            self._channels.to(broker).close()
            raise

    def _unreadable(self, broker: int, why: str) -> ConnectionError:
        return unreadable(self._connection.address(broker), why)


def call(channel: Channel, request: bytes, timeout_s: float) -> Answer:
    """Sends `request` over `channel`. Returns and raises what `Channel.call` does."""
    return channel.call(request, timeout_s)


def ranges(channel: Channel, timeout_s: float) -> versions.Ranges:
    """Returns the versions of each request that the broker at the other end of `channel` takes."""
    return channel.ranges(timeout_s)
