"""Tests of faults on real brokers. Each action does what its name says and has proof. A fault of a broker counts as
effective (it took effect) only if another broker became leader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.fault_stage import AT_ONCE, FaultStage
from support.patience import PATIENCE_S
from support.quiet_load import QuietLoad

from delivery_verifier.catalogue import FAULTS, PROFILES, for_one_replica, lasting
from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.contract.disturbances import disturbances
from delivery_verifier.faults.action import ActionContext, Done
from delivery_verifier.faults.actions import ACTIONS, heal
from delivery_verifier.faults.processes import Signal
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.host.processes import is_frozen
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.fault_plan import FaultStep, Trigger
from delivery_verifier.model.history import now_us
from delivery_verifier.planning.build import scenario_from_params


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> FaultStage:
    return FaultStage.of(cluster, "on-stage", PROFILES["safe"])


@pytest.fixture(autouse=True)
def _whole(stage: FaultStage) -> Iterator[None]:
    with stage.whole_afterwards():
        yield


def test_a_killed_leader_takes_effect_others_lead_its_partitions_and_it_comes_back(stage: FaultStage) -> None:
    victim, epochs = stage.leader(), stage.cluster.partitions([stage.topic])
    (made,) = stage.inject(
        FaultStep(trigger=AT_ONCE, action="kill", target="leader"),
        FaultStep(trigger=Trigger(kind="leader_moved"), action="start"),
    )
    assert made.took_effect and made.brokers == [victim]
    assert made.proof["process"] == made.proof["process_before_heal"] == {f"broker {victim}": "exited"}
    assert made.requested_at_us <= made.effect_at_us < (made.healed_at_us or 0) < (made.recovered_at_us or 0)
    now = stage.cluster.partitions([stage.topic])
    for partition in made.hit[stage.topic]:
        before, after = epochs[stage.topic, partition], now[stage.topic, partition]
        assert before.leader == victim != after.leader and after.leader_epoch > before.leader_epoch
    assert stage.cluster.states() == dict.fromkeys(stage.cluster.brokers, "running")
    own = [it for it in stage.observed() if (it.kind, it.broker) == ("process", victim)]
    seen = [it.state for it in own if it.at_us >= made.requested_at_us]
    assert seen == ["exited", "running"]


@pytest.fixture(scope="module")
def alone(stage: FaultStage) -> Iterator[FaultStage]:
    """The same cluster with topics of one replica."""
    fields = {"profile": "safe", "fault": "none", "replication_factor": 1, "min_insync_replicas": 1}
    made = scenario_from_params(fields, "alone")
    topics.create(made, stage.cluster.connection)
    names = [arm.topic_name for arm in made.arms]
    wait_until(lambda: stage.cluster.isr_full(names), "all replicas to be in sync", PATIENCE_S)
    alone = FaultStage(stage.cluster, made)
    alone.watch()
    yield alone
    stage.watch()


@pytest.mark.parametrize("plan", ["kill_leader", "stop_leader", "pause_leader", "rolling_restart"])
def test_with_one_replica_the_proof_is_that_nobody_leads_and_then_the_same_broker_does(
    alone: FaultStage, plan: str
) -> None:
    before, begun_us = alone.cluster.partitions([alone.topic]), now_us()
    steps = [
        msgspec.structs.replace(each, trigger=Trigger(kind="deposed")) if each.trigger.kind == "elapsed" else each
        for each in for_one_replica(FAULTS[plan]).steps
    ]
    made = alone.inject(*steps)
    assert [injection.took_effect for injection in made] == [True] * len(made) and made, made
    for injection in made:
        led: Any = injection.proof["deposed"]
        assert {state["leader"] for state in led.values()} == {-1}
    after = alone.cluster.partitions([alone.topic])
    assert {key: state.leader for key, state in after.items()} == {key: state.leader for key, state in before.items()}
    seen = [it for it in alone.observed() if it.at_us >= begun_us or it.kind == "partition"]
    found = [it for it in disturbances(seen, made) if it.at_us >= begun_us]
    assert found and [it.detail for it in found if not it.planned] == []


def test_all_brokers_are_down_at_once_for_the_chosen_time_and_then_all_replicas_are_in_sync(stage: FaultStage) -> None:
    before, begun_us, lasts_s = stage.cluster.partitions([stage.topic]), now_us(), 4
    (made,) = stage.inject(*lasting(FAULTS["all_brokers"], lasts_s).steps)
    down = {f"broker {broker}": "exited" for broker in stage.cluster.brokers}
    assert made.took_effect and made.proof["process"] == made.proof["process_before_heal"] == down
    assert (made.healed_at_us or 0) - made.effect_at_us >= lasts_s * 1_000_000
    assert (made.recovered_at_us or 0) > (made.healed_at_us or 0)
    assert stage.cluster.states() == dict.fromkeys(stage.cluster.brokers, "running")
    assert {*stage.cluster.partitions([stage.topic])} == {*before} and stage.cluster.isr_full(stage.topics)
    seen = [it for it in stage.observed() if it.at_us >= begun_us or it.kind == "partition"]
    found = [it for it in disturbances(seen, [made]) if it.at_us >= begun_us]
    assert sum(it.kind == "broker_crash" for it in found) == len(stage.cluster.brokers)
    assert [it.detail for it in found if not it.planned or it.kind == "unclean_election"] == []


def test_a_broker_that_survives_leaves_all_brokers_without_proof(
    stage: FaultStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, kill = stage.cluster.agent, ACTIONS["kill"]
    real = agent.apply
    assert isinstance(kill, Signal)
    monkeypatch.setitem(ACTIONS, "kill", Signal(kill.name, kill.state, deadline_s=2.0))
    monkeypatch.setattr(
        agent, "apply", lambda means, brokers, more: now_us() if brokers == [1] else real(means, brokers, more)
    )
    (made,) = stage.inject(*lasting(FAULTS["all_brokers"], 1).steps)
    assert not made.took_effect and "to be exited" in str(made.proof["failed"])


def test_after_pause_every_thread_of_the_broker_stands_still_until_it_is_resumed(stage: FaultStage) -> None:
    victim = stage.leader()
    pid = stage.pid(victim)
    ACTIONS["pause"].do(ActionContext(stage.cluster, [victim]))
    assert threads(pid) == {"T"} and is_frozen(pid)
    assert ACTIONS["pause"].proof(ActionContext(stage.cluster, [victim]), Done(0)) == {f"broker {victim}": "frozen"}
    spent = cpu_ticks(pid)
    wait_until(lambda: stage.leader() != victim, "another broker to lead", PATIENCE_S)
    assert cpu_ticks(pid) == spent
    ACTIONS["resume"].do(ActionContext(stage.cluster, [victim]))
    assert threads(pid) != {"T"} and ACTIONS["pause"].proof(ActionContext(stage.cluster, [victim]), Done(0)) == {}
    wait_until(lambda: cpu_ticks(pid) > spent, "the broker to work again", PATIENCE_S)
    assert stage.pid(victim) == pid


def threads(pid: int) -> set[str]:
    """Returns the states of all threads of the process `pid`, as one-letter codes of the kernel."""
    stats = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return {stat.rsplit(")", 1)[1].split()[0] for stat in stats}


def cpu_ticks(pid: int) -> int:
    """Returns the CPU time that the process `pid` has used so far, in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("action", ["kill", "stop", "pause"])
def test_a_signal_that_does_not_arrive_took_no_effect(
    stage: FaultStage, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    real = ACTIONS[action]
    assert isinstance(real, Signal)
    monkeypatch.setitem(ACTIONS, action, Signal(real.name, real.state, deadline_s=0.3))
    monkeypatch.setattr(stage.cluster.agent, "apply", lambda means, brokers, options: now_us())
    (made,) = stage.inject(
        FaultStep(trigger=AT_ONCE, action=action, target="leader"),
        FaultStep(trigger=Trigger(kind="leader_moved"), action="wait"),
    )
    assert not made.took_effect and not made.proof["process"] and "to be" in str(made.proof["failed"])


@pytest.mark.parametrize("action", ["kill", "stop"])
def test_a_broker_that_leads_nothing_has_ended_without_an_effect(stage: FaultStage, action: str) -> None:
    """A broker that leads no partition cannot take records from any arm. Its end is recorded as an injection that did
    not take effect."""
    victim = stage.leader()
    ACTIONS["kill"].do(ActionContext(stage.cluster, [victim]))
    wait_until(lambda: stage.leader() != victim, "another broker to lead", PATIENCE_S)
    ACTIONS["start"].do(ActionContext(stage.cluster, [victim]))
    runner = FaultRunner(stage.cluster, stage.scenario, QuietLoad())
    runner._perform(FaultStep(trigger=AT_ONCE, action=action), [victim], 0)
    runner._perform(FaultStep(trigger=AT_ONCE, action="start"), [victim], 0)
    (made,) = runner.injections.all
    assert made.proofs.process and not made.proofs.effects["leader_moved"] and not made.took_effect


def test_a_rolling_restart_takes_effect_on_each_broker_and_lets_it_recover_before_the_next(stage: FaultStage) -> None:
    plan = FAULTS["rolling_restart"].steps
    assert [step.target for step in plan if step.act.takes_effect] == ["next", "second", "third"]
    made = stage.inject(*plan[:4])  # two of three: each costs seconds
    assert [one.brokers for one in made] == [[1], [2]] and all(one.took_effect and one.action == "stop" for one in made)
    assert (made[0].recovered_at_us or 0) < made[1].effect_at_us


def test_heal_makes_killed_and_frozen_brokers_run_again(stage: FaultStage) -> None:
    ACTIONS["kill"].do(ActionContext(stage.cluster, [1]))
    ACTIONS["pause"].do(ActionContext(stage.cluster, [2]))
    assert stage.cluster.states() == {1: "exited", 2: "frozen", 3: "running"}
    heal(stage.cluster)
    assert stage.cluster.states() == dict.fromkeys((1, 2, 3), "running")


def test_a_plan_that_cannot_go_on_leaves_every_broker_running(stage: FaultStage) -> None:
    with pytest.raises(KeyError):
        stage.inject(
            FaultStep(trigger=AT_ONCE, action="kill", target="leader"),
            FaultStep(trigger=AT_ONCE, action="no such action"),
        )
    assert stage.cluster.states() == dict.fromkeys(stage.cluster.brokers, "running")
