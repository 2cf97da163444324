"""A producer for the verifier's own records: the canary, and the markers of the snapshot."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from delivery_verifier.cluster.connection import Connection
from delivery_verifier.load.client_errors import ending
from delivery_verifier.load.connecting import connect
from delivery_verifier.model.client_errors import explained
from delivery_verifier.model.errors import StepFailed

ANSWER_S, FLUSH_S = 30.0, 40.0
"""How long the first answer of a broker may take, and the acknowledgement of all records, in seconds."""


class AckedWriter:
    """Writes the verifier's own records with acks=all, and waits until every record is acknowledged.

    `more` holds further client properties.
    """

    def __init__(self, connection: Connection, more: dict[str, str] | None = None) -> None:
        self.connection = connection
        self.gave_up = ""
        self.client = Producer(
            {
                **connection.client_properties(),
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": 30_000,
                "log_level": 3,
                **(more or {}),
            }
        )
        connect(self.client, ANSWER_S)

    def write(self, records: list[tuple[str, int, bytes]]) -> list[int]:
        """Writes `records` in order, and returns their offsets. A record is (topic, partition, value).

        Raises StepFailed if a record is not acknowledged. If the client has given up, the error says why.
        """
        offsets: dict[int, int] = {}
        try:
            for index, (topic, partition, value) in enumerate(records):
                self.client.produce(topic, value, partition=partition, on_delivery=_store_offset(offsets, index))
        except KafkaException as raised:
            if raised.args[0].code() != KafkaError._FATAL:
                raise
        self.gave_up = ending(lambda: self.client.flush(FLUSH_S)) or self.gave_up  # the client says why only once
        if self.gave_up or len(offsets) != len(records):
            why = f": {explained(self.gave_up)}" if self.gave_up else ""
            raise StepFailed(f"only {len(offsets)} of {len(records)} records of the harness were acknowledged{why}")
        return [offsets[index] for index in range(len(records))]


def _store_offset(offsets: dict[int, int], index: int) -> Callable[[KafkaError | None, Message], None]:
    def on_delivery(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None and offset >= 0:
            offsets[index] = offset

    return on_delivery
