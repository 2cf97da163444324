"""Error codes: the numbers by which a slot of the live ledger names the error of an attempt.

They are this project's own, so that a producer with any client can write them. A code of Kafka's protocol stands for
itself. Errors of a client, which no broker has sent, have codes from UNKNOWN on.
"""

from __future__ import annotations

from confluent_kafka import KafkaError

UNKNOWN = 1000
"""The code of UNKNOWN_SERVER_ERROR, which is -1 in Kafka's protocol."""
_OF_CLIENTS = """
    _BAD_MSG _BAD_COMPRESSION _DESTROY _FAIL _TRANSPORT _CRIT_SYS_RESOURCE _RESOLVE _MSG_TIMED_OUT _PARTITION_EOF
    _UNKNOWN_PARTITION _FS _UNKNOWN_TOPIC _ALL_BROKERS_DOWN _INVALID_ARG _TIMED_OUT _QUEUE_FULL _ISR_INSUFF
    _NODE_UPDATE _SSL _WAIT_COORD _UNKNOWN_GROUP _IN_PROGRESS _PREV_IN_PROGRESS _EXISTING_SUBSCRIPTION
    _ASSIGN_PARTITIONS _REVOKE_PARTITIONS _CONFLICT _STATE _UNKNOWN_PROTOCOL _NOT_IMPLEMENTED _AUTHENTICATION
    _NO_OFFSET _OUTDATED _TIMED_OUT_QUEUE _UNSUPPORTED_FEATURE _WAIT_CACHE _INTR _KEY_SERIALIZATION
    _VALUE_SERIALIZATION _KEY_DESERIALIZATION _VALUE_DESERIALIZATION _PARTIAL _READ_ONLY _NOENT _UNDERFLOW
    _INVALID_TYPE _RETRY _PURGE_QUEUE _PURGE_INFLIGHT _FATAL _INCONSISTENT _GAPLESS_GUARANTEE _MAX_POLL_EXCEEDED
    _UNKNOWN_BROKER _NOT_CONFIGURED _FENCED _APPLICATION _ASSIGNMENT_LOST _NOOP _AUTO_OFFSET_RESET _LOG_TRUNCATION
    _INVALID_DIFFERENT_RECORD _DESTROY_BROKER
"""
CLIENT_ERRORS = tuple(_OF_CLIENTS.split())
"""The errors of a client, by librdkafka's names (`rd_kafka_resp_err_t` in rdkafka.h). The first has the code
UNKNOWN + 1. Only ever append: a code keeps its meaning."""
JAVA = 2000
"""The codes of errors that only the Java client has begin after this one."""
_OF_JAVA = """
    TimeoutException BufferExhaustedException SerializationException IllegalStateException InterruptException
"""
JAVA_ERRORS = tuple(_OF_JAVA.split())
"""The errors of the Java client that librdkafka has no name for, by the names of their classes. The first has the code
JAVA + 1. Only ever append. Which error of the Java client has which code: `java.errors`."""
UNLISTED = 4999
"""The code of an error that has no other code, e.g. of a newer client."""

_NAMES = {
    UNKNOWN: "UNKNOWN",
    UNLISTED: "UNLISTED",
    **dict(enumerate(CLIENT_ERRORS, UNKNOWN + 1)),
    **dict(enumerate(JAVA_ERRORS, JAVA + 1)),
}
_CODES = {name: code for code, name in _NAMES.items()}
_OF_LIBRDKAFKA = {KafkaError.UNKNOWN: UNKNOWN} | {
    number: code for code, name in _NAMES.items() if isinstance(number := getattr(KafkaError, name, None), int)
}


def code_of(librdkafka: int) -> int:
    """Returns the code of the error to which librdkafka gives the number `librdkafka`."""
    return librdkafka if 0 <= librdkafka < UNKNOWN else _OF_LIBRDKAFKA.get(librdkafka, UNLISTED)


def code_named(name: str) -> int:
    """Returns the code of the error of a client with this name, e.g. `_MSG_TIMED_OUT`. Raises KeyError if there is
    none."""
    return _CODES[name]


def error_name(code: int) -> str:
    """Returns the name of the error with this code: librdkafka's, e.g. `_MSG_TIMED_OUT`, or that of a class of the Java
    client. It stands in the ledger."""
    if code < UNKNOWN:
        return str(KafkaError(code).name())
    return _NAMES.get(code, "UNLISTED")
