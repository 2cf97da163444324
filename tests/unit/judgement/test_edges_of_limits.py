"""Tests of limits at the edges: one injection or several, a bound that is just wide enough, and laws of newer runs."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from support.evidence import RUN, SUBJECT, Rows, evidence_of

from delivery_verifier.judgement import limits as module
from delivery_verifier.judgement.attribution import confidence_interval
from delivery_verifier.judgement.evaluation import LAWS
from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.judgement.limits import limits
from delivery_verifier.model.scenario import FEWEST_RECORDS
from delivery_verifier.store import books

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
    monkeypatch.setattr(books, "SECOND_OPINION_RECORDS", EVIDENCE.offsets.records - 1)
    monkeypatch.setattr(module, "SECOND_OPINION_RECORDS", EVIDENCE.offsets.records - 1)
    (line,) = [line for line in limits(EVIDENCE) if "second_opinion" in line]
    sizes = f"This run has {EVIDENCE.offsets.records:,} records. Above {EVIDENCE.offsets.records - 1:,}, the law "
    assert line.startswith(sizes) and line.endswith(LAWS["second_opinion"])


@pytest.mark.parametrize("column", ["corrupted", "unattributed"])
def test_an_arm_with_damaged_records_is_named_as_not_counted_twice(
    column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damage(rows: Rows) -> None:
        row = next(row for row in rows["books/producers.parquet"] if row["arm"] == SUBJECT)
        row[column] += 1

    (line,) = [line for line in limits(evidence_of(RUN, damage)) if "second_opinion" in line]
    assert line == f"{SUBJECT} has damaged records: the law second_opinion was not checked for it."
    monkeypatch.setattr(books, "SECOND_OPINION_RECORDS", 10)
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
