"""Tests of the topics under test."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
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


def test_only_topics_with_load_begin_with_fewer_partitions_and_all_are_placed_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Admin()
    monkeypatch.setattr(topics, "admin", lambda connection: client)
    scenario = catalogue.build(catalogue.ENTRIES["consumer.partition_growth"], "r")
    topics.create(scenario, Connection({broker: Address("h", 9092) for broker in (1, 2, 3)}))
    placed, loaded = topics.assignment(scenario, (1, 2, 3)), {arm.topic_name for arm in scenario.loaded}
    assert {topic.topic for topic in client.created} == {arm.topic_name for arm in scenario.arms}
    for topic in client.created:
        count = 3 if topic.topic in loaded else 6
        assert (topic.num_partitions, topic.replica_assignment) == (count, placed[:count])


def test_to_ask_for_a_topic_that_is_not_there_creates_none() -> None:
    broker = MockBroker()
    host, port = broker.connection["bootstrap.servers"].rsplit(":", 1)
    with pytest.raises(BadInput, match="misspelt"):
        foreign_topic.facts(Connection({1: Address(host, int(port))}), "misspelt")
    assert broker.topics() == []


class MovedLeader:
    """An admin client that first finds a broker which leads no more."""

    def __init__(self, *errors: int) -> None:
        self.errors = [*errors]

    def list_offsets(self, specs: Any, **more: Any) -> dict[Any, Future[Any]]:
        answer: Future[Any] = Future()
        if self.errors:
            answer.set_exception(KafkaException(KafkaError(self.errors.pop(0))))
        else:
            answer.set_result(SimpleNamespace(offset=7))
        return dict.fromkeys(specs, answer)


def test_offsets_are_asked_again_where_a_leader_has_moved_and_not_after_another_error() -> None:
    moved: Any = MovedLeader(KafkaError.FENCED_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION)
    assert topics.last_stable_offsets(moved, [("t", 0)]) == {("t", 0): 7}
    refused: Any = MovedLeader(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        topics.start_offsets(refused, [("t", 0)])


def test_a_leader_that_is_not_found_in_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "TIMEOUT_S", 0.5)
    with pytest.raises(KafkaException, match="FENCED_LEADER_EPOCH"):
        topics.last_stable_offsets(MovedLeader(*[KafkaError.FENCED_LEADER_EPOCH] * 1000), [("t", 0)])  # type: ignore[arg-type]
