"""kgo-verifier's way to verify: remembers the last acknowledged offset of each partition, then reads once, in order.

`python bench/speed/peers/kgo_verifier.py BOOTSTRAP TOPIC RECORDS` is one part of bench/speed/end_to_end.py. It produces
with librdkafka, with acks=all and idempotence. Then it reads every partition from 0 up to the last acknowledged offset,
and checks only that no offset is missing. That is much less than this project checks: a record that is lost and
replaced by a duplicate is not seen, nor is one that is out of order or damaged. kgo-verifier itself is a program in Go.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

PARTITIONS, BLOCK, QUEUE = 3, 2000, 200_000


def main() -> int:
    """Produces and reads. Returns 1 if an offset is missing."""
    bootstrap, topic, records = sys.argv[1], sys.argv[2], int(sys.argv[3])
    ends = produce(bootstrap, topic, records)
    return 0 if read(bootstrap, topic, ends) >= records else 1


def produce(bootstrap: str, topic: str, records: int) -> list[int]:
    """Produces `records` records of 100 bytes. Returns for each partition the offset behind the last acknowledged."""
    client = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": QUEUE + 2 * BLOCK,
        }
    )
    ends = [0] * PARTITIONS

    def acknowledged(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise SystemExit(str(error))
        ends[message.partition()] = message.offset() + 1

    for first in range(0, records, BLOCK):
        while len(client) > QUEUE:
            client.poll(0.005)
        numbers = range(first, min(first + BLOCK, records))
        batch = [{"value": b"%018d.%081d" % (number, 0)} for number in numbers]
        client.produce_batch(topic, batch, partition=first // BLOCK % PARTITIONS, on_delivery=acknowledged)
        client.poll(0)
    client.flush()
    return ends


def read(bootstrap: str, topic: str, ends: list[int]) -> int:
    """Reads each partition up to its end. Returns the number of records. Raises SystemExit if an offset is missing."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    expected = [0] * PARTITIONS
    while any(here < end for here, end in zip(expected, ends, strict=True)):
        for message in consumer.consume(10_000, 1.0):
            if message.error():
                raise SystemExit(str(message.error()))
            if message.offset() != expected[message.partition()]:
                raise SystemExit(f"partition {message.partition()}: an offset before {message.offset()} is missing")
            expected[message.partition()] += 1
    consumer.close()
    return sum(expected)


if __name__ == "__main__":
    sys.exit(main())
