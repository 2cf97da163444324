"""Errors of Kafka clients in words: what an error that ends a client says about brokers and settings."""

from __future__ import annotations

MEANINGS = {
    "OUT_OF_ORDER_SEQUENCE_NUMBER": "the leader lacks a record that this producer sent before: its log was cut off, or "
    "it has forgotten the producer. An idempotent client then gives up, because it cannot go on without a gap",
    "UNKNOWN_PRODUCER_ID": "the leader has forgotten this producer, and cannot tell a retry from a new record",
    "INVALID_PRODUCER_EPOCH": "another producer with the same transactional.id has begun, or the coordinator has ended "
    "this producer's transaction",
    "_FENCED": "another producer with the same transactional.id has begun, so this one may write no more",
    "CLUSTER_AUTHORIZATION_FAILED": "no ACL allows this user to get a producer id: an idempotent producer needs WRITE "
    "on a topic, or IDEMPOTENT_WRITE on the cluster",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "no ACL allows this user WRITE and DESCRIBE on the transactional.id",
    "TOPIC_AUTHORIZATION_FAILED": "no ACL allows this user WRITE on the topic",
}
"""Maps librdkafka's name of an error to what it means for a producer under test."""


def explained(text: str) -> str:
    """Returns `text`, an error in the form `<name>: <what the client says>`, with the meaning of the error before it.

    If the error has no entry in MEANINGS, returns `text` as it is.
    """
    meaning = MEANINGS.get(text.partition(":")[0])
    return f"{meaning}. The client said: {text}" if meaning else text
