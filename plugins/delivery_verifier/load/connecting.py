"""Connects a Kafka client before it is needed."""

from __future__ import annotations

from contextlib import suppress

from confluent_kafka import KafkaException, Producer


def connect(client: Producer, timeout_s: float) -> None:
    """Lets `client` connect to a broker, and waits for this at most `timeout_s` seconds.

    An idempotent client sends nothing before it has a producer id. If it has no connection yet, it tries again only
    after half a second (`rd_kafka_idemp_pid_fsm` of librdkafka). Raises nothing if no broker answers, because whoever
    then sends records notices that, too.
    """
    with suppress(KafkaException):
        client.list_topics(timeout=timeout_s)
