"""Giving up: which setting ended the client's attempts to deliver a record, what to change, and what that costs.

Sources: librdkafka's CONFIGURATION.md, `rd_kafka_handle_Produce_error` and `rd_kafka_msgq_age_scan`. librdkafka reports
a request that timed out for the last time as `_MSG_TIMED_OUT`, too. On a program that ends: `rd_kafka_flush` in
librdkafka's rdkafka.h, and the Javadoc of `KafkaProducer`, whose `close()` waits for what is queued.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.data import Setting

TIMED_OUT = frozenset({"_MSG_TIMED_OUT", "_TIMED_OUT", "_TIMED_OUT_QUEUE"})
"""The errors of a record that waited for too long."""
RETRIED = frozenset(
    {
        "_TRANSPORT",
        "BROKER_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "KAFKA_STORAGE_ERROR",
        "LEADER_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "NOT_COORDINATOR",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "NOT_LEADER_FOR_PARTITION",
        "PREFERRED_LEADER_NOT_AVAILABLE",
        "REPLICA_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
        "UNKNOWN_TOPIC_OR_PART",
    }
)
"""The errors after which a client sends a record again, as long as it has retries left."""
OF_TRANSACTIONS = frozenset({"_PURGE_INFLIGHT", "_PURGE_QUEUE", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE"})
"""The errors of records whose transaction was aborted before they were delivered."""
FATAL = frozenset({"_FATAL", "_FENCED", "PRODUCER_FENCED", "OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID"})
"""The errors after which a producer can send nothing more."""
_UNLIMITED_RETRIES = 2147483647


class GivingUp(Struct, frozen=True):
    """Why records were given up.

    * `how`: what happened, as a participle with the setting that decided it, e.g. `given up after retries=0 ...`.
    * `change`: a sentence on what to change. It may have the field `{longer}` for the length of the outage.
    * `price`: a sentence on what the change costs; empty if it costs nothing that is known.
    """

    how: str
    change: str
    price: str = ""


def giving_up(error: str, settings: Settings, producer: Mapping[str, Setting], dropped: int = 0) -> GivingUp:
    """Returns why records with `error` were given up, if the producer has these settings.

    `error`: the client's name of the error; empty if the producer ended before the record had an outcome. `producer`:
    the properties of the producer, by Kafka's names. `dropped`: how many records were in the queue of a program that
    ended on SIGTERM without flush(), if all records without an outcome come from there; else 0.
    """
    if not error and dropped:
        return GivingUp(
            f"dropped by the program, which ended on SIGTERM without flush() and had {dropped:,} in its client's queue",
            "Call flush() on SIGTERM and before every other end of the program (Java: close()), and count no record as "
            "sent before its delivery report: produce() only queues it.",
            "The price: the program ends only when brokers have answered. Give it that long before SIGKILL follows "
            "(Kubernetes: terminationGracePeriodSeconds).",
        )
    if not error:
        return GivingUp(
            "left open by a producer that ended",
            "A program must remember what was not acknowledged, and send it again after its restart.",
            "The price: what had arrived all the same is then in the log twice; idempotence does not span a restart.",
        )
    if settings.transactional_id and error in OF_TRANSACTIONS:
        timeout_ms = producer.get("transaction.timeout.ms", "?")
        return GivingUp(
            f"dropped with an aborted transaction (transaction.timeout.ms={timeout_ms})",
            "To lose none of them, send the records of an aborted transaction again, or set transaction.timeout.ms and "
            "delivery.timeout.ms longer than the longest outage{longer}.",
            "The price: as long as a transaction is open, read_committed consumers see nothing behind it.",
        )
    if error in RETRIED | TIMED_OUT and _out_of_retries(error, settings):
        return _without_retries(error, settings)
    return _after_timeout(settings) if error in TIMED_OUT else _refused(error)


def _out_of_retries(error: str, settings: Settings) -> bool:
    """Returns whether the retries can have ended before the delivery timeout did.

    A record that timed out ran out of retries only if all its tries together were shorter than the delivery timeout.
    Each try lasts at most socket.timeout.ms.
    """
    if settings.retries >= _UNLIMITED_RETRIES:
        return False
    tries_ms = (settings.retries + 1) * settings.socket_timeout_ms
    return error in RETRIED or not settings.delivery_timeout_ms or tries_ms < settings.delivery_timeout_ms


def _without_retries(error: str, settings: Settings) -> GivingUp:
    safe = "The price: a failure is known only after delivery.timeout.ms."
    unsafe = "The price: a retry may write a record twice, or out of order, unless enable.idempotence=true."
    return GivingUp(
        f"given up after retries={settings.retries} (message.send.max.retries) on the error {error}",
        f"To lose none of them, leave retries at {_UNLIMITED_RETRIES}. Then delivery.timeout.ms alone decides when the "
        "client gives up.",
        safe if settings.enable_idempotence else unsafe,
    )


def _after_timeout(settings: Settings) -> GivingUp:
    also = "" if not settings.transactional_id else " transaction.timeout.ms must be at least as long."
    price = "The price: failures are known later, and until then the records fill the program's memory."
    unsafe = "" if settings.enable_idempotence else " A late retry may write a record twice."
    return GivingUp(
        f"given up after delivery.timeout.ms={settings.delivery_timeout_ms} (message.timeout.ms)",
        f"To lose none of them, set delivery.timeout.ms longer than the longest outage{{longer}}.{also}",
        f"{price}{unsafe}",
    )


def _refused(error: str) -> GivingUp:
    """Returns why records with an error were given up that no timeout and no retry ends."""
    if error in FATAL:
        return GivingUp(
            f"refused after a fatal error of the client ({error})",
            "After a fatal error, a program must close its producer, and send the rest with a new one.",
            "The price: idempotence does not span two producers, so what was in flight may be in the log twice.",
        )
    if error == "_QUEUE_FULL":
        return GivingUp(
            "refused by a full queue of the client (queue.buffering.max.messages, queue.buffering.max.kbytes)",
            "The program must call poll() and hand the record over again, or have a longer queue.",
            "The price: memory, and a call that waits.",
        )
    return GivingUp(f"refused with {error}", f"Neither timeouts nor retries help: remove the cause of {error}.")
