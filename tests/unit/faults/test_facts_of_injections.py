"""Tests of what an action did: its injection keeps it. An action keeps nothing, so that no injection is proved by what
another one did."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest
from support.evidence import RUN
from support.fake_cluster import FakeCluster
from support.quiet_load import QuietLoad

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults import applications as module
from delivery_verifier.faults.action import Done
from delivery_verifier.faults.actions import ACTIONS, heal
from delivery_verifier.faults.injections import Injections
from delivery_verifier.faults.user_applications import goes_on
from delivery_verifier.model.fault_plan import FaultStep, Trigger

CONTEXT: Any = None
"""What was done is all that a proof of a rewind or a thaw asks for."""


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_keeps_nothing(name: str) -> None:
    with pytest.raises(AttributeError):
        ACTIONS[name].facts = {"of": "the last injection"}  # type: ignore[attr-defined]
    assert all(isinstance(value, str | float) for value in vars(ACTIONS[name]).values())


@pytest.mark.parametrize("name", ["rewind", "thaw_application"])
def test_two_injections_of_one_action_are_each_proved_by_their_own_facts(name: str) -> None:
    first, second, without = Done(1, {"rewound a": 7}), Done(2, {"rewound a": 9}), Done(3)
    proofs = [ACTIONS[name].proof(CONTEXT, done) for done in (first, without, second, first)]
    assert proofs == [first.facts, {}, second.facts, first.facts]


def test_a_group_that_was_not_set_back_proves_no_rewind() -> None:
    assert ACTIONS["rewind"].proof(CONTEXT, Done(1, {"rewound a": 7, "rewound b": 0})) == {}


def killed(cluster: Cluster) -> Injections:
    """Injections into applications that SIGKILL always ends."""
    applications: Any = SimpleNamespace(
        own=SimpleNamespace(arms=[]), kill=lambda: None, exits=lambda: {"a/0": -signal.SIGKILL}, parked_at=dict,
        in_progress=dict, members=1,
    )  # fmt: skip
    return Injections(cluster, RUN, QuietLoad(), applications)


KILL = FaultStep(trigger=Trigger(kind="at_once"), action="kill_application", target="none")


def test_an_injection_that_is_still_open_is_not_proved_by_what_a_later_one_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first kill an application goes on, after the second none does."""
    injections, goes = killed(Cluster(FakeCluster())), iter((True, False))
    monkeypatch.setattr(module, goes_on.__name__, lambda context: next(goes))
    for cycle in range(2):
        injections.inject(KILL, [], cycle)
    assert len(injections.open) == 2
    for injection in list(injections.open):
        injections.prove(injection)
    assert [injection.took_effect for injection in injections.all] == [False, True]
    assert [bool(injections.action_proof(injection)) for injection in injections.all] == [False, True]


def test_an_action_that_is_not_complete_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def go_wrong(context: Any) -> bool:
        raise TimeoutError

    injections = killed(Cluster(FakeCluster()))
    monkeypatch.setattr(module, goes_on.__name__, go_wrong)
    with pytest.raises(TimeoutError):
        injections.inject(KILL, [], 0)
    (injection,) = injections.open
    assert injection.done is None and injections.action_proof(injection) == {}


def test_healing_says_what_it_healed() -> None:
    fake = FakeCluster(capabilities=("network",))
    cluster = Cluster(fake)
    assert heal(cluster).facts == {}
    fake.process_states |= {1: "frozen", 2: "exited"}
    fake.isolated[3] = ["controller"]
    assert heal(cluster).facts == {"broker 1": "running", "broker 2": "running"}
    assert set(cluster.states().values()) == {"running"} and not fake.isolated
