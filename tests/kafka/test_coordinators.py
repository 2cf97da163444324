"""Tests of transaction coordinators on real brokers: the fault kills the right coordinator, and another broker takes
over its transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.patience import PATIENCE_S
from support.quiet_load import QuietLoad

from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.cluster import coordinators, topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.faults.targets import Targets, Unresolved
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.coordinators import partition_of
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.history import TRANSACTION_STATE, Injection
from delivery_verifier.model.scenario import Load, Scenario

AT_ONCE = Trigger(kind="at_once")


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> Scenario:
    made = scenario("coordinated", profile=PROFILES["transactional"], fault=FAULTS["none"], load=Load(), records=0)
    topics.create(made, cluster.connection)
    names = [arm.topic_name for arm in made.arms]
    wait_until(lambda: cluster.isr_full(names), "all replicas to be in sync", PATIENCE_S)
    with pytest.raises(Unresolved, match="has no coordinator"):
        Targets(cluster, made, 0).resolve("transaction_coordinator")
    return made


@pytest.fixture(scope="module")
def producer(cluster: Cluster, made: Scenario) -> Iterator[Producer]:
    """A producer with the transactional.id of the scenario's first producer. It has committed one transaction."""
    (subject,) = made.subjects
    producer = Producer(
        {"bootstrap.servers": cluster.connection.bootstrap_servers, "transactional.id": subject.transactional_ids[0]}
    )
    producer.init_transactions(PATIENCE_S)
    _commit_one(producer, subject.topic_name)
    yield producer
    producer.purge()


def _commit_one(producer: Producer, topic: str) -> None:
    producer.begin_transaction()
    producer.produce(topic, b"one")
    producer.commit_transaction(PATIENCE_S)


def kill(cluster: Cluster, made: Scenario, target: str, *then: str) -> Injection:
    steps = [FaultStep(trigger=AT_ONCE, action="kill", target=target, proofs=("coordinator_moved",))]
    steps += [FaultStep(trigger=Trigger(kind=kind), action="start", target="same") for kind in then]  # type: ignore[arg-type]
    plan = FaultPlan(name="planned", summary="planned", steps=tuple(steps))
    return FaultRunner(cluster, msgspec.structs.replace(made, fault=plan), QuietLoad()).run()[0]


def test_the_partition_that_keeps_an_id_is_the_one_in_which_the_broker_wrote_it(
    cluster: Cluster, made: Scenario, producer: Producer
) -> None:
    name = made.subjects[0].transactional_ids[0]
    partitions = [at for _, at in cluster.partitions([TRANSACTION_STATE])]
    settings = {
        "bootstrap.servers": cluster.connection.bootstrap_servers,
        "group.id": "reads",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(TRANSACTION_STATE, at, 0) for at in partitions])
        read = iter(lambda: consumer.poll(PATIENCE_S), None)
        wrote = next(message.partition() for message in read if name.encode() in (message.key() or b""))
    finally:
        consumer.close()
    assert sorted(partitions) == [0, 1, 2] and partition_of(name, 3) == wrote


def test_a_killed_coordinator_took_effect_once_another_leads_and_transactions_go_on(
    cluster: Cluster, made: Scenario, producer: Producer
) -> None:
    before = coordinators.states(cluster, made.subjects[0].transactional_ids)
    ((partition, was),) = before.items()
    found = kill(cluster, made, "transaction_coordinator", "coordinator_moved")
    assert found.took_effect and found.brokers == [was.leader] and found.proof["coordinated"] == [partition]
    shown: Any = found.proof["coordinator_moved"]
    assert list(shown) == [f"{TRANSACTION_STATE}-{partition}"]
    assert shown[f"{TRANSACTION_STATE}-{partition}"]["leader"] not in (-1, was.leader)
    _commit_one(producer, made.subjects[0].topic_name)


def test_who_dies_without_coordinating_the_loads_transactions_took_no_effect(
    cluster: Cluster, made: Scenario, producer: Producer
) -> None:
    (state,) = coordinators.states(cluster, made.subjects[0].transactional_ids).values()
    leader = cluster.partitions([made.subjects[0].topic_name])[made.subjects[0].topic_name, 0].leader
    found = kill(cluster, made, "leader" if leader != state.leader else "follower", "isr_shrunk")
    assert state.leader not in found.brokers and found.proof["process"]
    assert not found.proof["coordinator_moved"] and not found.took_effect
