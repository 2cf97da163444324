"""Tests of the table of releases with the Java client itself: its producers have what the table says, or refuse it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway
from support.java_producers import Effective, JavaProducers, jvm

from delivery_verifier.host.java.lock_jars import CLIENT_VERSIONS
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.own_settings import client_values, clients, effective, producer, releases
from delivery_verifier.planning.own_settings.producer_names import SAME

IN_FLIGHT = "max.in.flight.requests.per.connection"
CHOICES: dict[str, tuple[object, ...]] = {
    "acks": ("0", "1", "all", "-1"),
    "enable.idempotence": ("true", "false"),
    "retries": (0, 1, 3),
    IN_FLIGHT: (1, 5, 6, 1000),
    "transactional.id": ("t",),
    "request.timeout.ms": (10_000, 200_000, 2147483647),
    "delivery.timeout.ms": (1000, 30_000, 2147483647),
    "linger.ms": (0, 5, 100_000),
    "retry.backoff.ms": (50, 2000),
}
OWN_NAMES = {
    "message.max.bytes": "max.request.size",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}


@pytest.fixture(scope="module")
def gateway() -> Iterator[JavaGateway]:
    with jvm() as started:
        yield started


def one_by_one() -> list[dict[str, object]]:
    """Returns no settings, each value alone, and each pair of values of the settings that decide idempotence."""
    alone: list[dict[str, object]] = [{}, *({name: value} for name, values in CHOICES.items() for value in values)]
    deciding = ("acks", "enable.idempotence", "retries", IN_FLIGHT, "transactional.id")
    pairs = itertools.combinations(deciding, 2)
    return alone + [
        {first: one, second: other}
        for first, second in pairs
        for one, other in itertools.product(CHOICES[first], CHOICES[second])
    ]


def at_random(number: int) -> list[dict[str, object]]:
    """Returns `number` combinations. Left out are sums of timeouts that overflow in the Java client 2.1."""
    chance = random.Random(40)
    drawn = [
        {name: chance.choice(values) for name, values in CHOICES.items() if chance.random() < 0.5}
        for _ in range(number)
    ]
    return [each for each in drawn if each.get("request.timeout.ms") != 2147483647 or not each.get("linger.ms")]


def by_the_table(settings: Mapping[str, object], version: str) -> Effective:
    """Returns what the table says of a producer with `settings`, by the Java client's own names."""
    client = clients.parse(f"java:{version}")
    explicit = producer.translate({name: str(value) for name, value in settings.items()}, "java").settings
    try:
        full = effective.settings(explicit, client.release, client.name)
    except BadInput as error:
        return Effective({}, str(error))
    buffer = full.pop("queue.buffering.max.kbytes")
    assert isinstance(buffer, int)
    return Effective(
        {OWN_NAMES.get(name, name): value for name, value in full.items()} | {"buffer.memory": buffer * 1024}
    )


def differences(table: Effective, client: Effective) -> dict[str, Any]:
    if bool(table.refused) != bool(client.refused):
        return {"refused": (table.refused, client.refused)}
    # A client without retry.backoff.max.ms pauses equally long before each retry.
    expected = {name: value for name, value in client.settings.items() if value is not None}
    return {name: (table.settings[name], value) for name, value in expected.items() if table.settings[name] != value}


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_a_producer_of_the_java_client_has_what_the_table_says(gateway: JavaGateway, version: str) -> None:
    producers = JavaProducers(gateway, version)
    wrong = {
        str(settings): found
        for settings in (*one_by_one(), *at_random(40))
        if (found := differences(by_the_table(settings, version), producers.effective(settings)))
    }
    assert not wrong


SPELLINGS: dict[str, tuple[str, ...]] = {
    "acks": ("all", "ALL", "All", "-1", "0", "1", "01", "+1", "2"),
    "enable.idempotence": ("TRUE", "False", "1", "t", "yes"),
    "retries": ("+3", "010", "3.0", "0x3", "5s"),
    "linger.ms": ("+3", "0.5", "5s"),
    "delivery.timeout.ms": ("200000", "200s"),
    "compression.type": ("none", "gzip", "zstd"),
}


@pytest.mark.parametrize("version", CLIENT_VERSIONS)
def test_the_java_client_starts_with_the_spellings_that_are_taken(gateway: JavaGateway, version: str) -> None:
    producers = JavaProducers(gateway, version)
    wrong = [
        (name, text)
        for name, texts in SPELLINGS.items()
        for text in texts
        if producers.takes({name: text}) is bool(client_values.refusal(name, text, "java"))
    ]
    assert wrong == []


def test_another_releases_row_would_be_found(gateway: JavaGateway) -> None:
    """Shows that the comparison can fail: each row of the table differs from the producers of its neighbour."""
    for version, neighbour in (
        ("2.8.2", "3.0.0"),
        ("3.0.0", "3.0.1"),
        ("3.1.0", "3.1.1"),
        ("3.6.2", "3.7.2"),
        ("3.9.2", "4.0.2"),
    ):
        producers = JavaProducers(gateway, neighbour)
        several: tuple[dict[str, object], ...] = ({}, {IN_FLIGHT: 6}, {"retry.backoff.max.ms": 10})
        assert any(differences(by_the_table(each, version), producers.effective(each)) for each in several), version


def test_each_row_of_the_table_is_measured_at_both_ends() -> None:
    for row in releases.RELEASES["java"]:
        ends = [releases.matching("java", tuple(map(int, version.split(".")))) for version in CLIENT_VERSIONS]
        measured = [version for version, rows in zip(CLIENT_VERSIONS, ends, strict=True) if rows == [row]]
        for end in (row.first, row.last):
            assert any(
                version.startswith(f"{releases.text(end)}.") or version == releases.text(end) for version in measured
            )


@pytest.mark.parametrize("version", ["2.8.2", "4.4.0"])
def test_the_limits_of_the_java_client_are_those_of_its_configuration(gateway: JavaGateway, version: str) -> None:
    producers = JavaProducers(gateway, version)
    own = {
        librdkafka: java
        for java, librdkafka in SAME.items()
        if java in ("max.request.size", "send.buffer.bytes", "receive.buffer.bytes")
    }
    own |= {"topic.metadata.refresh.interval.ms": "metadata.max.age.ms"}
    names = (
        IN_FLIGHT,
        "retries",
        "delivery.timeout.ms",
        "request.timeout.ms",
        "linger.ms",
        "batch.size",
        "retry.backoff.ms",
        *own,
    )
    wrong = {
        (name, value): said
        for name in names
        for value in (-2, -1, 0, 1, 2147483647, 2147483648, 9223372036854775807, 9223372036854775808)
        if effective.java_takes(name, value)
        is not (said := producers.takes({own.get(name, name): value, "enable.idempotence": "false"}))
    }
    assert not wrong
