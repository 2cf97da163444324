"""Tests of the length of a fault: a user may choose it where brokers are away, and it is refused elsewhere."""

from __future__ import annotations

import pytest

from delivery_verifier.catalogue import FAULTS, USUAL_S
from delivery_verifier.contract.forecast import expected_disturbances
from delivery_verifier.model.fault_plan import FaultStep
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.planning.explanation import describe

ALONE = {"replication_factor": 1, "min_insync_replicas": 1}


def steps(fault: str, seconds: int | None, **more: object) -> list[tuple[str, str, float]]:
    """Returns the steps of a run: action, kind of trigger, and seconds of the trigger `elapsed`."""
    run = scenario_from_params({"fault": fault, "fault_s": seconds, **more}, "run")
    return [_in_short(step) for step in run.fault.steps]


def _in_short(step: FaultStep) -> tuple[str, str, float]:
    return step.action, step.trigger.kind, step.trigger.value if step.trigger.kind == "elapsed" else 0


@pytest.mark.parametrize(
    ("fault", "harm", "heal", "proof"),
    [
        ("kill_leader", "kill", "start", "leader_moved"),
        ("stop_leader", "stop", "start", "leader_moved"),
        ("pause_leader", "pause", "resume", "leader_moved"),
        ("all_brokers", "kill", "start", "at_once"),
    ],
)
def test_brokers_come_back_when_the_time_has_passed_and_others_lead(
    fault: str, harm: str, heal: str, proof: str
) -> None:
    assert steps(fault, 40) == [(harm, "reported", 0), ("wait", "elapsed", 40), (heal, proof, 0)]


@pytest.mark.parametrize("fault", USUAL_S)
def test_the_plan_says_how_long_and_the_load_lasts_as_much_longer(fault: str) -> None:
    usual, longer = (scenario_from_params({"fault": fault, "fault_s": seconds}, "run") for seconds in (None, 40))
    assert "The fault lasts at least 40 s." in describe(longer) and describe(longer).count("at least 40") == 1
    assert "10 s" not in longer.fault.summary
    assert longer.load.duration_s == usual.load.duration_s + 40 - USUAL_S[fault]
    shorter = scenario_from_params({"fault": fault, "fault_s": 1}, "run")
    assert 5 <= shorter.load.duration_s <= usual.load.duration_s, "the records stay close to a short fault"
    assert "--fault-s 40" in longer.command and "--fault-s" not in usual.command


@pytest.mark.parametrize("fault", ["kill_leader", "stop_leader", "pause_leader"])
def test_with_one_replica_a_longer_fault_waits_for_no_other_leader(fault: str) -> None:
    assert steps(fault, 40, **ALONE)[2][1] == "deposed"
    summary = scenario_from_params({"fault": fault, "fault_s": 40, **ALONE}, "run").fault.summary
    assert summary.endswith("no other broker can lead them. The fault lasts at least 40 s.")


@pytest.mark.parametrize("fault", sorted({*FAULTS} - {*USUAL_S, "kill_application"}))
def test_a_fault_without_a_length_refuses_one(fault: str) -> None:
    with pytest.raises(BadInput, match=rf"fault_s is 30, but the fault {fault} has no length.*all_brokers; leave"):
        scenario_from_params({"fault": fault, "fault_s": 30}, "run")


@pytest.mark.parametrize("seconds", [0, -1, 3601, 2.5, "long", True])
def test_a_length_is_a_whole_number_of_seconds_up_to_an_hour(seconds: object) -> None:
    with pytest.raises(BadInput, match=r"fault_s is .*; allowed: a whole number from 1 to 3600; e\.g\. 30"):
        scenario_from_params({"fault_s": seconds}, "run")


def test_that_every_broker_has_exited_is_the_whole_proof_of_all_brokers() -> None:
    """Nobody is left who could say who leads."""
    kill, *_ = FAULTS["all_brokers"].steps
    assert (kill.action, kill.target, kill.proofs) == ("kill", "all", ())
    assert kill.act.does == "exited" and not kill.act.momentary and not kill.act.proof_only_before_heal


def test_all_brokers_are_expected_to_crash_and_nobody_is_elected_unclean() -> None:
    run = scenario_from_params({"fault": "all_brokers", "profile": "idempotent"}, "run")
    kinds = {disturbance.kind for disturbance in expected_disturbances(run.fault, run.subjects[0])}
    assert kinds == {"broker_crash", "leader_change", "isr_shrink"}
