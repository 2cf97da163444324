"""The observer on real brokers: it looks all the time while brokers die, and sees an internal topic come into being."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from confluent_kafka import ElectionType, Producer, TopicPartition
from support.patience import PATIENCE_S
from support.plays import MomentMissed, played
from support.quiet_load import QuietLoad
from support.silence import listened

from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.history import LEAD_US, TRANSACTION_STATE, Observation, now_us
from delivery_verifier.model.scenario import Load, Scenario
from delivery_verifier.settlement.acked_writer import AckedWriter

AT_ONCE = Trigger(kind="at_once")


@pytest.fixture(scope="module")
def watched(cluster: Cluster) -> Scenario:
    made = scenario("observed", profile=PROFILES["safe"], fault=FAULTS["none"], load=Load(), records=0)
    topics.create(made, cluster.connection)
    names = [arm.topic_name for arm in made.arms]
    wait_until(lambda: cluster.isr_full(names), "all replicas to be in sync", PATIENCE_S)
    cluster.agent.watch([*names, TRANSACTION_STATE])
    return made


def observed(cluster: Cluster) -> list[Observation]:
    lines = (cluster.workspace / "observations.jsonl").read_bytes()
    return msgspec.json.Decoder(Observation).decode_lines(lines[: lines.rfind(b"\n") + 1])


def heartbeats(cluster: Cluster) -> list[Observation]:
    return [observation for observation in observed(cluster) if observation.kind == "heartbeat"]


def test_a_watched_topic_that_does_not_exist_hides_no_other_and_is_seen_once_it_does(
    cluster: Cluster, watched: Scenario
) -> None:
    topic = watched.subjects[0].topic_name
    wait_until(
        lambda: len({it.partition for it in observed(cluster) if it.topic == topic}) == 3, "the topic", PATIENCE_S
    )
    assert not [it for it in observed(cluster) if it.topic == TRANSACTION_STATE]
    Producer(
        {"bootstrap.servers": cluster.connection.bootstrap_servers, "transactional.id": "observed"}
    ).init_transactions(PATIENCE_S)
    wait_until(
        lambda: {it.partition for it in observed(cluster) if it.topic == TRANSACTION_STATE} == {0, 1, 2},
        "the partitions of the coordinators",
        PATIENCE_S,
    )


@pytest.mark.parametrize("target", ["leader", "all"])
def test_the_observer_is_never_blind_while_brokers_die_and_come_back(
    cluster: Cluster, watched: Scenario, target: str
) -> None:
    """A broker that is down must not delay the questions to the others. A host that stalls delays them all, and shows
    nothing."""
    played(lambda: look_for_a_blind_observer(cluster, watched, target))


def wait_for_a_window(cluster: Cluster, from_us: int) -> None:
    """Waits until the observer has looked for so long since `from_us` that a window before an injection fits."""

    def fits() -> bool:
        seen_us = [it.at_us for it in heartbeats(cluster) if it.at_us >= from_us]
        return bool(seen_us) and seen_us[-1] - seen_us[0] > LEAD_US

    wait_until(fits, "heartbeats before the injection", PATIENCE_S)


def look_for_a_blind_observer(cluster: Cluster, watched: Scenario, target: str) -> None:
    steps = (
        FaultStep(trigger=AT_ONCE, action="kill", target=target),
        FaultStep(trigger=AT_ONCE, action="start", target="same"),
    )
    plan = FaultPlan(name="planned", summary="planned", steps=steps)
    with listened(cluster.socket) as silence:
        wait_for_a_window(cluster, now_us())
        (made,) = FaultRunner(cluster, msgspec.structs.replace(watched, fault=plan), QuietLoad()).run()
        end_us = (made.recovered_at_us or 0) + OBSERVER_LAG_US
        # A heartbeat speaks of the time since the one before. Heartbeats are a second apart, and so is the effect from
        # the beginning of its window. On a starved host the first heartbeat in the window may be later than the effect.
        wait_until(lambda: heartbeats(cluster)[-1].at_us >= end_us, "the heartbeat after the injection", PATIENCE_S)
    if silence.longest_s * 1e6 > OBSERVER_LAG_US:
        raise MomentMissed(
            f"the cluster agent, in which the observer runs, did not answer for {silence.longest_s:.1f} s"
        )
    beats = heartbeats(cluster)
    assert beats[0].at_us < made.effect_at_us - LEAD_US
    during = [
        now for before, now in pairwise(beats) if now.at_us > made.effect_at_us - LEAD_US and before.at_us < end_us
    ]
    # A starved host may delay the questions by a little.
    assert max(it.pause_us for it in during) <= 2 * OBSERVER_LAG_US, [it.pause_us for it in during]
    assert all(before.at_us <= now.at_us for before, now in pairwise(observed(cluster)))


def test_every_new_leader_says_how_far_its_log_reached_when_it_was_elected(cluster: Cluster, watched: Scenario) -> None:
    topic, client = watched.subjects[0].topic_name, topics.admin(cluster.connection)
    before = wait_until(lambda: _last_state(cluster, topic), "the first observation of the partition", PATIENCE_S)
    starts, written = {before.leader_epoch: 0}, 0
    for count in (7, 5):
        AckedWriter(cluster.connection).write([(topic, 0, b"record")] * count)
        written += count
        old = cluster.partitions([topic])[topic, 0]
        heirs = [broker for broker in old.replicas if broker != old.leader]
        cluster.requests.assign_replicas(cluster.running()[0], {(topic, 0): [*heirs, old.leader]})
        client.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(60)
        moved = wait_until(lambda old=old: _moved(cluster, topic, old), "another leader", PATIENCE_S)  # type: ignore[misc]
        starts[moved.leader_epoch] = written
    last = max(starts)
    wait_until(lambda: _epochs(cluster, topic).get(last), f"what the leader of epoch {last} says", PATIENCE_S)
    said = _epochs(cluster, topic)
    for epoch in list(starts)[1:]:
        known = dict(zip(said[epoch].epochs, said[epoch].epoch_starts, strict=True))
        assert known[epoch] == starts[epoch], "the end of its log when it was elected"
        leader = cluster.partitions([topic])[topic, 0].leader
        ends = [cluster.requests.epoch_end(leader, topic, 0, number) for number in said[epoch].epochs[:-1]]
        assert said[epoch].epoch_starts == [0, *ends], "where the epoch before it ends, by the log of today"


def _last_state(cluster: Cluster, topic: str) -> Observation | None:
    states = [it for it in observed(cluster) if (it.topic, it.partition, it.kind) == (topic, 0, "partition")]
    return states[-1] if states else None


def _moved(cluster: Cluster, topic: str, old: PartitionState) -> PartitionState | None:
    now = cluster.partitions([topic])[topic, 0]
    return now if now.leader >= 0 and now.leader_epoch > old.leader_epoch and now.leader != old.leader else None


def _epochs(cluster: Cluster, topic: str) -> dict[int, Observation]:
    seen = [it for it in observed(cluster) if (it.topic, it.partition, it.kind) == (topic, 0, "epochs")]
    assert len({it.leader_epoch for it in seen}) == len(seen), "each leader says it once"
    return {it.leader_epoch: it for it in seen}
