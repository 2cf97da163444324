"""Tests of what an operator does. Whatever the client raises at an election becomes an error that says what was asked
for. Partitions are added to topics that lack them, and the brokers must show them."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException
from support.fake_cluster import FakeCluster

from delivery_verifier.catalogue import ENTRIES, build
from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.faults import administration
from delivery_verifier.faults.action import ActionContext
from delivery_verifier.host.waiting import DeadlinePassed
from delivery_verifier.model.errors import StepFailed


def _elect(monkeypatch: pytest.MonkeyPatch, answer: Any) -> bool:
    future: Future[Any] = Future()
    if isinstance(answer, Exception):
        future.set_exception(answer)
    else:
        future.set_result(answer)
    admin = SimpleNamespace(elect_leaders=lambda election, partitions: future)
    monkeypatch.setattr(topics, "admin", lambda connection: admin)
    context: Any = SimpleNamespace(cluster=SimpleNamespace(connection=None))
    return administration._elect(context, ElectionType.PREFERRED, [("t", 0), ("t", 2)])


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED)), "CLUSTER_AUTHORIZATION_FAILED"),
        (KafkaException(KafkaError(KafkaError._TIMED_OUT)), "_TIMED_OUT"),
        (TimeoutError(), "no answer within 20 s"),
    ],
)
def test_an_election_that_cannot_be_asked_for_says_which(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, reason: str
) -> None:
    with pytest.raises(StepFailed, match=rf"elected no leaders \(PREFERRED\) of t-0, t-2: .*{reason}"):
        _elect(monkeypatch, raised)


@pytest.mark.parametrize(("errors", "granted"), [([None, None], True), ([None, "refused"], False)])
def test_an_election_is_granted_only_for_all_partitions(
    monkeypatch: pytest.MonkeyPatch, errors: list[object], granted: bool
) -> None:
    assert _elect(monkeypatch, dict(enumerate(errors))) is granted


GROWTH = build(ENTRIES["consumer.partition_growth"], "r")
TOPICS = [arm.topic_name for arm in GROWTH.loaded]


def grown(fake: FakeCluster, partitions: int) -> tuple[ActionContext, Any]:
    """Adds partitions to topics that have `partitions`. Returns the context, and the proof of the action."""
    state = PartitionState(1, 0, (1, 2, 3), (1, 2, 3), (), 0)
    fake.partition_states = {(topic, number): state for topic in TOPICS for number in range(partitions)}
    context = ActionContext(Cluster(fake), [], {"count": 3}, GROWTH)
    action = administration.ACTIONS["add_partitions"]
    return context, action.proof(context, action.do(context))


def test_every_topic_with_load_gets_the_partitions_where_the_plan_places_them() -> None:
    fake = FakeCluster()
    context, proof = grown(fake, 3)
    assert proof == dict.fromkeys(TOPICS, 6)
    assert fake.requested == [("create_partitions", tuple(TOPICS), 6)]
    placed = topics.assignment(GROWTH, (1, 2, 3))
    states = context.cluster.partitions(TOPICS)
    assert [list(states[TOPICS[0], number].replicas) for number in (3, 4, 5)] == placed[3:]


def test_topics_that_have_the_partitions_already_prove_nothing() -> None:
    fake = FakeCluster()
    assert grown(fake, 6)[1] == {} and fake.requested == []


def test_partitions_that_a_broker_does_not_show_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCluster()
    monkeypatch.setattr(administration, "DEADLINE_S", 0.1)
    monkeypatch.setattr(fake, "create_partitions", lambda *_: None)
    with pytest.raises(DeadlinePassed, match="every broker to show 6 partitions of every topic"):
        grown(fake, 3)
    action, context = administration.ACTIONS["add_partitions"], ActionContext(Cluster(fake), [], {}, GROWTH)
    assert action.proof(context, administration.Done(0, dict.fromkeys(TOPICS, 3))) == {}
