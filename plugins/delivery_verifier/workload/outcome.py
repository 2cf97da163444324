"""Classification: what an error of librdkafka proves about a record.

FAILED needs proof that the record was never written; everything else is INDETERMINATE (KIP-98 calls it "unknown").
Sources: librdkafka's INTRODUCTION.md ("Message reliability") and rd_kafka_handle_Produce_error.
"""

from __future__ import annotations

from confluent_kafka import KafkaError

from delivery_verifier.workload.live import FAILED, INDETERMINATE, encode_error

LOCAL_REFUSALS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._QUEUE_FULL,
        KafkaError._INVALID_ARG,
    }
)
"""Refused before anything left the client: size, partition, topic, full queue."""

REFUSED_BEFORE_APPEND = frozenset(
    {
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.RECORD_LIST_TOO_LARGE,
    }
)
"""A broker's final word that is given before the append; with retries > 0 an earlier try may have been appended."""


def classify(code: int, retries: int) -> int:
    """The live ledger's result for a delivery report with error `code` (never 0)."""
    certain = code in LOCAL_REFUSALS or (retries == 0 and code in REFUSED_BEFORE_APPEND)
    return encode_error(FAILED if certain else INDETERMINATE, code)
