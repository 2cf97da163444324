"""Tests of faults that end no broker's session, on real brokers. Leaders move as planned, or not at all. A fault that
moves no leader, though it should, has not taken effect."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from support.fault_stage import AT_ONCE, FaultStage
from support.patience import PATIENCE_S

from delivery_verifier.catalogue import FAULTS, PROFILES
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.contract.disturbances import disturbances
from delivery_verifier.faults import administration
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.fault_plan import FaultStep, Trigger
from delivery_verifier.model.history import Disturbance


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> FaultStage:
    return FaultStage.of(cluster, "gentle", PROFILES["transactional"])


@pytest.fixture(autouse=True)
def _whole(stage: FaultStage) -> Iterator[None]:
    with stage.whole_afterwards():
        yield


def test_a_booted_cluster_answers_at_every_broker_and_spreads_its_leaders(stage: FaultStage) -> None:
    for broker in stage.cluster.brokers:
        seen = stage.cluster.partitions([stage.topic], via=broker)
        assert sorted(seen) == [(stage.topic, partition) for partition in range(3)]
    assert {state.leader for state in seen.values()} == {1, 2, 3}
    assert all(set(state.isr) == {1, 2, 3} for state in seen.values())


def test_a_pause_shorter_than_the_session_moves_no_leader_and_took_no_effect(stage: FaultStage) -> None:
    (made,) = stage.inject(
        FaultStep(trigger=AT_ONCE, action="pause", target="leader"),
        FaultStep(trigger=Trigger(kind="elapsed", value=0.2), action="resume"),
    )
    assert made.proof["process"] and not made.proof["leader_moved"]
    assert not made.took_effect


def test_a_coordinator_that_is_frozen_for_too_short_to_be_replaced_took_no_effect(stage: FaultStage) -> None:
    (name,) = stage.scenario.transactional_ids
    settings = {
        "bootstrap.servers": stage.cluster.connection.bootstrap_servers,
        "transactional.id": name,
        "log_level": 0,
    }
    producer = Producer(settings)
    producer.init_transactions(PATIENCE_S)
    (found,) = stage.inject(
        FaultStep(trigger=AT_ONCE, action="pause", target="transaction_coordinator", proofs=("coordinator_moved",)),
        FaultStep(trigger=Trigger(kind="elapsed", value=0.2), action="resume", target="same"),
    )
    assert found.proof["process"] and found.proof["coordinated"]
    assert not found.proof["coordinator_moved"] and not found.took_effect


def test_a_preferred_election_gives_every_partition_its_next_replica_as_leader_and_harms_no_broker(
    stage: FaultStage,
) -> None:
    before = stage.cluster.partitions(stage.topics)
    (made,) = stage.inject(*FAULTS["elect_preferred"].steps[:1])
    after = stage.cluster.partitions(stage.topics)
    assert made.took_effect and sorted(made.hit) == sorted(stage.topics)
    assert all(made.hit[name] == [0, 1, 2] for name in stage.topics)
    for key, was in before.items():
        assert after[key].leader == after[key].replicas[0] == administration.rotated_replicas(was)[0] != was.leader
        assert after[key].leader_epoch > was.leader_epoch and sorted(after[key].replicas) == sorted(was.replicas)

    def seen() -> list[Disturbance]:
        return [item for item in disturbances(stage.observed(), [made]) if item.at_us > made.requested_at_us]

    wait_until(seen, "the observer to see the election", PATIENCE_S)
    assert {(item.kind, item.planned) for item in seen()} == {("leader_change", True)}


def test_an_election_that_moves_no_leader_took_no_effect(stage: FaultStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(administration, "rotated_replicas", lambda state: list(state.replicas))
    (made,) = stage.inject(*FAULTS["elect_preferred"].steps[:1])
    assert not made.proof["re_elected"] and not made.took_effect and made.recovered_at_us is not None
