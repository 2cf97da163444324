"""Tests of an operator's commands on real brokers. Each command takes effect and has proof of its effect. A command
that changes nothing counts as a fault that did not take effect (had no effect)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from support.patience import PATIENCE_S
from support.quiet_load import QuietLoad

from delivery_verifier.applications.own.topic import Topic
from delivery_verifier.applications.watermarks import highest_watermarks
from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.catalogue.parts import step
from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.history import Injection
from delivery_verifier.model.scenario import Load, Scenario
from delivery_verifier.model.sink_location import SinkLocation
from delivery_verifier.settlement.acked_writer import AckedWriter

AT_ONCE = Trigger(kind="at_once")


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> Scenario:
    load = Load(partitions=1)
    made = scenario("commanded", profile=PROFILES["safe"], fault=FAULTS["none"], load=load, records=0)
    topics.create(made, cluster.connection)
    names = [arm.topic_name for arm in made.arms]
    wait_until(lambda: cluster.isr_full(names), "all replicas to be in sync", PATIENCE_S)
    cluster.agent.watch(names)
    return made


def inject(cluster: Cluster, made: Scenario, *steps: FaultStep, load: QuietLoad | None = None) -> list[Injection]:
    plan = FaultPlan(name="planned", summary="planned", steps=steps)
    return FaultRunner(cluster, msgspec.structs.replace(made, fault=plan), load or QuietLoad()).run()


class WatchedLoad(QuietLoad):
    """Writes three records to a topic for each step `send`, and notes the watermarks of the topic in `folder`."""

    def __init__(self, cluster: Cluster, topic: str, folder: Path) -> None:
        location = SinkLocation(kind="topic")
        self._reader = Topic(topic, cluster.connection.client_properties(), location, lambda _: -1, folder)
        self._connection, self._topic = cluster.connection, topic

    def send(self, blocks: int) -> None:
        writer = AckedWriter(self._connection)  # after a loss, an idempotent producer writes no more
        writer.write([(self._topic, 0, b"a record")] * 3 * blocks)
        self._reader.sizes()


def test_an_election_of_what_is_led_already_took_no_effect(cluster: Cluster, made: Scenario) -> None:
    (asked,) = inject(cluster, made, FaultStep(trigger=AT_ONCE, action="elect_unclean", target="leader"))
    assert asked.proof["process"] and not asked.proof["elected"] and not asked.took_effect


def test_a_stale_replica_leads_the_subject_once_it_is_asked_for_and_no_other_arm(
    cluster: Cluster, made: Scenario, tmp_path: Path
) -> None:
    (subject,) = made.subjects
    load = WatchedLoad(cluster, subject.topic_name, tmp_path)
    load.send(1)
    first, others, asked = inject(
        cluster,
        made,
        FaultStep(trigger=AT_ONCE, action="kill", target="other_follower", proofs=("isr_shrunk",)),
        FaultStep(trigger=Trigger(kind="isr_shrunk"), action="send", target="none"),
        FaultStep(trigger=AT_ONCE, action="kill", target="leader_and_follower", proofs=("deposed",)),
        FaultStep(trigger=AT_ONCE, action="start", target="other_follower"),
        FaultStep(trigger=Trigger(kind="deposed"), action="elect_unclean", target="other_follower"),
        FaultStep(trigger=Trigger(kind="led"), action="start", target="leader_and_follower"),
        load=load,
    )
    assert first.took_effect and others.took_effect and asked.took_effect, (first.proof, others.proof, asked.proof)
    assert list(asked.proof["elected"]) == [f"{subject.topic_name}-0"]  # type: ignore[call-overload]
    assert asked.proof["before"][f"{subject.topic_name}-0"]["leader"] == -1  # type: ignore[index]
    now = cluster.partitions([arm.topic_name for arm in made.arms])
    assert now[subject.topic_name, 0].leader == asked.brokers[0] == first.brokers[0]
    assert now[made.canary.topic_name, 0].leader in others.brokers
    load.send(2)
    before, after = highest_watermarks(tmp_path)
    assert (before.offset, after.offset) == (6, 9), "the log is longer again than it had been"
    leader = now[subject.topic_name, 0].leader
    ends = [cluster.requests.epoch_end(leader, subject.topic_name, 0, mark.epoch) for mark in (before, after)]
    assert ends == [3, 9], "three records were below the high watermark, and are gone"


def test_a_topic_gets_the_setting_and_what_it_has_already_took_no_effect(cluster: Cluster, made: Scenario) -> None:
    def alter(value: int) -> Injection:
        options = {"setting": "min.insync.replicas", "value": value}
        return inject(
            cluster, made, FaultStep(trigger=AT_ONCE, action="alter_topic", target="leader", options=options)
        )[0]

    def told() -> dict[str, str]:
        return cluster.requests.topic_setting(
            cluster.running()[0], [arm.topic_name for arm in made.arms], "min.insync.replicas"
        )

    assert set(told().values()) == {"2"}
    assert not alter(2).took_effect
    altered = alter(1)
    assert altered.took_effect and altered.healed_at_us
    assert told() == {arm.topic_name: "2" if arm.role == "canary" else "1" for arm in made.arms}


def test_topics_get_partitions_and_those_that_had_them_already_were_given_none(cluster: Cluster) -> None:
    add = step(AT_ONCE, "add_partitions", "none", count=2)
    grows = FaultPlan(name="grows", summary="Grows.", steps=(add,))
    growing = scenario("growing", profile=PROFILES["safe"], fault=grows, load=Load(partitions=3), records=0)
    topics.create(growing, cluster.connection)
    names = [arm.topic_name for arm in growing.arms]
    wait_until(lambda: cluster.isr_full(names), "all replicas to be in sync", PATIENCE_S)
    loaded = {arm.topic_name for arm in growing.loaded}

    def counts(broker: int) -> dict[str, int]:
        return dict(Counter(topic for topic, _ in cluster.partitions(names, broker)))

    assert counts(cluster.running()[0]) == {name: 1 if name in loaded else 3 for name in names}
    (added,) = inject(cluster, growing, add)
    assert added.took_effect and added.healed_at_us and added.hit == {name: [1, 2] for name in loaded}
    assert added.proof["process"] == dict.fromkeys(loaded, 3)
    assert all(counts(broker) == dict.fromkeys(names, 3) for broker in cluster.running())
    placed = topics.assignment(growing, cluster.brokers)
    replicas = {key: list(state.replicas) for key, state in cluster.partitions(names).items()}
    assert replicas == {(name, number): placed[number] for name in names for number in range(3)}
    (again,) = inject(cluster, growing, add)
    assert not again.took_effect and again.proof["process"] == {}
