"""Limits: whatever a verdict advises is a command that is accepted for this very run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from support.commands import commands, plan, without_git
from support.evidence import RUN, evidence_of
from support.stored_data import NAMES, RUNS

from delivery_verifier import catalogue
from delivery_verifier.judgement.judge import load_and_judge
from delivery_verifier.judgement.limits import limits
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.planning.build import scenario_from_params


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        without_git(patch)
        yield


def advice(command: str) -> str:
    """What the limits advise after a run of `command` in which one fault bit."""
    evidence = evidence_of(RUN)
    done: Any = plan(command) if command else RUN
    return limits(
        replace(
            evidence,
            scenario=msgspec.structs.replace(RUN, command=command, min_exposed=done.min_exposed, arms=_arms(done)),
        )
    )[-2]


def _arms(done: Scenario) -> tuple[Arm, ...]:
    """The arms of the hand-made run, with the number of records that the run `done` asks for."""
    return tuple(msgspec.structs.replace(arm, records=done.subjects[0].records) for arm in RUN.arms)


@pytest.mark.parametrize("name", [*catalogue.ENTRIES, *catalogue.PRICES])
@pytest.mark.parametrize("more", [{}, {"seed": 3, "kafka_version": "4.2.1"}])
def test_a_scenario_of_the_catalogue_is_repeated_as_a_whole(name: str, more: dict[str, Any]) -> None:
    fields = {"scenario": name, **more}
    text = advice(scenario_from_params(fields, "done").command)
    (command,) = commands(text)
    again: Any = plan(command)
    assert (again.name, again.seed) == (name, more.get("seed", 0)) and "this takes 29 runs of" in text


@pytest.mark.parametrize("fault", catalogue.FAULTS)
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"profile": "acks_1", "claim": "at_least_once", "records": 20_000},
        {"cycles": 3, "seed": 5},
        {"records": 2000, "min_exposed": 90},
        {"profile": "transactional", "abort_every": 3, "duration_s": 30},
        {"profile": "acks_1", "producer_overrides": "linger.ms=7", "topic_overrides": "min.insync.replicas=1"},
    ],
)
def test_a_run_of_ones_own_is_repeated_with_more_cycles(fault: str, fields: dict[str, Any]) -> None:
    applied = {"application": "commit_after"} if fault == "kill_application" else {}
    done = scenario_from_params({"fault": fault, **applied, **fields}, "done")
    (command,) = commands(advice(done.command))
    again: Any = plan(command)
    assert again.fault.cycles == 29 and (again.fault.name, again.seed) == (fault, done.seed)
    assert [arm.profile.producer for arm in again.arms] == [arm.profile.producer for arm in done.arms]


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_run_is_advised_a_command_that_is_accepted(name: str) -> None:
    verdict = load_and_judge(RUNS / name)
    (command,) = (command for limit in verdict.limits for command in commands(limit))
    again: Any = plan(command)
    assert again.fault.cycles == 29


def test_a_run_whose_command_nobody_knows_gets_no_command() -> None:
    assert advice("").endswith("To bring that down to 10 %, the fault must be repeated 29 times.")


def test_a_run_that_repeated_the_fault_often_enough_is_not_told_to() -> None:
    evidence = evidence_of(RUN)
    often = [msgspec.structs.replace(evidence.injections[0], cycle=cycle) for cycle in range(29)]
    assert not list(commands(" ".join(limits(replace(evidence, injections=often)))))
