"""Limits: whatever a verdict advises is a command that is accepted for this very run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from support.commands import commands, plan, without_git
from support.evidence import RUN, SUBJECT, Rows, evidence_of
from support.stored_data import NAMES, RUNS

from delivery_verifier import catalogue
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.scenario import FEWEST_RECORDS, Arm, Scenario
from delivery_verifier.planning.build import scenario_from_params
from delivery_verifier.run_directory import tally
from delivery_verifier.verdict import limits as module
from delivery_verifier.verdict.attribution import confidence_interval
from delivery_verifier.verdict.evaluation import INVARIANTS
from delivery_verifier.verdict.evidence import Evidence
from delivery_verifier.verdict.judge import load_and_judge
from delivery_verifier.verdict.limits import limits


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        without_git(patch)
        yield


def advice(command: str, fault: FaultPlan = RUN.fault) -> str:
    """What the limits advise after a run of `command` in which one fault took effect."""
    evidence = evidence_of(RUN)
    done: Any = plan(command) if command else RUN
    return limits(
        replace(
            evidence,
            scenario=msgspec.structs.replace(
                RUN, command=command, min_exposed=done.min_exposed, arms=_arms(done), fault=fault
            ),
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


def test_nobody_is_told_to_repeat_what_somebody_else_did() -> None:
    text = advice("kdv run --records 2000", catalogue.FAULTS["observe"])
    assert list(commands(text)) == [] and "must be repeated 29 times" in text


@pytest.mark.parametrize("fault", [name for name, plan in catalogue.FAULTS.items() if not plan.by_others])
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


# ---- At the edges: one injection or several, a bound that is just wide enough, and runs without a second opinion.


EVIDENCE = evidence_of(RUN)
(KILL,) = EVIDENCE.injections


def repeated(times: int, cycles: int) -> Evidence:
    """Returns the evidence with the kill `times` times, in so many `cycles`."""
    kills = [msgspec.structs.replace(KILL, id=number, cycle=number % cycles) for number in range(times)]
    return replace(EVIDENCE, injections=kills)


def commanded(command: str, records: int, evidence: Evidence = EVIDENCE) -> str:
    """Returns what is advised after a run of `command` whose arms have so many records."""
    arms = tuple(msgspec.structs.replace(arm, records=records) for arm in RUN.arms)
    scenario = msgspec.structs.replace(RUN, command=command, arms=arms, min_exposed=1)
    return limits(replace(evidence, scenario=scenario))[-2]


@pytest.mark.parametrize(("times", "word"), [(1, "1 fault took effect"), (2, "2 faults took effect")])
def test_one_injection_is_not_several(times: int, word: str) -> None:
    assert limits(repeated(times, times))[0].startswith(f"{word}.")


@pytest.mark.parametrize(("times", "cycles", "unit"), [(4, 4, "4 faults"), (4, 2, "2 cycles of faults")])
def test_only_cycles_count_if_they_have_several_injections(times: int, cycles: int, unit: str) -> None:
    assert f"not seen in {unit} may" in limits(repeated(times, cycles))[-2]


def test_advice_is_given_while_the_bound_is_greater_than_the_wanted_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WANTED_BOUND", confidence_interval(0, 1)[1])
    assert "bring that down" not in limits(EVIDENCE)[-2]
    monkeypatch.setattr(module, "WANTED_BOUND", confidence_interval(0, 1)[1] - 1e-9)
    assert "bring that down" in limits(EVIDENCE)[-2]


def test_a_scenario_that_repeats_the_fault_itself_takes_fewer_runs() -> None:
    assert "this takes 15 runs of" in commanded("kdv run --scenario x", 2000, repeated(2, 2))


@pytest.mark.parametrize(("records", "more"), [(FEWEST_RECORDS, False), (28, True)])
def test_more_records_are_advised_only_if_there_are_too_few(records: int, more: bool) -> None:
    assert ("--records" in commanded("kdv run --fault kill_leader", records)) == more


def test_a_run_without_a_second_opinion_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not [line for line in limits(EVIDENCE) if "second_opinion" in line]
    monkeypatch.setattr(tally, "SECOND_OPINION_RECORDS", EVIDENCE.offsets.records - 1)
    monkeypatch.setattr(module, "SECOND_OPINION_RECORDS", EVIDENCE.offsets.records - 1)
    (line,) = [line for line in limits(EVIDENCE) if "second_opinion" in line]
    sizes = f"This run has {EVIDENCE.offsets.records:,} records. Above {EVIDENCE.offsets.records - 1:,}, the invariant "
    assert line.startswith(sizes) and line.endswith(INVARIANTS["second_opinion"])


@pytest.mark.parametrize("column", ["corrupted", "unattributed"])
def test_an_arm_with_damaged_records_is_named_as_not_counted_twice(
    column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damage(rows: Rows) -> None:
        row = next(row for row in rows["counts/producers.parquet"] if row["arm"] == SUBJECT)
        row[column] += 1

    (line,) = [line for line in limits(evidence_of(RUN, damage)) if "second_opinion" in line]
    assert line == f"{SUBJECT} has damaged records: the invariant second_opinion was not checked for it."
    monkeypatch.setattr(tally, "SECOND_OPINION_RECORDS", 10)
    assert not [line for line in limits(evidence_of(RUN, damage)) if "has damaged records" in line]


@pytest.mark.parametrize(
    ("rounds", "unit", "begin"),
    [
        (1, "faults", "One fault proves little: an anomaly not seen here may still occur in up to 95 % of such faults"),
        (1, "cycles", "One cycle of faults proves little: an anomaly not seen here may still occur in up to 95 % of"),
        (
            2,
            "faults",
            "An anomaly not seen in 2 faults may still occur in up to 78 % of such faults (95 % confidence).",
        ),
    ],
)
def test_the_bound_says_of_how_many_faults_it_speaks(rounds: int, unit: str, begin: str) -> None:
    assert module._bound(EVIDENCE.scenario, rounds, unit).startswith(begin)


def test_no_number_of_rounds_below_the_wanted_bound_is_advised_a_single_run() -> None:
    scenario = msgspec.structs.replace(EVIDENCE.scenario, command="kdv run --scenario everyday.kill_leader")
    advised = [module._bound(scenario, rounds, "faults") for rounds in range(1, 60)]
    assert any("this takes 2 runs of" in text for text in advised)
    assert not any("this takes 1 run" in text for text in advised)
