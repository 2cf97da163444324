"""Errors of the Java client, in librdkafka's form: what a group refuses, and what must become of a transaction.

Sources: the javadoc of KafkaConsumer and KafkaProducer 4.3.1. What no table here names proves nothing: it is neither a
refusal of the group nor an end of the transaction.
"""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException


class Thrown(NamedTuple):
    """One error that the Java client has thrown. `code` is that of Kafka's protocol, or 0. `types` are its class and
    the classes above it. `text` is what it says."""

    code: int
    types: tuple[str, ...]
    text: str


_ERRORS = "org.apache.kafka.common.errors"
_KAFKAS = "org.apache.kafka.common.KafkaException"
_COMMIT_FAILED = "org.apache.kafka.clients.consumer.CommitFailedException"
_TIMEOUT = f"{_ERRORS}.TimeoutException"
_FENCED = f"{_ERRORS}.ProducerFencedException"
_ILLEGAL_STATE = "java.lang.IllegalStateException"
REFUSED: dict[str, int] = {
    _COMMIT_FAILED: KafkaError._ASSIGNMENT_LOST,
    f"{_ERRORS}.RebalanceInProgressException": KafkaError.REBALANCE_IN_PROGRESS,
    f"{_ERRORS}.FencedInstanceIdException": KafkaError.FENCED_INSTANCE_ID,
    f"{_ERRORS}.UnknownMemberIdException": KafkaError.UNKNOWN_MEMBER_ID,
    f"{_ERRORS}.IllegalGenerationException": KafkaError.ILLEGAL_GENERATION,
    f"{_ERRORS}.FencedMemberEpochException": KafkaError.FENCED_MEMBER_EPOCH,
    f"{_ERRORS}.StaleMemberEpochException": KafkaError.STALE_MEMBER_EPOCH,
}
"""The errors by which a group refuses a commit. `commits.REFUSED` has each of them. CommitFailedException is thrown
only if the member is not in the group any more, or belongs to an earlier generation."""
_ENDS_PRODUCER = (
    _FENCED,
    f"{_ERRORS}.AuthorizationException",
    f"{_ERRORS}.OutOfOrderSequenceException",
    f"{_ERRORS}.UnsupportedVersionException",
    f"{_ERRORS}.UnsupportedForMessageFormatException",
    _ILLEGAL_STATE,
)
"""The errors after which a program must close its producer."""
MAY_ABORT = ("send_offsets_to_transaction", "commit_transaction")
"""The calls after whose other errors a program must abort its transaction."""


def of_consumer(error: Thrown) -> KafkaException:
    """Returns an error of the consumer. It may be retriable, and is never fatal: the caller knows what it breaks."""
    refusal = next((code for name, code in REFUSED.items() if name in error.types), None)
    if refusal is not None:
        return KafkaException(KafkaError(refusal, error.text))
    retriable = _TIMEOUT in error.types or f"{_ERRORS}.RetriableException" in error.types
    code = KafkaError._TIMED_OUT if _TIMEOUT in error.types else error.code
    if not code or code in REFUSED.values():  # only its class proves a refusal
        code = KafkaError._STATE if _ILLEGAL_STATE in error.types else KafkaError._FAIL
    return KafkaException(KafkaError(code, error.text, retriable=retriable))


def of_producer(call: str, error: Thrown) -> KafkaException:
    """Returns an error of `call`, e.g. `commit_transaction`. After a timeout, the same call may be repeated."""
    retriable = _TIMEOUT in error.types
    ends = _KAFKAS not in error.types or any(name in error.types for name in _ENDS_PRODUCER)
    abort = call in MAY_ABORT and not retriable and not ends
    fatal = not retriable and not abort
    refusal = next((code for name, code in REFUSED.items() if name in error.types), None)
    if retriable:
        code = KafkaError._TIMED_OUT
    elif _FENCED in error.types:
        code = KafkaError._FENCED
    else:
        code = refusal or error.code or (KafkaError._FATAL if fatal else KafkaError._STATE)
    return KafkaException(KafkaError(code, error.text, fatal=fatal, retriable=retriable, txn_requires_abort=abort))


def of_reports(failed: list[tuple[str, ...]]) -> KafkaException | None:
    """Returns the error that ended the producer while it sent records, if `failed` has one. `failed` has the classes of
    each error that was reported of a record. Returns None if the records alone failed."""
    for types in failed:
        if _FENCED in types:
            return KafkaException(KafkaError(KafkaError._FENCED, "another one has its transactional.id", fatal=True))
    return None
