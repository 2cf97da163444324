"""Reads a topic back with a plain consumer, record by record."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

from delivery_verifier.host.waiting import wait_until
from delivery_verifier.load.spec import ProducerSpec
from delivery_verifier.model import record
from delivery_verifier.model.scenario import Isolation
from support.patience import PATIENCE_S

TOKEN = "abcdefgh"


def read_log(spec: ProducerSpec, token: str = TOKEN) -> dict[tuple[int, int], record.Header]:
    """Returns the header of every record of the topic, by (partition, offset). Asserts that every record is sound."""
    found: dict[tuple[int, int], record.Header] = {}
    consumer = Consumer({**spec.connection, "group.id": "reader", "enable.auto.commit": False, "log_level": 0})
    consumer.assign([TopicPartition(spec.topic, partition, 0) for partition in range(spec.partitions)])
    ends = {
        p: consumer.get_watermark_offsets(TopicPartition(spec.topic, p), timeout=PATIENCE_S)[1]
        for p in range(spec.partitions)
    }

    def all_read() -> bool:
        for message in consumer.consume(1000, timeout=0.2):
            assert message.error() is None
            header = record.parse(message.value() or b"")
            assert header is not None and header.crc_ok and header.run == token
            found[message.partition() or 0, message.offset() or 0] = header
        return len(found) == sum(ends.values())

    wait_until(all_read, f"all records up to {ends} to be read", PATIENCE_S)
    consumer.close()
    return found


def read_view(spec: ProducerSpec, isolation: Isolation) -> dict[tuple[int, int], record.Header]:
    """Returns the headers of all records that a consumer with this isolation level sees, by (partition, offset), up to
    the end of each partition. Works also where transactions were written."""
    found: dict[tuple[int, int], record.Header] = {}
    consumer = Consumer(
        {
            **spec.connection,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(spec.topic, partition, 0) for partition in range(spec.partitions)])
    ended: set[int | None] = set()

    def all_read() -> bool:
        for message in consumer.consume(1000, timeout=0.2):
            if message.error() is not None:
                ended.add(message.partition())
            elif header := record.parse(message.value() or b""):
                found[message.partition() or 0, message.offset() or 0] = header
        return len(ended) == spec.partitions

    wait_until(all_read, "the ends of all partitions", PATIENCE_S)
    consumer.close()
    return found
