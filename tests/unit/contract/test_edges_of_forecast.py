"""Tests of the forecast at the edges: which actions take a broker out of the ISR, and what a loss of power hits."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract.forecast import expected_disturbances
from delivery_verifier.model import fault_actions
from delivery_verifier.model.act import Act
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.history import Disturbance
from delivery_verifier.model.scenario import Arm

ARM = Arm(name="safe", ordinal=1, role="subject", profile=PROFILES["safe"], topic_name="t")
TRANSACTIONAL = replace(ARM, profile=PROFILES["transactional"])


@pytest.fixture(autouse=True)
def _acts(monkeypatch: pytest.MonkeyPatch) -> None:
    acts = {
        "test_off": Act(name="test_off", summary="", bites=True, does="exited", counts_as=("power_loss",)),
        "test_cut": Act(name="test_cut", summary="", bites=True, counts_as=("isolation",)),
        "test_slow": Act(name="test_slow", summary="", bites=True, counts_as=("connection_loss",)),
        "test_back": Act(name="test_back", summary="", heals=("test_off", "test_cut", "test_slow")),
    }
    for name, act in acts.items():
        monkeypatch.setitem(fault_actions.ACTS, name, act)


def expected(*steps: tuple[str, str], arm: Arm = ARM) -> list[Disturbance]:
    at_once = Trigger(kind="at_once")
    plan = tuple(FaultStep(trigger=at_once, action=action, target=target) for action, target in steps)
    return expected_disturbances(FaultPlan(name="p", summary="", steps=plan), arm)


@pytest.mark.parametrize(
    ("action", "elections"), [("test_cut", ["unclean_election"]), ("test_off", ["unclean_election"]), ("test_slow", [])]
)
def test_only_a_broker_that_ends_or_is_cut_off_leaves_the_isr(action: str, elections: list[str]) -> None:
    steps = (action, "followers"), ("test_cut", "leader"), ("test_back", "followers")
    assert [it.kind for it in expected(*steps) if it.kind == "unclean_election"] == elections


def test_a_loss_of_power_also_hits_the_coordinator_of_an_arm_with_transactions() -> None:
    kinds = [(it.kind, it.topic, it.partitions) for it in expected(("test_off", "all"), arm=TRANSACTIONAL)]
    assert kinds[-2:] == [("isr_power_loss", "t", [0]), ("coordinator_power_loss", "", [0])]
    assert [it.kind for it in expected(("test_off", "all"))] == ["power_loss", "isr_power_loss"]


def test_who_comes_back_after_a_loss_of_power_does_not_hide_it() -> None:
    steps = ("test_cut", "other_follower"), ("test_off", "leader_and_follower"), ("test_back", "other_follower")
    assert [it.kind for it in expected(*steps)][-2:] == ["unclean_election", "isr_power_loss"]
