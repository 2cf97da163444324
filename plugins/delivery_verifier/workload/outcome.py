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
"""The client's own refusals: size, partition, topic, full queue. Proof where nothing was tried before: `produce()`
refuses what it never queued (see `SequencedProducer._refused`), but a delivery report can bring the same codes to a
record that waits for its retry. A broker that lags behind calls a topic unknown that exists, and librdkafka then drops
the topic's whole queue with _UNKNOWN_PARTITION (its issue 4401); MSG_SIZE_TOO_LARGE is the broker's code as well."""

REFUSED_BEFORE_APPEND = frozenset(
    {
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.RECORD_LIST_TOO_LARGE,
    }
)
"""A broker's final word that is given before the append."""


def classify(code: int, retries: int) -> int:
    """The live ledger's result for a delivery report with error `code` (never 0).

    With retries > 0 nothing is certain: an earlier try may have been appended, and its answer lost.
    """
    certain = retries == 0 and code in LOCAL_REFUSALS | REFUSED_BEFORE_APPEND
    return encode_error(FAILED if certain else INDETERMINATE, code)
