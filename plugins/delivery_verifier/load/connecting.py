"""Lets a Kafka client find out what it needs before it sends: brokers, and partitions that a topic got later."""

from __future__ import annotations

from contextlib import suppress

from confluent_kafka import KafkaException, Producer

from delivery_verifier.host.waiting import wait_until


def connect(client: Producer, timeout_s: float) -> None:
    """Lets `client` connect to a broker, and waits for this at most `timeout_s` seconds.

    An idempotent client sends nothing before it has a producer id. If it has no connection yet, it tries again only
    after half a second (`rd_kafka_idemp_pid_fsm` of librdkafka). Raises nothing if no broker answers, because whoever
    then sends records notices that, too.
    """
    with suppress(KafkaException):
        client.list_topics(timeout=timeout_s)


def await_partitions(client: Producer, topic: str, count: int, timeout_s: float) -> None:
    """Waits until `client` knows that `topic` has `count` partitions. Raises DeadlinePassed.

    librdkafka refuses records for a partition that it does not know. It asks for the partitions anew only every
    topic.metadata.refresh.interval.ms, and whenever it is asked for them.
    """

    def are_known() -> bool:
        with suppress(KafkaException):  # no broker answers at the moment
            return len(client.list_topics(topic, timeout=min(timeout_s, 1.0)).topics[topic].partitions) >= count
        return False

    wait_until(are_known, f"the producer to know {count} partitions of {topic}", timeout_s)
