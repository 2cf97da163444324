"""Tests that there is no verdict if a fault did not take effect (had no measurable effect). They cover every scenario
of the catalogue, and every fault of its plan.

These tests prove only the judge's part, with evidence made by hand. The tests in MISSES show on real brokers that an
action without effect is recorded as such. bench/campaigns/bypassed_faults.py shows both parts together.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.evidence import EFFECT_AT, HEALED, RECOVERED, evidence_of, judged

from delivery_verifier.catalogue import ENTRIES, build
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import Injection
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.verdict import ArmVerdict, RunVerdict

MISSES = {
    "kill": "test_faults.py::test_a_signal_that_does_not_arrive_took_no_effect[kill]",
    "stop": "test_faults.py::test_a_signal_that_does_not_arrive_took_no_effect[stop]",
    "pause": "test_faults.py::test_a_signal_that_does_not_arrive_took_no_effect[pause]",
    "elect_preferred": "test_gentle_faults.py::test_an_election_that_moves_no_leader_took_no_effect",
    "isolate": "test_outages.py::test_an_isolation_whose_rule_was_removed_behind_our_back_took_no_effect",
    "power_off": "test_outages.py::test_a_killed_broker_whose_disk_has_power_is_no_loss_of_power",
    "kill_producer": "test_clients.py::test_producers_that_the_signal_did_not_reach_have_not_been_killed",
    "terminate_producer": "test_clients.py::test_producers_with_nothing_in_progress_have_not_been_terminated",
    "kill_application": "test_applications.py::"
    "test_members_with_nothing_in_progress_are_killed_all_the_same_and_members_that_are_stopped_are_not",
    "stop_application": "test_applications.py::"
    "test_members_that_are_stopped_go_on_behind_their_commits_and_with_nothing_behind_them_nothing_was_tested",
    "rewind": "test_applications.py::test_a_group_that_has_committed_nothing_has_not_been_set_back",
    "freeze_application": "test_applications.py::test_members_that_were_thawed_behind_our_back_were_not_replaced",
    "thaw_application": "test_applications.py::test_a_zombie_that_never_goes_on_has_not_been_thawed",
    "resend": "test_clients.py::test_with_nothing_to_send_again_a_resend_took_no_effect",
    "drop": "test_proxy.py::test_a_proxy_that_is_bypassed_took_no_effect[drop]",
    "hold": "test_proxy.py::test_a_proxy_that_is_bypassed_took_no_effect[hold]",
    "delay": "test_proxy.py::test_a_proxy_that_is_bypassed_took_no_effect[delay]",
    "close": "test_proxy.py::test_a_proxy_that_is_bypassed_took_no_effect[close]",
    "stall": "test_proxy.py::test_a_proxy_that_is_bypassed_took_no_effect[stall]",
    "delay_end": "test_proxy.py::test_a_proxy_that_is_bypassed_took_no_effect[delay_end]",
    "elect_unclean": "test_commands.py::test_an_election_of_what_is_led_already_took_no_effect",
    "observe": "test_observe.py::test_if_nobody_breaks_anything_nothing_is_held",
    "alter_topic": "test_commands.py::test_a_topic_gets_the_setting_and_what_it_has_already_took_no_effect",
    "add_partitions": "test_commands.py::test_topics_get_partitions_and_those_that_had_them_already_were_given_none",
}
"""For each action, the test on real brokers in which this action has no effect."""

PROOFS = {
    "kill_application": "test_applications.py::test_a_crash_in_a_batch_takes_from_each_discipline_what_it_promises",
    "stop_application": "test_applications.py::"
    "test_members_that_are_stopped_go_on_behind_their_commits_and_with_nothing_behind_them_nothing_was_tested",
    "rewind": "test_applications.py::test_a_crash_in_a_batch_takes_from_each_discipline_what_it_promises",
    "freeze_application": "test_applications.py::test_an_entry_ends_with_the_numbers_that_it_expects",
    "thaw_application": "test_applications.py::test_an_entry_ends_with_the_numbers_that_it_expects",
}
"""For each action on applications, the test on real brokers that reads the proof that this action has taken effect."""

EFFECTIVE_ACTIONS = [
    (name, at)
    for name, entry in ENTRIES.items()
    for at, _ in enumerate(step for step in entry.fault.steps if step.act.takes_effect)
]


def injections(of: Scenario) -> list[Injection]:
    """Returns the injections of a plan that went well: each of them bit, was healed, and recovered."""
    hit = {arm.topic_name: [0] for arm in of.arms}
    actions = [step.action for _ in range(of.fault.cycles) for step in of.fault.steps if step.act.takes_effect]
    return [
        Injection(
            id=number,
            cycle=0,
            action=action,
            brokers=[1],
            hit=hit,
            requested_at_us=EFFECT_AT - 1,
            effect_at_us=EFFECT_AT,
            healed_at_us=HEALED,
            recovered_at_us=RECOVERED,
            took_effect=True,
        )
        for number, action in enumerate(actions)
    ]


def verdict_of(scenario: Scenario, made: list[Injection]) -> RunVerdict:
    return judged(evidence_of(scenario, injections=made))


def arms(verdict: RunVerdict) -> list[ArmVerdict]:
    return [arm for arm in verdict.arms if arm.role != "canary"]


def doubted(arm: ArmVerdict) -> bool:
    return "fault_took_no_effect" in {doubt.name for doubt in arm.doubts if doubt.kind == "coverage"}


@pytest.mark.parametrize(("entry", "at"), EFFECTIVE_ACTIONS, ids=[f"{name}-{at}" for name, at in EFFECTIVE_ACTIONS])
def test_one_fault_that_took_no_effect_or_is_not_on_record_leaves_no_arm_of_a_scenario_held(
    entry: str, at: int
) -> None:
    scenario = build(ENTRIES[entry], "run-1")
    made = injections(scenario)
    assert not any(doubted(arm) for arm in arms(verdict_of(scenario, made)))
    missed = [replace(one, took_effect=one.id != at) for one in made]
    unrecorded = [one for one in made if one.id != at]
    for found in (missed, unrecorded):
        verdict = verdict_of(scenario, found)
        assert {arm.verdict for arm in arms(verdict)} == {"INCONCLUSIVE"} and all(doubted(arm) for arm in arms(verdict))
        assert not verdict.green


def test_every_scenario_but_the_quiet_day_has_a_fault_that_must_take_effect() -> None:
    assert set(ENTRIES) - {name for name, _ in EFFECTIVE_ACTIONS} == {"everyday.none", "isolation.read_uncommitted"}


def test_every_action_that_must_take_effect_has_a_test_in_which_it_misses() -> None:
    assert set(MISSES) == {name for name, act in ACTS.items() if act.takes_effect}
    for action, test in MISSES.items():
        text, name, parameter = written(test)
        found = re.search(rf"(@pytest[^\n]*\n)?def {name}\(", text)
        assert found and (not parameter or f'"{parameter}"' in (found[1] or "")), f"{action}: {test} does not exist"


def test_every_action_on_applications_has_a_test_that_reads_its_proof() -> None:
    assert set(PROOFS) == {name for name, act in ACTS.items() if act.takes_effect and act.whom == "application"}
    for action, test in PROOFS.items():
        text, name, _ = written(test)
        body = text.partition(f"def {name}(")[2].partition("\ndef ")[0]
        assert f'"{action}"' in body and ".took_effect" in body and ".proof[" in body, (
            f"{action}: {test} reads no proof"
        )


def written(test: str) -> tuple[str, str, str | None]:
    """Returns the text of the file in which a test on real brokers stands, the name of the test, and its parameter."""
    file, name, parameter = re.fullmatch(r"(.+)::(\w+)(?:\[(\w+)\])?", test).groups()  # type: ignore[union-attr]
    tests = Path(__file__).parents[2]
    (found,) = (path for folder in ("kafka", "catalogue") for path in (tests / folder).rglob(file))
    return found.read_text(), name, parameter
