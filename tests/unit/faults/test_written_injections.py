"""Tests of injections.json: the content that is written for an injection, key by key, for every action that must have a
measurable effect."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace
from support.fake_cluster import FakeCluster
from support.quiet_load import QuietLoad

from delivery_verifier.catalogue import ENTRIES, build
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.faults.action import Done
from delivery_verifier.faults.actions import ACTIONS
from delivery_verifier.faults.runner import FaultRunner
from delivery_verifier.host.waiting import DeadlinePassed
from delivery_verifier.model.data import dumps
from delivery_verifier.model.fault_actions import ACTS, ADD_PARTITIONS
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.history import now_us, read_injections

FIELDS = [
    "id",
    "cycle",
    "action",
    "brokers",
    "hit",
    "requested_at_us",
    "effect_at_us",
    "seen_at_us",
    "healed_at_us",
    "recovered_at_us",
    "took_effect",
    "led",
    "options",
    "proof",
]
SCENARIO = build(ENTRIES["transactional.coordinator_killed"], "run-1")
TOPICS = [arm.topic_name for arm in SCENARIO.arms]
COORDINATORS = "__transaction_state"
AT_ONCE = Trigger(kind="at_once")
EFFECT = {"broker 1": "done"}
"""The proof that the actions of these tests return."""


class TwoLeaders(Cluster):
    """A fake cluster of three brokers. `leader` leads every partition. Each election raises the leader epoch by one.


    All brokers run, or all are frozen. What else a cluster can do, the fake cluster does.
    """

    def __init__(self, leader: int) -> None:
        super().__init__(FakeCluster())
        self.leader, self.epoch, self.isr, self.runs = leader, 0, (1, 2, 3), True

    def elect(self, leader: int) -> None:
        """Makes `leader` the leader. The ISR is then brokers 2 and 3."""
        self.leader, self.epoch, self.isr = leader, self.epoch + 1, (2, 3)

    def partitions(self, topics: Iterable[str], via: int | None = None) -> dict[tuple[str, int], PartitionState]:
        """Returns the state of partition 0 of each topic; empty if no broker runs, because then no broker can
        answer."""
        state = PartitionState(
            leader=self.leader, leader_epoch=self.epoch, replicas=(1, 2, 3), isr=self.isr, elr=(), error=0
        )
        return {(topic, 0): state for topic in topics if self.runs}

    def states(self) -> dict[int, str]:
        """Returns the state of every broker. All are running, or all are frozen."""
        return dict.fromkeys(self.brokers, "running" if self.runs else "frozen")

    def isr_full(self, topics: list[str]) -> bool:
        """Returns True: every replica counts as in sync."""
        return True


class Elects:
    """A stand-in for an action: it makes broker 2 the leader. If `late` is true, it then raises DeadlinePassed."""

    def __init__(self, cluster: TwoLeaders, late: bool = False) -> None:
        self.cluster, self.late = cluster, late

    def do(self, context: Any) -> Done:
        """Makes broker 2 the leader."""
        at_us = now_us()
        self.cluster.elect(2)
        if self.late:
            raise DeadlinePassed("timed out")
        return Done(at_us)

    def proof(self, context: Any, done: Done) -> dict[str, object]:
        """Returns EFFECT, whatever happened."""
        return dict(EFFECT)


class Stops(Elects):
    """A stand-in for an action after which no broker runs, so that no broker can be asked."""

    def do(self, context: Any) -> Done:
        """Stops all brokers."""
        self.cluster.runs = False
        return Done(now_us())


class Continues(Elects):
    """An action after which all brokers run."""

    def do(self, context: Any) -> Done:
        """Lets all brokers run."""
        self.cluster.runs = True
        return Done(now_us())


@pytest.fixture
def cluster() -> TwoLeaders:
    return TwoLeaders(leader=1)


class Quiet(QuietLoad):
    """A load that sends nothing, and whose producers can be started again."""

    def restart(self) -> None:
        """Does nothing, because there is no producer."""


def inject(cluster: Any, *steps: FaultStep) -> dict[str, Any]:
    """Runs a plan, and returns the first injection as injections.json holds it. Also asserts that reading and writing
    this text gives the same text."""
    plan = FaultPlan(name="planned", summary="planned", steps=steps)
    text = dumps(list(FaultRunner(cluster, replace(SCENARIO, fault=plan), Quiet()).run()))
    assert dumps(list(read_injections(text))) == text
    injection = json.loads(text)[0]
    assert isinstance(injection, dict)
    return injection


def moved(topics: Iterable[str]) -> dict[str, Any]:
    """Returns the state of partition 0 of each of `topics` after the election, as a proof holds it."""
    return {f"{topic}-0": {"leader": 2, "leader_epoch": 1, "isr": [2, 3]} for topic in topics}


BEFORE = {f"{topic}-0": {"leader": 1, "leader_epoch": 0} for topic in TOPICS}
LEADER_MOVED = {"wanted": ["leader_moved"], "leader_moved": moved(TOPICS)}
EFFECTS: dict[tuple[str, ...], dict[str, Any]] = {
    (): {"wanted": []},
    ("leader_moved",): LEADER_MOVED,
    ("re_elected",): {"wanted": ["re_elected"], "re_elected": moved(TOPICS)},
    ("elected",): {"wanted": ["elected"], "elected": {}},
}
"""The part of a proof that depends on the required effects, by these effects. The rest of a proof is the action's own
proof, and the state before the action."""
PROOFS = {name: EFFECTS[act.proofs] for name, act in ACTS.items() if act.takes_effect and not act.by_others}


@pytest.mark.parametrize("action", PROOFS)
def test_an_injection_is_written_with_the_keys_that_stored_runs_have(
    cluster: TwoLeaders, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    monkeypatch.setitem(ACTIONS, action, Elects(cluster))
    of_no_broker = ACTS[action].clients or action == ADD_PARTITIONS
    target = "none" if of_no_broker else "leader"
    options: dict[str, Any] = {"count": 1} if action == ADD_PARTITIONS else {"a": 1}
    injection = inject(cluster, FaultStep(trigger=AT_ONCE, action=action, target=target, options=options))
    loaded = [arm.topic_name for arm in SCENARIO.loaded]
    before = {key: state for key, state in BEFORE.items() if not ACTS[action].all_partitions or key[:-2] in loaded}
    if action == ADD_PARTITIONS:
        before = {}  # what it hits was not there
    assert list(injection) == FIELDS
    assert injection["brokers"] == ([] if of_no_broker else [1]) and injection["options"] == options
    assert injection["led"] is True
    assert injection["took_effect"] is (action != "elect_unclean")
    assert injection["proof"] == {
        "process": EFFECT,
        "before": before,
        "process_before_heal": EFFECT,
        **PROOFS[action],
    }


@pytest.mark.parametrize("name", ["deposed", "isr_shrunk", "leaderless", "re_elected"])
def test_an_effect_that_a_plan_asks_for_is_written_under_its_name(
    cluster: TwoLeaders, monkeypatch: pytest.MonkeyPatch, name: Any
) -> None:
    monkeypatch.setitem(ACTIONS, "pause", Elects(cluster))
    proof = inject(cluster, FaultStep(trigger=AT_ONCE, action="pause", target="leader", proofs=(name,)))["proof"]
    assert proof["wanted"] == [name] and proof[name] == ({} if name == "leaderless" else moved(TOPICS))


def test_a_brief_injection_is_written_with_its_time(cluster: TwoLeaders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ACTIONS, "pause", Elects(cluster))
    proof = inject(cluster, FaultStep(trigger=AT_ONCE, action="pause", target="leader", proofs=("brief",)))["proof"]
    assert sorted(proof) == ["before", "brief", "process", "process_before_heal", "wanted"]
    assert sorted(proof["brief"]) == ["passed_ms", "session_ms"]


def test_a_coordinator_that_moved_is_written_with_the_partitions_that_it_had(
    cluster: TwoLeaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ACTIONS, "kill", Elects(cluster))
    step = FaultStep(trigger=AT_ONCE, action="kill", target="transaction_coordinator", proofs=("coordinator_moved",))
    proof = inject(cluster, step)["proof"]
    assert sorted(proof) == ["before", "coordinated", "coordinator_moved", "process", "process_before_heal", "wanted"]
    assert proof["coordinated"] == [0] and proof["coordinator_moved"] == moved([COORDINATORS])


def test_an_effect_that_was_waited_for_is_written_and_counts_where_no_broker_is_left_to_ask(
    cluster: TwoLeaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("delivery_verifier.host.waiting.time.sleep", lambda seconds: None)
    for name, action in {"pause": Elects(cluster), "power_off": Stops(cluster), "resume": Continues(cluster)}.items():
        monkeypatch.setitem(ACTIONS, name, action)
    injection = inject(
        cluster,
        FaultStep(trigger=AT_ONCE, action="pause", target="leader", proofs=("isr_shrunk",)),
        FaultStep(trigger=Trigger(kind="isr_shrunk"), action="power_off", target="all", proofs=()),
        FaultStep(trigger=AT_ONCE, action="resume", target="leader"),
    )
    proof = injection["proof"]
    assert sorted(proof) == ["before", "isr_shrunk", "process", "process_before_heal", "waited_for", "wanted"]
    assert proof["waited_for"] == {"isr_shrunk": moved(TOPICS)} and proof["isr_shrunk"] == moved(TOPICS)
    assert injection["took_effect"]


def test_an_injection_that_failed_is_written_with_the_reason_and_has_no_proof_before_healing(
    cluster: TwoLeaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ACTIONS, "kill", Elects(cluster, late=True))
    injection = inject(cluster, FaultStep(trigger=AT_ONCE, action="kill", target="leader"))
    assert injection["proof"] == {
        "process": {},
        "before": BEFORE,
        "wanted": ["leader_moved"],
        "failed": "timed out",
    }
    assert not injection["took_effect"] and injection["healed_at_us"] <= injection["recovered_at_us"]


def test_an_injection_is_proven_before_its_first_broker_is_healed_and_healed_with_its_last(
    cluster: TwoLeaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kill", "start"):
        monkeypatch.setitem(ACTIONS, name, Elects(cluster))
    steps = [FaultStep(trigger=AT_ONCE, action="kill", target="all", proofs=("re_elected",))]
    steps += [FaultStep(trigger=AT_ONCE, action="start", target=target) for target in ("leader", "followers")]
    elections: list[int] = []

    def elect(leader: int) -> None:
        elections.append(now_us())
        TwoLeaders.elect(cluster, leader)

    monkeypatch.setattr(cluster, "elect", elect)
    injection = inject(cluster, *steps)
    assert sorted(injection["proof"]) == ["before", "process", "process_before_heal", "re_elected", "wanted"]
    assert injection["proof"]["re_elected"] == moved(TOPICS), "the brokers that started elected twice more"
    assert len(elections) == 3 and elections[1] <= injection["healed_at_us"] <= elections[2]


def test_a_momentary_injection_is_healed_before_the_next_step(
    cluster: TwoLeaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("elect_preferred", "wait"):
        monkeypatch.setitem(ACTIONS, name, Elects(cluster))
    injection = inject(
        cluster,
        FaultStep(trigger=AT_ONCE, action="elect_preferred", target="leader"),
        FaultStep(trigger=AT_ONCE, action="wait"),
    )
    assert injection["proof"]["re_elected"] == moved(TOPICS), "the wait elected once more"


def test_an_effect_is_not_seen_while_a_partition_that_was_hit_is_unknown(
    cluster: TwoLeaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ACTIONS, "kill", Elects(cluster))
    whole = cluster.partitions

    def partitions(topics: Iterable[str], via: int | None = None) -> dict[tuple[str, int], PartitionState]:
        """Returns the states of all partitions. After the action, the last topic is missing."""
        return {key: state for key, state in whole(topics, via).items() if cluster.epoch == 0 or key[0] != TOPICS[-1]}

    monkeypatch.setattr(cluster, "partitions", partitions)
    injection = inject(cluster, FaultStep(trigger=AT_ONCE, action="kill", target="leader"))
    assert injection["proof"]["leader_moved"] == {} and not injection["took_effect"]
