"""The output of a transform: a producer that writes a member's records to the output topic, with or without
transactions.

Each record keeps its value and its partition. A header of the output record names the member that wrote it, and the
record of the input topic from which it comes.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from delivery_verifier.applications.clients import MemberConsumer, MemberProducer
from delivery_verifier.model.errors import VerifierError

DEADLINE_S = 60.0
"""Seconds after which a call of the client, or the wait for acknowledgements, is given up."""
_CALL_S = 5.0
"""Seconds that one call of the client may block. A call that takes longer is repeated."""
HEADER = "kdv-effect"
"""The key of the record header that describes the effect."""
_LAYOUT = struct.Struct("<qqiiii")


class OutputFailed(VerifierError, RuntimeError):
    """Records were not acknowledged, or a transaction could not be ended in time, or the output topic has a record that
    does not come from an incarnation of a member."""


class Origin(NamedTuple):
    """Where a record of the output topic comes from.

    * `nth`: how many records this incarnation of the member had written before this record.
    * `offset`, `partition`: the offset and the partition of the record in the input topic.
    * `member`, `incarnation`: the numbers of the member and of the incarnation that wrote the record.
    * `batch`: the number of the batch within the incarnation.
    """

    nth: int
    offset: int
    partition: int
    member: int
    incarnation: int
    batch: int


def origin_of(message: Message) -> Origin:
    """Returns the origin of a record of the output topic. Raises OutputFailed if the record does not come from a
    member."""
    headers: Any = message.headers()  # a list of pairs, or None
    for key, value in headers or []:
        if key == HEADER and isinstance(value, bytes) and len(value) == _LAYOUT.size:
            return Origin._make(_LAYOUT.unpack(value))
    raise OutputFailed(f"no member wrote the record at {message.topic()}/{message.partition()}:{message.offset()}")


class Output:
    """Writes the records of one incarnation of a member to `topic`, through the producer `client`.

    If the producer has a transactional.id, call `init` before the first record, and `begin` before each batch.
    """

    def __init__(self, client: MemberProducer, topic: str, member: int, incarnation: int) -> None:
        self._client, self._topic, self._member, self._incarnation = client, topic, member, incarnation
        self._count, self._failed = 0, list[str]()

    def init(self) -> None:
        """Registers the transactional.id with the brokers. The brokers then end the open transaction of an earlier
        incarnation, and fence the producer of that incarnation."""
        self._insist(self._client.init_transactions, "init_transactions")

    def begin(self) -> None:
        """Begins a transaction."""
        self._client.begin_transaction()

    def write(self, partition: int, offset: int, batch: int, value: bytes) -> None:
        """Hands a record of the input topic to the client, which writes it to the output topic. `offset` and
        `partition` are those of the record in the input topic."""
        origin = Origin(self._count, offset, partition, self._member, self._incarnation, batch)
        headers: Any = [(HEADER, _LAYOUT.pack(*origin))]
        self._client.produce(self._topic, value, partition=partition, headers=headers, on_delivery=self._report)
        self._count += 1

    def _report(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed.append(error.name())

    def flush(self) -> None:
        """Waits until all records are acknowledged. Raises OutputFailed if a record was not acknowledged."""
        unsettled = self._client.flush(DEADLINE_S)
        if unsettled or self._failed:
            raise OutputFailed(f"{unsettled} records had no answer, others failed: {sorted(set(self._failed))}")

    def send_offsets(self, topic: str, offsets: Mapping[int, int], consumer: MemberConsumer) -> None:
        """Adds `offsets` to the transaction, for the group of `consumer`. `offsets` maps partitions of `topic` to
        offsets. The consumer must have subscribed.

        The group refuses the offsets if the consumer is no longer a member of the group (KIP-447). Raises
        KafkaException for a refusal, and OutputFailed after `DEADLINE_S` seconds.
        """
        asked = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        group = consumer.consumer_group_metadata()
        self._insist(
            lambda timeout: self._client.send_offsets_to_transaction(asked, group, timeout),
            "send_offsets_to_transaction",
        )

    def commit(self) -> None:
        """Commits the transaction. Raises KafkaException for a refusal, and OutputFailed after `DEADLINE_S` seconds."""
        self._insist(self._client.commit_transaction, "commit_transaction")

    def abort(self) -> None:
        """Aborts the transaction. Raises the same errors as `commit`."""
        self._insist(self._client.abort_transaction, "abort_transaction")
        self._failed.clear()

    def _insist(self, call: Callable[[float], None], what: str) -> None:
        """Calls `call` with a timeout in seconds. Repeats the call after each retriable error. `what` describes the
        call in an error message."""
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                return call(_CALL_S)
            except KafkaException as raised:
                error: KafkaError = raised.args[0]
                if error.fatal() or not error.retriable():
                    raise
                if time.monotonic() > end:
                    raise OutputFailed(f"{what} did not end within {DEADLINE_S:g} s: {error}") from None
