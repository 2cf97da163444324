"""librdkafka as the client of a producer. It runs inside the producer process, and reports while it is polled."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

from delivery_verifier.load.client import HandOver
from delivery_verifier.load.connecting import await_partitions, connect
from delivery_verifier.load.delivery_reports import delivery_callback, record_refusals
from delivery_verifier.load.layout import queue_limit
from delivery_verifier.load.live_ledger import Control, LiveLedger
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model import record


class LibrdkafkaClient:
    """See `client.LoadClient`. Raises KafkaException if librdkafka refuses the settings of `spec`."""

    def __init__(self, spec: ProducerSpec, control: Control) -> None:
        self._topic, self._acks, self._control = spec.topic, str(spec.settings["acks"]), control
        self.limit = queue_limit(spec.settings, spec.payload_bytes, spec.block)
        self._producer = Producer(
            {
                **spec.connection,
                "queue.buffering.max.messages": self.limit + 2 * spec.block,
                "queue.buffering.max.kbytes": 2_000_000,
                "message.max.bytes": max(1_000_000, spec.payload_bytes + record.ENVELOPE_BYTES),
                "log_level": 3,
                **spec.settings,
            }
        )

    def __len__(self) -> int:
        return len(self._producer)

    def into(self, ledger: LiveLedger) -> HandOver:
        report = delivery_callback(ledger, self._control, self._acks)

        def hand_over(first: int, partition: int, values: list[bytes]) -> None:
            batch: list[dict[str, Any]] = [{"value": value} for value in values]
            queued = self._producer.produce_batch(self._topic, batch, partition=partition, on_delivery=report)
            if queued != len(values):
                record_refusals(ledger, self._control, first, batch)
            self._producer.poll(0)

        return hand_over

    def await_taken(self) -> None:
        """Does nothing: a call that hands over a block returns only when librdkafka has it."""

    def poll(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)

    def flush(self, timeout_s: float) -> int:
        return self._producer.flush(timeout_s)

    def init_transactions(self, timeout_s: float) -> None:
        self._producer.init_transactions(timeout_s)

    def begin_transaction(self) -> None:
        self._producer.begin_transaction()

    def commit_transaction(self, timeout_s: float) -> None:
        self._producer.commit_transaction(timeout_s)

    def abort_transaction(self, timeout_s: float) -> None:
        self._producer.abort_transaction(timeout_s)

    def connect(self, timeout_s: float) -> None:
        connect(self._producer, timeout_s)

    def await_partitions(self, count: int, timeout_s: float) -> None:
        await_partitions(self._producer, self._topic, count, timeout_s)

    def close(self) -> None:
        """Does nothing: librdkafka reports only while it is polled, and it ends with the process."""
