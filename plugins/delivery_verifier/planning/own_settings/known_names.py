"""Whose property a name is: all names that Kafka's clients, brokers and tools know, and what is near an unknown name.

A message proposes a name only if it is spelt alike, and says whose property it is. A name of another meaning would do
harm: `session.timeout.ms` is no misspelt `message.timeout.ms`. The names stand in `kafka_names.json`, with their
sources.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from delivery_verifier.load.java.settings import is_sent
from delivery_verifier.planning.own_settings import producer_names
from delivery_verifier.planning.own_settings.properties import is_withheld
from delivery_verifier.planning.own_settings.spring_names import uniform

FILE = Path(__file__).with_name("kafka_names.json")
OWNERS: dict[str, str] = {
    "producer": "a producer's",
    "librdkafka producer": "a producer's",
    "consumer": "a consumer's",
    "librdkafka consumer": "a consumer's",
    "topic": "a topic's",
    "admin": "an admin client's",
    "librdkafka": "a client's",
    "broker": "a broker's",
    "connect": "a Kafka Connect worker's",
    "connector": "a connector's",
    "mirror": "MirrorMaker's",
    "streams": "Kafka Streams'",
}
"""Maps each list of names in `kafka_names.json` to the word for whose names they are. A name in several lists belongs
to the first."""
_WORD = re.compile("[A-Za-z]?[a-z]+")
_BETWEEN = re.compile("[._-]")
_USUAL = dict.fromkeys(("broker", "brokers", "hosts", "server", "servers"), "bootstrap.servers")
"""Maps words of other programs to the name that Kafka's clients have."""
_ALIKE = 0.8
"""The least likeness (from 0 to 1) of a name that a message proposes."""
_JUDGED: dict[str, frozenset[str]] = {
    "producer": frozenset(
        """
        acks request.required.acks enable.idempotence enable.gapless.guarantee retries message.send.max.retries
        max.in.flight.requests.per.connection max.in.flight delivery.timeout.ms message.timeout.ms request.timeout.ms
        socket.timeout.ms socket.max.fails transactional.id transaction.timeout.ms
        """.split()
    ),
    "consumer": frozenset(
        "enable.auto.commit enable.auto.offset.store auto.offset.reset isolation.level group.protocol".split()
    ),
    "topic": frozenset(
        "min.insync.replicas unclean.leader.election.enable flush.messages cleanup.policy remote.storage.enable".split()
    ),
}
"""The properties of each role on which a promise, or the refusal of the whole file, depends."""
_SERIALIZERS = """
    spring.json. spring.deserializer. json. avro. protobuf. specific.avro. specific.protobuf. apicurio.registry.
    key.subject.name.strategy value.subject.name.strategy context.name.strategy auto.register.schemas
    use.latest.version use.latest.with.metadata use.schema.id latest.compatibility.strict latest.cache normalize.schemas
    id.compatibility.strict max.schemas.per.subject reference.subject.name.strategy schema.format schema.reflection
    rule.actions rule.executors rule.service.loader.enable proxy.host proxy.port http.connect.timeout.ms
    http.read.timeout.ms
    """.split()
"""What the names of serializers' own properties begin with: those of Spring for Apache Kafka (`JsonSerializer`,
`ErrorHandlingDeserializer`), Confluent (`AbstractKafkaSchemaSerDeConfig`) and Apicurio."""


def owner(name: str) -> str | None:
    """Returns whose property `name` is, e.g. `a consumer's`. Returns None for a name that nobody knows."""
    return next((word for owned, word in OWNERS.items() if name in names(owned)), None)


@cache
def names(owned: str) -> frozenset[str]:
    """Returns the names in one list of `kafka_names.json`. `owned` is a key of OWNERS."""
    return frozenset(_table()["names"][owned])


@cache
def topic_of_broker() -> dict[str, tuple[str, int]]:
    """Maps a broker's property to the topic property for which it is the default, and to the factor between their
    units, e.g. 3600000 for hours and ms."""
    return {name: (topic, factor) for name, (topic, factor) in _table()["topic_of_broker"].items()}


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(FILE.read_text())
    return table


def hint(name: str, known: Iterable[str]) -> str:
    """Returns the end of an error message about `name`, which is not in `known`.

    The text says whose property `name` is. If nobody knows it, the text proposes the name that is spelt most alike, in
    `known` or not, and then says whose property that is. If no name is alike, it tells the user to remove `name` or to
    correct it.
    """
    allowed = set(known) - producer_names.REFUSED.keys()
    if whose := owner(name):
        return f", but {whose}; remove it here"
    if _WORD.fullmatch(name):  # most names of several words are alike to some part of them
        near = _USUAL.get(name.lower()) or nearest(name, filter(_WORD.fullmatch, allowed))
    else:
        near = nearest_of_all(name, allowed)
    if near is None:
        return "; remove it, or correct its name"
    return f"; did you mean {near}{'' if near in allowed else f', which is {owner(near)}'}?"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the name in `known` that is spelt like `name`, or None. A name that differs only in case and in the
    signs between its words comes first, and then the shortest that goes on where a `name` of three words or more
    ends."""
    folded: dict[str, str] = {}
    for each in sorted(known):
        folded.setdefault(uniform(each), each)
    if not (text := uniform(name)):
        return None
    longer = [each for each in folded if each.startswith(text)] if len(_BETWEEN.findall(name)) > 1 else []
    if longer and text not in folded:
        return folded[min(longer, key=len)]
    matches = difflib.get_close_matches(text, folded, n=1, cutoff=_ALIKE)
    return folded[matches[0]] if matches else None


def is_spelling(name: str) -> bool:
    """Returns whether `name` differs from a known name only in case and in the signs between its words."""
    return uniform(name) in _uniform_names()


@cache
def _uniform_names() -> frozenset[str]:
    return frozenset(uniform(name) for owned in OWNERS for name in names(owned))


def nearest_of_all(name: str, more: Iterable[str] = ()) -> str | None:
    """Returns the name that is spelt like `name`, among all that anybody knows and `more`; None if there is none."""
    every = {*more, *(each for owned in OWNERS for each in names(owned))}
    return nearest(name, every - producer_names.REFUSED.keys())


def is_gone(name: str) -> bool:
    """Returns whether a table of the producer refuses the name: it was a property once, or is not to be verified."""
    return name in producer_names.REFUSED


def spelt(text: str, role: str) -> list[str]:
    """Returns Kafka's own names of the `role` (producer or consumer) that differ from `text` only in case and in the
    signs between words."""
    return sorted(name for name in names(role) if uniform(name) == uniform(text))


def is_judged(name: str, role: str) -> bool:
    """Returns whether the value of the property matters: a promise depends on it, or it is refused whatever it is.

    `role`: whose settings they are: `producer`, `consumer` or `topic`.
    """
    if name in _JUDGED[role] or name in producer_names.REFUSED:
        return True
    return owner(name) is None and not is_serializers(name) and name not in producer_names.LEFT_OUT


def is_librdkafkas(name: str) -> bool:
    """Returns whether librdkafka's producer has the property, and the Java client's does not."""
    return name in (names("librdkafka producer") | names("librdkafka")) - names("producer")


def reaches_java(name: str) -> bool:
    """Returns whether an arm with the Java client gets the property as a user wrote it: the Java client's producer has
    it, it is none of a connection, and no run sets it itself. Only such properties are kept in a run directory."""
    is_javas = name in names("producer") or (name in producer_names.LEFT_OUT and not is_librdkafkas(name))
    return is_javas and is_sent(name) and not is_withheld(name)


def is_serializers(name: str) -> bool:
    """Returns whether the property is one of a serializer or a deserializer, which Kafka's clients pass on."""
    return name.startswith(tuple(_SERIALIZERS))


def is_connection(name: str) -> bool:
    """Returns whether `name`, in any spelling, says where a cluster is and how to log in there."""
    return uniform(name).startswith(("bootstrapservers", "ssl", "sasl", "security", "clientid"))
