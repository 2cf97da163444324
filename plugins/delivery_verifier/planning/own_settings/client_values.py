"""Values as each client reads them. A client that does not start with a value promises nothing.

Measured: `ProducerConfig` and `ConsumerConfig` of the Java client 2.8.2 to 4.4.0 (tests/kafka/test_client_releases.py
compares the producer's with `refusal`), and librdkafka 2.16 itself, which starts with more than it understands: it
reads `5s` as 5, `1e3` as 1, `0x10` as 16 and `010` as 8 (`rd_kafka_conf_get` behind `rd_kafka_conf_set`).
"""

from __future__ import annotations

import re

from delivery_verifier.model.client import Client
from delivery_verifier.model.data import Setting
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import effective, values

_JAVA_WORDS: dict[str, tuple[str, ...]] = {
    "acks": ("all", "-1", "0", "1"),
    "compression.type": ("none", "gzip", "snappy", "lz4", "zstd"),
    "isolation.level": ("read_committed", "read_uncommitted"),
    "auto.offset.reset": ("latest", "earliest", "none"),
}
"""Maps a property of the Java client to the only words that it takes, in exactly this spelling. Some clients before 3.6
take other spellings of compression.type."""
DURATION = "by_duration:"
"""What a value of auto.offset.reset in the Java client since DURATION_SINCE may begin with (KIP-1106)."""
DURATION_SINCE = (4, 0)
_DURATION = re.compile(
    r"by_duration:\+?P(?=.)(?:\+?\d+D)?(?:T(?=.)(?:\+?\d+H)?(?:\+?\d+M)?(?:\+?\d+(?:[.,]\d{0,9})?S)?)?",
    re.ASCII | re.IGNORECASE,
)
"""Matches what `Duration.parse` of Java takes, if it is not negative."""
_BOOLEANS = frozenset(
    {"enable.idempotence", "enable.auto.commit", "enable.gapless.guarantee", "enable.auto.offset.store"}
)
_NUMBERS = frozenset(
    """
    retries max.in.flight.requests.per.connection delivery.timeout.ms request.timeout.ms retry.backoff.ms
    retry.backoff.max.ms batch.size batch.num.messages message.max.bytes transaction.timeout.ms socket.timeout.ms
    socket.max.fails reconnect.backoff.ms reconnect.backoff.max.ms connections.max.idle.ms buffer.memory
    queue.buffering.max.kbytes queue.buffering.max.messages topic.metadata.refresh.interval.ms
    """.split()
)
"""Whole numbers in both clients, under librdkafka's names. Java's linger.ms is one, too; librdkafka's may have a
fraction."""
_JAVA_NUMBERS = frozenset(
    """
    linger.ms max.block.ms metadata.max.idle.ms metrics.num.samples metrics.sample.window.ms
    partitioner.availability.timeout.ms
    """.split()
)
_JAVA_BOOLEANS = frozenset(
    """
    partitioner.ignore.keys partitioner.adaptive.partitioning.enable enable.metrics.push auto.include.jmx.reporter
    transaction.two.phase.commit.enable
    """.split()
)
"""Numbers and truth values of the Java client alone. Even where they have no part in delivery, it does not start with
another value."""
_INT_MAX = 2147483647
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_LEADING = re.compile(r"\s*([+-]?[0-9]+)")
_LIBRDKAFKA_BOOLEANS = {"t": "true", "1": "true", "f": "false", "0": "false"}


def typed(name: str, librdkafka_name: str, text: str, client: Client) -> Setting:
    """Returns the value that `client` reads from `text`, as librdkafka takes it (see `values.typed`).

    `name`: the property as the user wrote it. Raises BadInput if the client does not start with the value, or reads
    only its beginning.
    """
    if reason := refusal(librdkafka_name, text, client):
        raise BadInput(f"{name} is {text!r}, and {reason}")
    return values.typed(librdkafka_name, plain_boolean(librdkafka_name, text))


def plain_boolean(name: str, text: str) -> str:
    """Returns true or false for what librdkafka reads as that; any other `text`, or that of a property `name` that is
    no truth value, as it is."""
    return _LIBRDKAFKA_BOOLEANS.get(text.lower(), text) if name in _BOOLEANS else text


def refusal(name: str, text: str, client: Client) -> str:
    """Returns why `client` does not have the value `text` of the property `name` (librdkafka's name), and what is
    allowed: the end of a sentence. Returns an empty text if it has, or if the value is empty."""
    if not text:
        return ""
    if client == "java":
        return _refusal_of_java(name, text)
    if name in _NUMBERS and not _DECIMAL.fullmatch(text) and (number := _LEADING.match(text)):
        if text.lstrip("+-").startswith("0") and not text.lstrip("+-").startswith("0."):
            return f"librdkafka reads it as octal or hexadecimal; write a whole number{_unit(name)}"
        return (
            f"librdkafka reads only the number at its beginning, {number[1]}, and no unit; write a whole number"
            f"{_unit(name)}"
        )
    if name in _NUMBERS and _DECIMAL.fullmatch(text) and not -_INT_MAX <= int(text) <= _INT_MAX:
        return f"librdkafka reads its last 32 bits alone; allowed: at most {_INT_MAX}"
    return ""


def _refusal_of_java(name: str, text: str) -> str:
    allowed = ""
    if name in _JAVA_WORDS and text not in _JAVA_WORDS[name]:
        if name == "auto.offset.reset" and text.startswith(DURATION):
            allowed = (
                "" if _DURATION.fullmatch(text) else "by_duration: and a duration in ISO 8601, e.g. by_duration:PT1H"
            )
        else:
            spelling = ", in this spelling" if text.lower() in _JAVA_WORDS[name] else ""
            older = " (clients before 3.6 may take others)" if spelling and name == "compression.type" else ""
            allowed = f"{', '.join(_JAVA_WORDS[name])}{spelling}{older}"
    elif name in _BOOLEANS | _JAVA_BOOLEANS and text.lower() not in ("true", "false"):
        allowed = "true, false"
    elif name in _NUMBERS | _JAVA_NUMBERS and not _WHOLE.fullmatch(text):
        allowed = f"a whole number{_unit(name)}"
    elif name in _NUMBERS | _JAVA_NUMBERS and not effective.java_takes(name, int(text)):
        least, most = effective.java_limits(name)
        allowed = f"{least} to {most}"
    return f"the Java client does not start with it; allowed: {allowed}" if allowed else ""


def _unit(name: str) -> str:
    return " of milliseconds" if name.endswith(".ms") else ""
