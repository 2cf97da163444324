"""Tests of the forecast of a fault plan: disturbances that several steps cause only together."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract.forecast import TARGET_BROKERS, expected_disturbances
from delivery_verifier.faults import targets
from delivery_verifier.model import fault_actions
from delivery_verifier.model.act import Act, Proof
from delivery_verifier.model.fault_plan import TARGETS, FaultPlan, FaultStep, Trigger
from delivery_verifier.model.history import Disturbance
from delivery_verifier.model.scenario import Arm

ARM = Arm(name="safe", ordinal=1, role="subject", profile=PROFILES["safe"], topic_name="t")
TRANSACTIONAL = replace(ARM, profile=PROFILES["transactional"])


@pytest.fixture(autouse=True)
def _acts(monkeypatch: pytest.MonkeyPatch) -> None:
    acts = [
        Act(
            name="test_off",
            summary="",
            takes_effect=True,
            does="exited",
            observed_as=("broker_crash",),
            counts_as=("power_loss",),
        ),
        Act(name="test_cut", summary="", takes_effect=True, counts_as=("isolation",)),
        Act(name="test_slow", summary="", takes_effect=True, counts_as=("connection_loss",)),
        Act(name="test_back", summary="", heals=("test_off", "test_cut", "test_slow")),
        Act(name="start", summary="", heals=(*fault_actions.ACTS["start"].heals, "test_off")),
    ]
    for act in acts:
        monkeypatch.setitem(fault_actions.ACTS, act.name, act)


def plan(*steps: tuple[str, str] | tuple[str, str, tuple[Proof, ...]]) -> FaultPlan:
    at_once = Trigger(kind="at_once")
    made = (
        FaultStep(trigger=at_once, action=step[0], target=step[1], proofs=step[2] if len(step) == 3 else None)
        for step in steps
    )
    return FaultPlan(name="p", summary="", steps=tuple(made))


def together(*steps: tuple[str, str] | tuple[str, str, tuple[Proof, ...]]) -> list[tuple[str, int]]:
    kinds = ("isr_power_loss", "unclean_election")
    return [(it.kind, it.replicas) for it in expected_disturbances(plan(*steps), ARM) if it.kind in kinds]


@pytest.mark.parametrize(
    ("replicas", "killed", "back", "elections"),
    [
        (2, "leader", "follower", 1),
        (3, "leader", "follower", 0),  # the other follower is in sync, and runs
        (2, "all", "other_follower", 0),  # it has no replica
        (3, "all", "other_follower", 1),
    ],
)
def test_a_replica_that_is_not_in_sync_is_elected_if_no_other_runs(
    replicas: int, killed: str, back: str, elections: int
) -> None:
    stale = "follower" if killed == "leader" else "followers"
    steps = plan(("kill", stale), ("kill", killed), ("start", back))
    kinds = [each.kind for each in expected_disturbances(steps, ARM, replicas)]
    assert kinds.count("unclean_election") == elections


def test_each_action_says_what_it_causes_and_what_it_is() -> None:
    found = expected_disturbances(plan(("test_off", "leader")), ARM)
    assert [it.kind for it in found] == ["power_loss", "broker_crash"]
    assert all(isinstance(it, Disturbance) and it.planned and it.topic == ARM.topic_name for it in found)


def test_power_of_all_replicas_takes_three_and_of_one_takes_none() -> None:
    assert together(("test_off", "all"), ("start", "all")) == [("isr_power_loss", 3)]
    assert together(("test_off", "leader"), ("start", "same")) == []


def test_the_last_replica_standing_is_one() -> None:
    assert together(("stop", "other_follower"), ("stop", "follower"), ("test_off", "leader")) == [("isr_power_loss", 1)]
    killed = together(("stop", "other_follower"), ("kill", "follower"), ("test_off", "leader"))
    assert killed == [("isr_power_loss", 2)], "a crashed one is not eligible"


def test_starting_only_a_replica_that_is_not_in_sync_asks_for_an_unclean_election() -> None:
    steps = (("kill", "other_follower"), ("kill", "leader_and_follower"))
    assert together(*steps, ("start", "other_follower")) == [("unclean_election", 0)]
    assert together(*steps, ("start", "leader")) == []
    assert together(("kill", "leader"), ("start", "leader")) == []


def test_a_short_freeze_takes_nobody_out_of_the_isr() -> None:
    steps = (("kill", "leader"), ("resume", "followers"))
    assert together(("pause", "followers", ("brief",)), *steps) == []
    assert together(("pause", "followers"), *steps) == [("unclean_election", 0)]


def test_every_target_of_a_plan_has_its_brokers_in_the_forecast() -> None:
    assert set(TARGETS) == set(TARGET_BROKERS) == set(targets._KINDS), (
        "give the new target its brokers in forecast.TARGET_BROKERS"
    )


def test_the_brokers_of_the_targets_fit_each_other() -> None:
    """The forecast elects the least broker in sync, and its plans walk through the brokers in order."""
    of = TARGET_BROKERS
    assert of["followers"] == of["all"] - of["leader"]
    assert of["follower"] | of["other_follower"] == of["followers"]
    assert of["leader_and_follower"] == of["leader"] | of["follower"]
    assert min(of["followers"]) in of["new_leader"] and len(of["new_leader"]) == 1
    assert [*of["next"], *of["second"], *of["third"]] == sorted(of["all"])
    assert of["transaction_coordinator"] == of["leader"] == {min(of["all"])}


def test_what_is_expected_is_planned() -> None:
    steps = (("kill", "other_follower"), ("kill", "leader_and_follower"), ("start", "other_follower"))
    assert all(it.planned for it in expected_disturbances(plan(*steps), ARM))
    assert all(it.planned for it in expected_disturbances(plan(("test_off", "all")), ARM))


def test_what_is_done_to_subjects_alone_is_expected_of_no_control() -> None:
    steps = plan(("elect_unclean", "leader"), ("alter_topic", "none"))
    of_subject, of_control = (
        expected_disturbances(steps, ARM),
        expected_disturbances(steps, replace(ARM, role="control")),
    )
    assert "unclean_request" in {it.kind for it in of_subject}
    assert {it.kind for it in of_control} == {"topic_altered"}


# ---- At the edges: which actions take a broker out of the ISR, and what a loss of power hits.


def expected(*steps: tuple[str, str], arm: Arm = ARM) -> list[Disturbance]:
    return expected_disturbances(plan(*steps), arm)


@pytest.mark.parametrize(
    ("action", "elections"), [("test_cut", ["unclean_election"]), ("test_off", ["unclean_election"]), ("test_slow", [])]
)
def test_only_a_broker_that_ends_or_is_cut_off_leaves_the_isr(action: str, elections: list[str]) -> None:
    steps = (action, "followers"), ("test_cut", "leader"), ("test_back", "followers")
    assert [it.kind for it in expected(*steps) if it.kind == "unclean_election"] == elections


def test_a_loss_of_power_also_hits_the_coordinator_of_an_arm_with_transactions() -> None:
    kinds = [(it.kind, it.topic, it.partitions) for it in expected(("test_off", "all"), arm=TRANSACTIONAL)]
    assert kinds[-2:] == [("isr_power_loss", "t", [0]), ("coordinator_power_loss", "", [0])]
    assert [it.kind for it in expected(("test_off", "all"))] == ["power_loss", "broker_crash", "isr_power_loss"]


def test_who_comes_back_after_a_loss_of_power_does_not_hide_it() -> None:
    steps = ("test_cut", "other_follower"), ("test_off", "leader_and_follower"), ("test_back", "other_follower")
    assert [it.kind for it in expected(*steps)][-2:] == ["unclean_election", "isr_power_loss"]
