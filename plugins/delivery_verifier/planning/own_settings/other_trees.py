"""Trees of a Spring application that may set a producer or a consumer, and are not Spring Boot's own for Kafka.

Such a tree is never ignored: nobody knows then what the application's producer promises. The words of a name decide.
"""

from __future__ import annotations

from collections.abc import Iterator

from delivery_verifier.planning.own_settings import known_names
from delivery_verifier.planning.own_settings.properties import is_withheld
from delivery_verifier.planning.own_settings.spring_names import CONSUMER, PRODUCER, uniform

_PROMISING = {
    "producer": """
        acks retries enable.idempotence max.in.flight.requests.per.connection delivery.timeout.ms request.timeout.ms
        linger.ms batch.size buffer.memory transactional.id transaction.id.prefix compression.type
        """.split(),
    "consumer": "enable.auto.commit auto.offset.reset isolation.level".split(),
}
"""Names that show a client's settings even below a tree that names Kafka alone."""
_SHORT = {
    "producer": """
        idempotence idempotent in.flight max.in.flight max.in.flight.requests transactional transaction.id
        """.split(),
    "consumer": ["auto.commit", "offset.reset", "isolation"],
}
"""Names that applications of their own give these settings."""
_BOOTS = {"producer": PRODUCER, "consumer": CONSUMER}
_BOOTS_OWN = {("logging",), ("management",), ("server",), ("info",)}
"""The first parts of Spring Boot's own names, beside `spring`."""
_OTHER_BROKERS = ("rabbit", "pulsar", "rocketmq", "activemq", "jms")


def sets_client(path: tuple[str, ...], role: str) -> bool:
    """Returns whether a property may set a producer or a consumer (`role`) of the application.

    `path`: the parts of its name, in lower case and without other signs (see `spring_documents.name_path`).
    """
    if path[:2] == ("spring", "kafka"):
        return _is_of_another_client(path[2:], role)
    if path[:1] == ("spring",):
        return path[1:3] == ("cloud", "stream")
    if path[:1] in _BOOTS_OWN:
        return False
    return _is_of_an_own_client(tuple(uniform(part) for part in path), role)


def _is_of_another_client(rest: tuple[str, ...], role: str) -> bool:
    """Returns whether a property below `spring.kafka` sets a client that KafkaTemplate's own settings do not describe:
    a template with transactions of its own, or Kafka Streams."""
    if rest == ("template", "transactionidprefix"):
        return role == "producer"
    name = rest[-1]
    own = name.startswith((f"{role}.", "processing.guarantee")) or name in known_names.names(role)
    return rest[:2] == ("streams", "properties") and own and not is_withheld(name)


def _is_of_an_own_client(parts: tuple[str, ...], role: str) -> bool:
    text = "".join(parts)
    if "kafka" not in text and any(broker in text for broker in _OTHER_BROKERS):
        return False
    last, word = max((text.rfind(word), word) for word in ("producer", "consumer"))
    if last >= 0:
        return word == role and not _known(role).isdisjoint(_endings(parts, role))
    return "kafka" in text and not {uniform(name) for name in _PROMISING[role]}.isdisjoint(_endings(parts, "kafka"))


def _known(role: str) -> set[str]:
    return {uniform(name) for name in (*known_names.names(role), *_BOOTS[role], *_SHORT[role])}


def _endings(parts: tuple[str, ...], word: str) -> Iterator[str]:
    """Yields the last parts of a name as one text, and what follows `word` in its last part: `kafkaProducerAcks` ends
    with `acks`."""
    yield from ("".join(parts[start:]) for start in range(1, len(parts)))
    if word in parts[-1]:
        yield parts[-1].rpartition(word)[2]
