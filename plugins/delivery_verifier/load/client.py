"""The client of a producer: what a producer process asks of the library that sends its records.

Each client library has one class of its own with this surface: `librdkafka_client` and `java.client`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from delivery_verifier.load.live_ledger import LiveLedger

HandOver = Callable[[int, int, list[bytes]], None]
"""Hands over a block to the client: `(first, partition, values)`. `values` are the values of consecutive records, and
`first` is the sequence of the first one. The slots of the records are open, and the records are counted as sent."""


class LoadClient(Protocol):
    """A client library, with the settings of one producer.

    Whatever the client reports about a record is in the record's slot, and counted, before `__len__` counts the record
    no more. Errors of the client are KafkaException or KafkaError, as `client_errors` says.

    `limit` is the greatest length of the client's queue, in records, at which a block may be handed over.
    """

    limit: int

    def __len__(self) -> int:
        """Returns the number of records that were handed over and have no report yet."""

    def into(self, ledger: LiveLedger) -> HandOver:
        """Returns a function that hands over blocks whose slots are in `ledger`."""

    def await_taken(self) -> None:
        """Waits until the library itself has every record that was handed over."""

    def poll(self, timeout_s: float, /) -> object:
        """Serves the client for at most `timeout_s` seconds."""

    def flush(self, timeout_s: float, /) -> int:
        """Lets the client send all that it has. Waits for the reports. Returns how many records have none in time."""

    def connect(self, timeout_s: float) -> None:
        """Lets the client connect to a broker, and waits for this at most `timeout_s` seconds. Raises nothing if no
        broker answers."""

    def await_partitions(self, count: int, timeout_s: float) -> None:
        """Waits until the client knows that the topic has `count` partitions. Raises DeadlinePassed."""

    def close(self) -> None:
        """Ends the client at once, without a flush. No report comes after it. May be called again."""

    def init_transactions(self, timeout_s: float, /) -> None: ...
    def begin_transaction(self) -> None: ...
    def commit_transaction(self, timeout_s: float, /) -> None: ...
    def abort_transaction(self, timeout_s: float, /) -> None: ...
