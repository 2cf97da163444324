"""Tests of an operator's commands on real brokers. Each command takes effect and has proof of its effect. A command
that changes nothing counts as a fault that did not bite (had no effect)."""

from __future__ import annotations

import msgspec
import pytest
from support.quiet_load import QuietLoad

from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.history import Injection
from delivery_verifier.model.scenario import Load, Scenario

AT_ONCE = Trigger(kind="at_once")


@pytest.fixture(scope="module")
def made(cluster: Cluster) -> Scenario:
    load = Load(partitions=1, deadline_s=60)
    made = scenario("commanded", profile=PROFILES["safe"], fault=FAULTS["none"], load=load, records=0)
    topics.create(made, cluster.connection)
    names = [arm.topic_name for arm in made.arms]
    wait_until(lambda: cluster.isr_full(names), "all replicas to be in sync", 60)
    cluster.watch(names)
    return made


def inject(cluster: Cluster, made: Scenario, *steps: FaultStep) -> list[Injection]:
    plan = FaultPlan(name="planned", summary="planned", steps=steps)
    return FaultRunner(cluster, msgspec.structs.replace(made, fault=plan), QuietLoad()).run()


def test_an_election_of_what_is_led_already_has_not_bitten(cluster: Cluster, made: Scenario) -> None:
    (asked,) = inject(cluster, made, FaultStep(trigger=AT_ONCE, action="elect_unclean", target="leader"))
    assert asked.proof["process"] and not asked.proof["elected"] and not asked.bit


def test_a_stale_replica_leads_the_subject_once_it_is_asked_for_and_no_other_arm(
    cluster: Cluster, made: Scenario
) -> None:
    first, others, asked = inject(
        cluster,
        made,
        FaultStep(trigger=AT_ONCE, action="kill", target="other_follower", proofs=("isr_shrunk",)),
        FaultStep(trigger=Trigger(kind="isr_shrunk"), action="kill", target="leader_and_follower", proofs=("deposed",)),
        FaultStep(trigger=AT_ONCE, action="start", target="other_follower"),
        FaultStep(trigger=Trigger(kind="deposed"), action="elect_unclean", target="other_follower"),
        FaultStep(trigger=Trigger(kind="led"), action="start", target="leader_and_follower"),
    )
    assert first.bit and others.bit and asked.bit, (first.proof, others.proof, asked.proof)
    (subject,) = made.subjects
    assert list(asked.proof["elected"]) == [f"{subject.topic_name}-0"]  # type: ignore[call-overload]
    assert asked.proof["before"][f"{subject.topic_name}-0"]["leader"] == -1  # type: ignore[index]
    now = cluster.partitions([arm.topic_name for arm in made.arms])
    assert now[subject.topic_name, 0].leader == asked.brokers[0] == first.brokers[0]
    assert now[made.canary.topic_name, 0].leader in others.brokers


def test_a_topic_gets_the_setting_and_what_it_has_already_has_not_bitten(cluster: Cluster, made: Scenario) -> None:
    def alter(value: int) -> Injection:
        options = {"setting": "min.insync.replicas", "value": value}
        return inject(
            cluster, made, FaultStep(trigger=AT_ONCE, action="alter_topic", target="leader", options=options)
        )[0]

    def told() -> dict[str, str]:
        return cluster.topic_setting([arm.topic_name for arm in made.arms], "min.insync.replicas")

    assert set(told().values()) == {"2"}
    assert not alter(2).bit
    altered = alter(1)
    assert altered.bit and altered.healed_at_us
    assert told() == {arm.topic_name: "2" if arm.role == "canary" else "1" for arm in made.arms}
