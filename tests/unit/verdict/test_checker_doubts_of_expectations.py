"""Tests of checker doubts about expectations: each must be evaluated once, as planned, and agree with the counts."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import pytest
from support.checker_doubts import owned_doubts, without
from support.evidence import (
    RUN,
    SUBJECT,
    WEAK,
    altered,
    doubts,
    evidence_of,
    judged,
    lost,
    says,
    validation_of,
)

from delivery_verifier.verdict.checker_doubts import ALL
from delivery_verifier.verdict.evaluation import ExpectedEvaluation, Validation

GUARDS: list[tuple[str, str, dict[str, Any]]] = [
    ("expectation_not_evaluated", "LOST", {"exception": "MetricResolutionError", "success": False}),
    ("expectation_not_evaluated", "LOST", {"element_count": 0}),
    ("expectation_not_evaluated", "LOST", {"element_count": None}),
    ("expectation_not_evaluated", "LOST", {"tolerance": 5}),
    ("expectation_not_evaluated", "LOST", {"tolerance": None}),
    ("expectation_not_evaluated", "RESENT", {"tolerance": 0}),
    ("nulls", "LOST", {"missing_count": 6}),
    ("nulls", "LOST", {"missing_count": None}),
    ("expectation_alarm", "LOST", {"success": False}),
    ("expectation_alarm", "LOST", {"count": 1}),
    ("expectation_not_evaluated", "LOST", {"about": "SURPRISED"}),
    ("expectation_not_evaluated", "LOST", {"about": "PHANTOM"}),
    ("expectation_not_evaluated", "canary", {"element_count": 0}),
    ("expectation_alarm", "offsets_accounted", {"success": False}),
]


@pytest.mark.parametrize(("name", "about", "changes"), GUARDS)
def test_an_evaluation_that_is_not_as_planned_is_a_doubt(name: str, about: str, changes: dict[str, Any]) -> None:
    evidence = evidence_of(RUN)
    verdict = judged(evidence, altered(validation_of(evidence), about, **changes))
    assert ("checker", name) in doubts(verdict)
    assert verdict.verdict == "INCONCLUSIVE"


def test_a_failure_that_great_expectations_did_not_notice_is_an_alarm() -> None:
    evidence = evidence_of(RUN, lost(3))
    verdict = judged(evidence, altered(validation_of(evidence), "LOST", success=True))
    assert doubts(verdict) == {("checker", "expectation_alarm")}


def test_an_expectation_that_is_missing_is_a_doubt_of_its_arm_only() -> None:
    evidence = evidence_of(RUN)
    plain = validation_of(evidence)
    verdict = judged(evidence, msgspec.structs.replace(plain, evaluated=plain.evaluated[1:]))
    assert doubts(verdict) == {("checker", "expectation_not_evaluated")}
    assert doubts(verdict, WEAK) == set()


def test_an_expectation_that_was_evaluated_twice_is_a_doubt() -> None:
    evidence = evidence_of(RUN)
    plain = validation_of(evidence)
    verdict = judged(evidence, msgspec.structs.replace(plain, evaluated=[*plain.evaluated, plain.evaluated[0]]))
    assert doubts(verdict) == {("checker", "expectation_not_evaluated")}


def test_an_expectation_that_nobody_planned_is_a_doubt() -> None:
    evidence = evidence_of(RUN)
    plain = validation_of(evidence)
    foreign_writer = says(
        ExpectedEvaluation(suite="guarantee", arm="nobody", about="LOST", tolerance=0, rows=1, count=0)
    )
    verdict = judged(evidence, msgspec.structs.replace(plain, evaluated=[*plain.evaluated, foreign_writer]))
    assert ("checker", "expectation_not_evaluated") in doubts(verdict)


def test_a_validation_of_another_run_is_a_doubt() -> None:
    evidence = evidence_of(RUN)
    other = msgspec.structs.replace(validation_of(evidence), run_id="run-2")
    assert ("checker", "expectation_not_evaluated") in doubts(judged(evidence, other))


# ---- Word by word: whose doubt it is, its name, and its figures.


INVARIANT = "counts/invariants.parquet"
EVIDENCE = evidence_of(RUN)
RAISED = "expectation_not_evaluated"


@cache
def plain() -> Validation:
    return validation_of(EVIDENCE)


def about(name: str, arm: str, **changes: Any) -> list[tuple[str, str, str]]:
    """Returns the doubts after `changes` to the evaluation of an anomaly in an arm, or of an invariant."""
    items = [
        msgspec.structs.replace(item, **changes) if (item.about, item.arm) == (name, arm) else item
        for item in plain().evaluated
    ]
    assert items != plain().evaluated
    return owned_doubts(EVIDENCE, msgspec.structs.replace(plain(), evaluated=items))


@pytest.mark.parametrize(
    ("changes", "name", "detail"),
    [
        ({"exception": "E"}, RAISED, "raised: E"),
        ({"tolerance": 5}, RAISED, "was evaluated with tolerance 5, the contract says 0"),
        ({"tolerance": None}, RAISED, "was evaluated with tolerance None, the contract says 0"),
        ({"element_count": 5}, RAISED, "saw 5 rows, planned were 6"),
        ({"element_count": None}, RAISED, "saw None rows, planned were 6"),
        ({"missing_count": 1}, "nulls", "saw 1 nulls"),
        ({"missing_count": -1}, "nulls", "saw -1 nulls"),
        ({"missing_count": None}, "nulls", "saw None nulls"),
    ],
)
def test_what_an_evaluation_did_otherwise_is_said_with_both_figures(
    changes: dict[str, Any], name: str, detail: str
) -> None:
    assert about("LOST", SUBJECT, **changes) == [(SUBJECT, name, f"expectation LOST of {SUBJECT} {detail}")]


def test_an_evaluation_that_raised_is_doubted_for_nothing_else() -> None:
    raised = about("LOST", SUBJECT, exception="E", tolerance=3, element_count=0, success=False, count=4)
    assert raised == [(SUBJECT, RAISED, f"expectation LOST of {SUBJECT} raised: E")]


def test_an_evaluation_that_contradicts_the_tally_is_an_alarm_with_both() -> None:
    name = f"expectation LOST of {SUBJECT}: Great Expectations says"
    assert about("LOST", SUBJECT, success=False) == [
        (SUBJECT, "expectation_alarm", f"{name} failure, the tables of counts have 0")
    ]
    assert about("LOST", SUBJECT, count=1) == [
        (SUBJECT, "expectation_alarm", f"{name} success, the tables of counts have 0")
    ]
    broken = evidence_of(RUN, lost(3))
    unnoticed = altered(validation_of(broken), "LOST", success=True)
    assert owned_doubts(broken, unnoticed) == [
        (SUBJECT, "expectation_alarm", f"{name} success, the tables of counts have 3")
    ]
    assert about("log_sum", "", success=False) == [
        (
            ALL,
            "expectation_alarm",
            "expectation log_sum of the evidence: Great Expectations says failure, the tables of counts have 0",
        )
    ]


def test_an_expectation_without_planned_rows_is_a_doubt_even_if_it_saw_none() -> None:
    bare = evidence_of(RUN, without(INVARIANT, 3, invariant="ledger_complete"))
    expected = (ALL, RAISED, "expectation ledger_complete of the evidence saw 0 rows, planned were 0")
    assert expected in owned_doubts(bare)


def test_a_plan_and_a_validation_that_differ_are_doubted_by_expectation() -> None:
    foreign_writer = says(ExpectedEvaluation(suite="guarantee", arm=SUBJECT, about="X", tolerance=0, rows=1, count=0))
    first, *others = plain().evaluated
    more = msgspec.structs.replace(plain(), evaluated=[*others, foreign_writer])
    assert owned_doubts(EVIDENCE, more) == [
        (first.arm, RAISED, f"expectation {first.about} of {first.arm} was not evaluated"),
        (ALL, RAISED, f"expectation X of {SUBJECT} was evaluated, and is not in the plan"),
    ]
    twice = msgspec.structs.replace(plain(), evaluated=[*plain().evaluated, first])
    detail = f"expectation {first.about} of {first.arm} was evaluated more than once"
    assert owned_doubts(EVIDENCE, twice) == [(first.arm, RAISED, detail)] * 2
    other = msgspec.structs.replace(plain(), run_id="run-2")
    assert owned_doubts(EVIDENCE, other) == [(ALL, RAISED, "the validation is of another run, run-2")]


def test_an_expectation_that_tolerates_any_number_never_fails() -> None:
    tolerated = next(plan for plan in plain().evaluated if plan.tolerance is None)
    alarm = about(tolerated.about, tolerated.arm, success=False)
    assert [(owner, name) for owner, name, _ in alarm] == [(tolerated.arm, "expectation_alarm")]
