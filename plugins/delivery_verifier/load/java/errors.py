"""Errors of the Java client: which of them prove that a record was never queued, and the code of each.

Measured with kafka-clients 4.3.1. `KafkaProducer.doSend` waits for metadata, serializes the record, and checks its
size. Then it appends the record, for which it may wait for memory. Only after that it looks whether the transaction may
go on. What it throws then, e.g. that the producer is fenced, proves nothing: the record is appended.
"""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException

from delivery_verifier.load.error_codes import UNKNOWN, code_named


class JavaError(NamedTuple):
    """The errors of the class `type`, and of its subclasses, whose messages begin with `begins`. `code`: see
    `error_codes`."""

    type: str
    begins: str
    code: int


_ERRORS = "org.apache.kafka.common.errors"
_TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE
REFUSALS = (
    JavaError("org.apache.kafka.clients.producer.BufferExhaustedException", "", code_named("BufferExhaustedException")),
    JavaError(f"{_ERRORS}.TimeoutException", "", code_named("TimeoutException")),
    JavaError(f"{_ERRORS}.RecordTooLargeException", "", _TOO_LARGE),
    JavaError(f"{_ERRORS}.SerializationException", "", code_named("SerializationException")),
    JavaError(
        "java.lang.IllegalStateException",
        "Cannot perform operation after producer has been closed",
        code_named("IllegalStateException"),
    ),
)
"""The errors that make an attempt FAILED, if send() itself throws or reports one, on the thread that called it. They
come before the record is appended. The same classes prove nothing when they are reported later."""
OTHERS = (
    JavaError(f"{_ERRORS}.TimeoutException", "Expiring ", code_named("_MSG_TIMED_OUT")),
    JavaError(f"{_ERRORS}.TransactionAbortedException", "", code_named("_PURGE_QUEUE")),
    JavaError(f"{_ERRORS}.UnknownServerException", "", UNKNOWN),
    JavaError(f"{_ERRORS}.InterruptException", "", code_named("InterruptException")),
    JavaError("java.lang.IllegalStateException", "", code_named("IllegalStateException")),
)
"""The errors with a code that is not Kafka's protocol's. Any other error has the code of the protocol, or that of its
cause. `Expiring` is what a client says after delivery.timeout.ms, when no broker has answered."""

_FATAL = (
    f"{_ERRORS}.ProducerFencedException",
    f"{_ERRORS}.AuthorizationException",
    f"{_ERRORS}.OutOfOrderSequenceException",
    f"{_ERRORS}.UnsupportedVersionException",
    "java.lang.IllegalStateException",
)
"""The errors of commitTransaction after which a program must close its producer (Javadoc of KafkaProducer)."""


def table(rows: tuple[JavaError, ...]) -> str:
    """Returns rows as the text that `LoadClient.java` reads."""
    return "\n".join(f"{row.type}\t{row.begins}\t{row.code}" for row in rows)


def of_call(method: str, types: list[str], code: int, text: str) -> KafkaException:
    """Returns the error of a call of the client, e.g. `commit_transaction`, in librdkafka's form.

    `types` are the class of the error and its superclasses. `code` is that of `error_codes`. After a timeout, the same
    call may be repeated. After another error of a commit that is not fatal, the transaction must be aborted.
    """
    retriable = f"{_ERRORS}.TimeoutException" in types
    is_kafkas = "org.apache.kafka.common.KafkaException" in types
    abort = method == "commit_transaction" and not retriable and is_kafkas and not any(each in types for each in _FATAL)
    fatal = not retriable and not abort
    number = code if code < UNKNOWN else KafkaError._FATAL if fatal else KafkaError._STATE
    if retriable:
        number = KafkaError._TIMED_OUT
    return KafkaException(KafkaError(number, text, fatal=fatal, retriable=retriable, txn_requires_abort=abort))
