"""Tests of the topics under test."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from msgspec.structs import replace
from support.mock_broker import MockBroker

from delivery_verifier import catalogue
from delivery_verifier.cluster import foreign_topic, topics
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.scenario import Load


class Admin:
    """An admin client that keeps the topics that it is asked to create."""

    def __init__(self) -> None:
        self.created: list[Any] = []

    def create_topics(self, new: list[Any], **more: Any) -> dict[str, Future[None]]:
        self.created += new
        done: Future[None] = Future()
        done.set_result(None)
        return {topic.topic: done for topic in new}


@pytest.mark.parametrize(("settings", "number"), [({}, "1"), ({"min.insync.replicas": 2}, "2")])
def test_a_topic_names_the_number_of_replicas_that_the_contract_assumes(
    settings: dict[str, int], number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers may have another default, as those of docker-compose.yml have."""
    client = Admin()
    monkeypatch.setattr(topics, "admin", lambda connection: client)
    profile = replace(catalogue.PROFILES["safe"], topic=settings)
    scenario = catalogue.scenario("r", profile=profile, fault=catalogue.FAULTS["none"], load=Load(), records=1000)
    topics.create(scenario, Connection({broker: Address("h", 9092) for broker in (1, 2, 3)}))
    subject = scenario.subjects[0].topic_name
    assert [t.config["min.insync.replicas"] for t in client.created if t.topic == subject] == [number]
    assert all("min.insync.replicas" in topic.config for topic in client.created)


def test_to_ask_for_a_topic_that_is_not_there_creates_none() -> None:
    broker = MockBroker()
    host, port = broker.connection["bootstrap.servers"].rsplit(":", 1)
    with pytest.raises(BadInput, match="misspelt"):
        foreign_topic.facts(Connection({1: Address(host, int(port))}), "misspelt")
    assert broker.topics() == []
