"""Tests of hints: a message never proposes a property of another meaning, and says whose property a name is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from delivery_verifier.model.client import Client
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import consumer, known_names, producer, producer_names, topic
from delivery_verifier.planning.own_settings.properties import is_withheld
from delivery_verifier.planning.own_settings.translation import Translation

VALUE = "1"
ROLES = ("producer", "consumer", "topic")
EVERY = frozenset(name for owned in known_names.OWNERS for name in known_names.names(owned))


def translated(role: str, name: str, client: Client) -> Translation:
    if role == "producer":
        return producer.translate({name: VALUE}, client)
    return consumer.translate({name: VALUE}) if role == "consumer" else topic.translate({name: VALUE})


def answers(name: str) -> Iterator[tuple[str, str]]:
    """Yields each role with the sentence that it says of `name`: a refusal, or a reason to leave the name out."""
    for role in ROLES:
        for client in ("java", "librdkafka") if role == "producer" else ("java",):
            try:
                said = " ".join(translated(role, name, client).left_out)
            except BadInput as refusal:
                said = str(refusal)
            yield role, said


def test_no_hint_about_a_known_name_names_another_property() -> None:
    """The table: every name that anybody knows, in a file of each role. None is called a misspelt other name."""
    proposed = {
        (role, name): said
        for name in EVERY
        if not is_withheld(name)
        for role, said in answers(name)
        if "did you" in said
    }
    assert proposed == {}


def test_a_known_name_that_belongs_to_others_is_said_to_be_theirs() -> None:
    own = {*producer_names.EXERCISED, *producer_names.SAME, *producer_names.LEFT_OUT, *producer_names.REFUSED}
    own |= {*known_names.names("producer"), *known_names.names("librdkafka producer")}
    for name in sorted(EVERY - own):
        if not is_withheld(name):
            said = {sentence for role, sentence in answers(name) if role == "producer"}
            assert all(str(known_names.owner(name)) in sentence for sentence in said), (name, said)


@pytest.mark.parametrize(
    ("name", "role", "whose"),
    [
        ("session.timeout.ms", "producer", "a consumer's"),
        ("auto.offset.reset", "producer", "a consumer's"),
        ("min.insync.replicas", "producer", "a topic's"),
        ("plugin.path", "producer", "a Kafka Connect worker's"),
        ("offset.flush.interval.ms", "producer", "a Kafka Connect worker's"),
        ("tasks.max", "producer", "a connector's"),
        ("num.stream.threads", "producer", "Kafka Streams'"),
        ("log.dirs", "producer", "a broker's"),
        ("zookeeper.connect", "producer", "a broker's"),
        ("acks", "consumer", "a producer's"),
        ("log.retention.hours", "topic", "a broker's: a topic has retention.ms"),
        ("acks", "topic", "a producer's"),
    ],
)
def test_the_names_that_people_mix_up_are_said_to_be_whose_they_are(name: str, role: str, whose: str) -> None:
    assert all(whose in said for each, said in answers(name) if each == role)


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("lingr.ms", "; did you mean linger.ms?"),
        ("Acks", "; did you mean acks?"),
        ("lingerMs", "; did you mean linger.ms?"),
        ("enable-idempotence", "; did you mean enable.idempotence?"),
        ("session.timeut.ms", "; did you mean session.timeout.ms, which is a consumer's?"),
        ("log.connection.timeout", "; remove it, or correct its name"),
        ("timeout", "; remove it, or correct its name"),
        ("orders.topic", "; remove it, or correct its name"),
    ],
)
def test_a_name_that_nobody_knows_gets_only_a_name_that_is_spelt_alike(name: str, end: str) -> None:
    assert known_names.hint(name, producer_names.EXERCISED) == end


@pytest.mark.slow
def test_every_misspelt_name_of_another_client_keeps_its_meaning() -> None:
    """A name without one of its letters is never taken for a property of the producer with another meaning."""
    own = producer_names.EXERCISED | producer_names.SAME.keys()
    for name in sorted(known_names.names("consumer") | known_names.names("topic") | known_names.names("connect")):
        misspelt = name[: len(name) // 2] + name[len(name) // 2 + 1 :]
        near = known_names.nearest(misspelt, EVERY | own)
        assert misspelt in EVERY or near is None or near == name or near not in own or name in own, (misspelt, near)


def test_the_producers_tables_know_every_name_of_both_clients() -> None:
    for owned in ("producer", "librdkafka producer", "librdkafka"):
        for name in known_names.names(owned):
            try:
                said = " ".join(translated("producer", name, "librdkafka" if "lib" in owned else "java").left_out)
            except BadInput as refusal:
                said = str(refusal)
            assert "no producer property" not in said and "does not use it" not in said, name
