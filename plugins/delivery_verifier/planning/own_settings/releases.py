"""Releases: which defaults the producers of the Java client and of librdkafka have, by release. All of it stands here.

Measured: of the Java client, `KafkaProducer` and its `ProducerConfig` of both ends of each row
(tests/kafka/test_client_releases.py compares the rows with them); of librdkafka, `rd_kafka_conf_dump` of the library in
the wheels of confluent-kafka 0.11.4, 0.11.6, 1.0.0, 1.1.0, 1.2.0, 1.3.0, 1.4.0, 1.5.0, 1.6.0, 1.8.2, 1.9.0, 2.0.2,
2.1.1, 2.2.0, 2.3.0, 2.6.0, 2.10.0 and 2.16.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from delivery_verifier.model.client import Client
from delivery_verifier.model.data import Setting

Version = tuple[int, ...]

Idempotence = Literal["absent", "asked", "yields", "bounded"]
"""When a producer is idempotent.

* `absent`: never. The release has no enable.idempotence, and refuses it.
* `asked`: if the settings have enable.idempotence=true or a transactional.id.
* `yields`: unless the settings have enable.idempotence=false, acks other than all, retries=0, or more than five
  requests in flight.
* `bounded`: as `yields`, but with more than five requests in flight the client does not start, unless the settings
  have enable.idempotence=false.
"""

MOST_IN_FLIGHT = 5
"""The greatest max.in.flight.requests.per.connection of an idempotent producer (KIP-98; KAFKA-5494)."""


class Release(Struct, frozen=True, kw_only=True):
    """Consecutive releases of `client`, from `first` to `last`, whose producers have the same `defaults`.

    `last` covers all its patches if it names none. `defaults` have librdkafka's names; the client derives
    enable.idempotence from other settings, as `idempotence` says. `transactions`: whether the releases have
    transactional.id. `source`: who says what is new in these releases.
    """

    client: Client
    first: Version
    last: Version
    defaults: dict[str, Setting]
    idempotence: Idempotence
    transactions: bool = True
    source: str


_JAVA_2: dict[str, Setting] = {
    "acks": "1",
    "enable.idempotence": False,
    "retries": 2147483647,
    "max.in.flight.requests.per.connection": 5,
    "retry.backoff.ms": 100,
    "delivery.timeout.ms": 120000,
    "request.timeout.ms": 30000,
    "linger.ms": 0,
    "batch.size": 16384,
    "message.max.bytes": 1048576,
    "queue.buffering.max.kbytes": 32768,
    "compression.type": "none",
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
    "topic.metadata.refresh.interval.ms": 300000,
}
_JAVA_3 = _JAVA_2 | {"acks": "all"}
_JAVA_3_0_1 = _JAVA_3 | {"enable.idempotence": True}
_JAVA_3_7 = _JAVA_3_0_1 | {"retry.backoff.max.ms": 1000}
_JAVA_4 = _JAVA_3_7 | {"linger.ms": 5}
_ANNOUNCED = (
    "KIP-679: ProducerConfig says enable.idempotence=true, but the producer has it only if it is set (KAFKA-13598)"
)
_IN_FORCE = "KAFKA-13598: enable.idempotence=true is in force; KAFKA-13673: settings that contradict it switch it off"

_JAVA: tuple[Release, ...] = (
    Release(
        client="java",
        first=(2, 1),
        last=(2, 8),
        defaults=_JAVA_2,
        idempotence="asked",
        source="KIP-91: delivery.timeout.ms, and retries without end",
    ),
    Release(client="java", first=(3, 0, 0), last=(3, 0, 0), defaults=_JAVA_3, idempotence="asked", source=_ANNOUNCED),
    Release(
        client="java", first=(3, 0, 1), last=(3, 0, 2), defaults=_JAVA_3_0_1, idempotence="yields", source=_IN_FORCE
    ),
    Release(client="java", first=(3, 1, 0), last=(3, 1, 0), defaults=_JAVA_3, idempotence="asked", source=_ANNOUNCED),
    Release(client="java", first=(3, 1, 1), last=(3, 6), defaults=_JAVA_3_0_1, idempotence="yields", source=_IN_FORCE),
    Release(
        client="java",
        first=(3, 7),
        last=(3, 9),
        defaults=_JAVA_3_7,
        idempotence="yields",
        source="KIP-580: retry.backoff.max.ms",
    ),
    Release(
        client="java",
        first=(4, 0),
        last=(4, 4),
        defaults=_JAVA_4,
        idempotence="bounded",
        source="KIP-1030: linger.ms=5; KAFKA-17927: more than five in flight are an error; KIP-890: transactions of "
        "version 2",
    ),
)

_LIBRDKAFKA_0_11: dict[str, Setting] = {
    "acks": "1",
    "enable.idempotence": False,
    "retries": 2,
    "max.in.flight.requests.per.connection": 1000000,
    "retry.backoff.ms": 100,
    "delivery.timeout.ms": 300000,
    "request.timeout.ms": 5000,
    "socket.timeout.ms": 60000,
    "linger.ms": 0,
    "batch.size": 1000000,
    "batch.num.messages": 10000,
    "message.max.bytes": 1000000,
    "compression.type": "none",
    "reconnect.backoff.ms": 500,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 300000,
}
"""batch.size did not exist before 1.5: message.max.bytes was the limit of a batch. The reconnect.backoff.* did not
exist before 1.0: reconnect.backoff.jitter.ms=500 was the pause."""
_LIBRDKAFKA_1 = _LIBRDKAFKA_0_11 | {"acks": "all", "reconnect.backoff.ms": 100, "reconnect.backoff.max.ms": 10000}
_LIBRDKAFKA_1_2 = _LIBRDKAFKA_1 | {"linger.ms": "0.5"}
_LIBRDKAFKA_1_5 = _LIBRDKAFKA_1 | {"linger.ms": 5}
_LIBRDKAFKA_1_6 = _LIBRDKAFKA_1_5 | {"retries": 2147483647, "request.timeout.ms": 30000}
_LIBRDKAFKA_2_3 = _LIBRDKAFKA_1_6 | {"retry.backoff.max.ms": 1000}

_LIBRDKAFKA: tuple[Release, ...] = (
    Release(
        client="librdkafka",
        first=(0, 11),
        last=(0, 11),
        defaults=_LIBRDKAFKA_0_11,
        idempotence="absent",
        transactions=False,
        source="CONFIGURATION.md of 0.11: request.required.acks=1",
    ),
    Release(
        client="librdkafka",
        first=(1, 0),
        last=(1, 1),
        defaults=_LIBRDKAFKA_1,
        idempotence="asked",
        transactions=False,
        source="release notes of 1.0.0: the idempotent producer, acks=all",
    ),
    Release(
        client="librdkafka",
        first=(1, 2),
        last=(1, 3),
        defaults=_LIBRDKAFKA_1_2,
        idempotence="asked",
        transactions=False,
        source="CONFIGURATION.md of 1.2: queue.buffering.max.ms=0.5",
    ),
    Release(
        client="librdkafka",
        first=(1, 4),
        last=(1, 4),
        defaults=_LIBRDKAFKA_1_2,
        idempotence="asked",
        source="release notes of 1.4.0: the transactional producer",
    ),
    Release(
        client="librdkafka",
        first=(1, 5),
        last=(1, 5),
        defaults=_LIBRDKAFKA_1_5,
        idempotence="asked",
        source="release notes of 1.5.0: linger.ms=5, batch.size",
    ),
    Release(
        client="librdkafka",
        first=(1, 6),
        last=(2, 2),
        defaults=_LIBRDKAFKA_1_6,
        idempotence="asked",
        source="release notes of 1.6.0: retries without end, request.timeout.ms=30000",
    ),
    Release(
        client="librdkafka",
        first=(2, 3),
        last=(2, 16),
        defaults=_LIBRDKAFKA_2_3,
        idempotence="asked",
        source="KIP-580: retry.backoff.max.ms",
    ),
)

RELEASES: dict[Client, tuple[Release, ...]] = {"java": _JAVA, "librdkafka": _LIBRDKAFKA}
"""Maps each client to its rows, from the oldest to the newest. Older releases have no row: the Java client before 2.1
has no delivery.timeout.ms, which the contract knows, and librdkafka before 0.11 was not measured."""
_MANY = 9999
"""Greater than every number in a version."""


def newest(client: Client) -> Release:
    """Returns the row of the newest releases of `client`."""
    return RELEASES[client][-1]


def matching(client: Client, version: Version) -> list[Release]:
    """Returns the rows of `client` to which a release belongs whose number begins with `version`, from the oldest.

    With an empty `version`, returns all rows. The result is empty if no known release has such a number.
    """
    low, high = padded(version, 0), padded(version, _MANY)
    return [row for row in RELEASES[client] if padded(row.first, 0) <= high and low <= padded(row.last, _MANY)]


def spans(rows: Sequence[Release]) -> str:
    """Returns the releases of `rows` in words, the newest first, e.g. `3.7 to 4.x, 3.0.1 and 3.0.2`.

    `rows` are rows of one client, from the oldest to the newest.
    """
    of_client = RELEASES[rows[0].client]
    runs: list[list[Release]] = []
    for row in rows:
        if runs and of_client.index(row) == of_client.index(runs[-1][-1]) + 1:
            runs[-1].append(row)
        else:
            runs.append([row])
    return ", ".join(_span(run[0].first, run[-1]) for run in reversed(runs))


def text(version: Version) -> str:
    """Returns `version` as people write it, e.g. `3.0.1`."""
    return ".".join(map(str, version))


def _span(first: Version, last: Release) -> str:
    """Returns the releases from `first` to the end of the row `last` in words."""
    is_newest = last is newest(last.client)
    end = f"{last.last[0]}.x" if is_newest and last.client == "java" else text(last.last)
    if first == last.last or (is_newest and last.client == "java" and first == (last.last[0], 0)):
        return end
    joint = "and" if len(first) == 3 and first[:2] == last.last[:2] and last.last[-1] == first[-1] + 1 else "to"
    return f"{text(first)} {joint} {end}"


def padded(version: Version, number: int) -> Version:
    """Returns `version` with three numbers. `number` stands for those that it does not name."""
    return (*version, number, number, number)[:3]
