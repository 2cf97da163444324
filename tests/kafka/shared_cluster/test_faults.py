"""Tests of faults on real brokers. Each action does what its name says and has proof. A fault of a broker counts as
effective (it bit) only if another broker became leader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from support.patience import PATIENCE_S
from support.quiet_load import QuietLoad

from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.cluster import lease, topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.contract.disturbances import disturbances
from delivery_verifier.faults import administration
from delivery_verifier.faults.action import ActionContext
from delivery_verifier.faults.actions import ACTIONS, heal
from delivery_verifier.faults.processes import Signal
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.host.processes import is_frozen
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.history import Injection, Observation, now_us
from delivery_verifier.model.scenario import Load, Scenario

AT_ONCE = Trigger(kind="at_once")


@dataclass
class Stage:
    """A cluster, and a scenario whose topics exist on the cluster."""

    cluster: Cluster
    scenario: Scenario

    @property
    def topic(self) -> str:
        return self.scenario.subjects[0].topic_name

    def leader(self) -> int:
        return self.cluster.partitions([self.topic])[self.topic, 0].leader

    def pid(self, broker: int) -> int:
        return int(lease.call(self.cluster.socket, "status")["nodes"][str(broker)]["pid"])

    def inject(self, *steps: FaultStep) -> list[Injection]:
        at_once = [
            msgspec.structs.replace(step, trigger=AT_ONCE) if step.trigger.kind == "reported" else step
            for step in steps
        ]
        plan = FaultPlan(name="planned", summary="planned", steps=tuple(at_once))
        made = msgspec.structs.replace(self.scenario, fault=plan)
        return FaultRunner(self.cluster, made, QuietLoad()).run()

    def observed(self) -> list[Observation]:
        lines = (self.cluster.workspace / "observations.jsonl").read_bytes()
        return msgspec.json.Decoder(Observation).decode_lines(lines)


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Stage:
    made = scenario(
        "on-stage", profile=PROFILES["safe"], fault=FAULTS["none"], load=Load(deadline_s=PATIENCE_S), records=0
    )
    topics.create(made, cluster.connection)
    names = [arm.topic_name for arm in made.arms]
    wait_until(lambda: cluster.isr_full(names), "all replicas to be in sync", PATIENCE_S)
    cluster.watch(names)
    return Stage(cluster, made)


@pytest.fixture(autouse=True)
def _whole(stage: Stage) -> Iterator[None]:
    yield
    heal(stage.cluster)
    wait_until(
        lambda: stage.cluster.isr_full([arm.topic_name for arm in stage.scenario.arms]),
        "the cluster to be whole",
        PATIENCE_S,
    )


def test_a_booted_cluster_answers_at_every_broker_and_spreads_its_leaders(stage: Stage) -> None:
    for broker in stage.cluster.brokers:
        seen = stage.cluster.partitions([stage.topic], via=broker)
        assert sorted(seen) == [(stage.topic, partition) for partition in range(3)]
    assert {state.leader for state in seen.values()} == {1, 2, 3}
    assert all(set(state.isr) == {1, 2, 3} for state in seen.values())


def test_a_killed_leader_bites_others_lead_its_partitions_and_it_comes_back(stage: Stage) -> None:
    victim, epochs = stage.leader(), stage.cluster.partitions([stage.topic])
    (made,) = stage.inject(
        FaultStep(trigger=AT_ONCE, action="kill", target="leader"),
        FaultStep(trigger=Trigger(kind="leader_moved"), action="start"),
    )
    assert made.bit and made.brokers == [victim]
    assert made.proof["process"] == made.proof["process_before_heal"] == {f"broker {victim}": "exited"}
    assert made.requested_at_us <= made.bite_at_us < (made.healed_at_us or 0) < (made.recovered_at_us or 0)
    now = stage.cluster.partitions([stage.topic])
    for partition in made.hit[stage.topic]:
        before, after = epochs[stage.topic, partition], now[stage.topic, partition]
        assert before.leader == victim != after.leader and after.leader_epoch > before.leader_epoch
    assert stage.cluster.states() == dict.fromkeys(stage.cluster.brokers, "running")
    seen = [it.state for it in stage.observed() if it.broker == victim and it.at_us >= made.requested_at_us]
    assert seen == ["exited", "running"]


def test_after_pause_every_thread_of_the_broker_stands_still_until_it_is_resumed(stage: Stage) -> None:
    victim = stage.leader()
    pid = stage.pid(victim)
    ACTIONS["pause"].do(ActionContext(stage.cluster, [victim]))
    assert threads(pid) == {"T"} and is_frozen(pid)
    assert ACTIONS["pause"].proof(ActionContext(stage.cluster, [victim])) == {f"broker {victim}": "frozen"}
    spent = cpu_ticks(pid)
    wait_until(lambda: stage.leader() != victim, "another broker to lead", PATIENCE_S)
    assert cpu_ticks(pid) == spent
    ACTIONS["resume"].do(ActionContext(stage.cluster, [victim]))
    assert threads(pid) != {"T"} and ACTIONS["pause"].proof(ActionContext(stage.cluster, [victim])) == {}
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


def test_a_pause_shorter_than_the_session_moves_no_leader_and_has_not_bitten(stage: Stage) -> None:
    (made,) = stage.inject(
        FaultStep(trigger=AT_ONCE, action="pause", target="leader"),
        FaultStep(trigger=Trigger(kind="elapsed", value=0.2), action="resume"),
    )
    assert made.proof["process"] and not made.proof["leader_moved"]
    assert not made.bit


@pytest.mark.parametrize("action", ["kill", "stop", "pause"])
def test_a_signal_that_does_not_arrive_has_not_bitten(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    real = ACTIONS[action]
    assert isinstance(real, Signal)
    monkeypatch.setitem(ACTIONS, action, Signal(real.name, real.state, deadline_s=0.3))
    monkeypatch.setattr(Cluster, "send", lambda cluster, broker, name: now_us())
    (made,) = stage.inject(
        FaultStep(trigger=AT_ONCE, action=action, target="leader"),
        FaultStep(trigger=Trigger(kind="leader_moved"), action="wait"),
    )
    assert not made.bit and not made.proof["process"] and "to be" in str(made.proof["failed"])


@pytest.mark.parametrize("action", ["kill", "stop"])
def test_a_broker_that_leads_nothing_has_ended_without_a_bite(stage: Stage, action: str) -> None:
    """A broker that leads no partition cannot take records from any arm. Its end is recorded as an injection that did
    not bite."""
    victim = stage.leader()
    ACTIONS["kill"].do(ActionContext(stage.cluster, [victim]))
    wait_until(lambda: stage.leader() != victim, "another broker to lead", PATIENCE_S)
    ACTIONS["start"].do(ActionContext(stage.cluster, [victim]))
    runner = FaultRunner(stage.cluster, stage.scenario, QuietLoad())
    runner._perform(FaultStep(trigger=AT_ONCE, action=action), [victim], 0)
    runner._perform(FaultStep(trigger=AT_ONCE, action="start"), [victim], 0)
    (made,) = runner.injections.all
    assert made.proofs.process and not made.proofs.effects["leader_moved"] and not made.bit


def test_a_preferred_election_gives_every_partition_its_next_replica_as_leader_and_harms_no_broker(
    stage: Stage,
) -> None:
    names = [arm.topic_name for arm in stage.scenario.arms]
    before = stage.cluster.partitions(names)
    (made,) = stage.inject(*FAULTS["elect_preferred"].steps[:1])
    after = stage.cluster.partitions(names)
    assert made.bit and sorted(made.hit) == sorted(names) and all(made.hit[name] == [0, 1, 2] for name in names)
    for key, was in before.items():
        assert after[key].leader == after[key].replicas[0] == administration.rotated_replicas(was)[0] != was.leader
        assert after[key].leader_epoch > was.leader_epoch and sorted(after[key].replicas) == sorted(was.replicas)
    assert {item.kind for item in disturbances(stage.observed(), [made]) if item.at_us > made.requested_at_us} == {
        "leader_change"
    }
    assert all(item.planned for item in disturbances(stage.observed(), [made]) if item.at_us > made.requested_at_us)


def test_an_election_that_moves_no_leader_has_not_bitten(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(administration, "rotated_replicas", lambda state: list(state.replicas))
    (made,) = stage.inject(*FAULTS["elect_preferred"].steps[:1])
    assert not made.proof["re_elected"] and not made.bit and made.recovered_at_us is not None


def test_a_rolling_restart_bites_on_each_broker_and_lets_it_recover_before_the_next(stage: Stage) -> None:
    plan = FAULTS["rolling_restart"].steps
    assert [step.target for step in plan if step.act.bites] == ["next", "second", "third"]
    made = stage.inject(*plan[:4])  # two of three: each costs seconds
    assert [one.brokers for one in made] == [[1], [2]] and all(one.bit and one.action == "stop" for one in made)
    assert (made[0].recovered_at_us or 0) < made[1].bite_at_us


def test_heal_makes_killed_and_frozen_brokers_run_again(stage: Stage) -> None:
    ACTIONS["kill"].do(ActionContext(stage.cluster, [1]))
    ACTIONS["pause"].do(ActionContext(stage.cluster, [2]))
    assert stage.cluster.states() == {1: "exited", 2: "frozen", 3: "running"}
    heal(stage.cluster)
    assert stage.cluster.states() == dict.fromkeys((1, 2, 3), "running")


def test_a_plan_that_cannot_go_on_leaves_every_broker_running(stage: Stage) -> None:
    with pytest.raises(KeyError):
        stage.inject(
            FaultStep(trigger=AT_ONCE, action="kill", target="leader"),
            FaultStep(trigger=AT_ONCE, action="no such action"),
        )
    assert stage.cluster.states() == dict.fromkeys(stage.cluster.brokers, "running")
