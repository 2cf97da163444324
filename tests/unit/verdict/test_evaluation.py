"""Tests of the expectations that a run must evaluate, and of the table that the evidence suite sees."""

from __future__ import annotations

import pytest
from support.applications import applied
from support.evidence import RUN, SUBJECT, evidence_of, setting

from delivery_verifier.run_directory import tally
from delivery_verifier.run_directory.tally import Tally
from delivery_verifier.verdict.evaluation import (
    CANARY,
    INVARIANTS,
    INVARIANTS_OF_EFFECTS,
    canary_pairs,
    evidence_table,
    expected_evaluations,
    expected_evidence,
    invariants_of,
    producer_rows,
)

APPLIED = applied(RUN)
"""A run that has every invariant, because its arms have applications."""


def test_the_evidence_suite_sees_the_invariants_of_the_tally_and_the_counts_of_the_canary() -> None:
    evidence = evidence_of(RUN)
    rows, planted = evidence_table(evidence).to_pylist(), canary_pairs(evidence)
    invariants = evidence.tally.rows("invariants").to_pylist()
    assert rows[: len(invariants)] == invariants
    assert rows[len(invariants) :] == [
        {
            "invariant": CANARY,
            "arm": RUN.canary.name,
            "partition": -1,
            "left_name": f"planted {name}",
            "left": count,
            "right_name": f"found {name}",
            "right": count,
        }
        for name, count, _ in planted
    ]
    assert len(planted) == len(evidence.canary_expected) > 1


def test_a_column_that_the_tally_of_the_canary_lack_is_no_count() -> None:
    name = "duplicated"

    def without(rows: dict[str, list[dict[str, object]]]) -> None:
        for row in rows["counts/producers.parquet"]:
            del row[name]

    found = {column: (planted, count) for column, planted, count in canary_pairs(evidence_of(RUN, without))}
    assert found[name] == (evidence_of(RUN).canary_expected[name], -1)


@pytest.mark.parametrize("invariant", [invariant for invariant in INVARIANTS if invariant != CANARY])
def test_each_invariant_counts_its_own_rows_that_do_not_balance(invariant: str) -> None:
    evidence = evidence_of(APPLIED, setting("counts/invariants.parquet", "left", 8, invariant=invariant))
    expected = {plan.about: plan for plan in expected_evidence(evidence)}
    assert {about: plan.count for about, plan in expected.items()} == {
        name: int(name == invariant) for name in INVARIANTS
    }
    assert {about: plan.tolerance for about, plan in expected.items()} == dict.fromkeys(INVARIANTS, 0)
    assert expected[invariant].rows == len(evidence.tally.rows("invariants", invariant=invariant))
    assert expected[CANARY].rows == len(evidence.canary_expected)


def test_invariants_without_counts_have_no_rows_to_judge() -> None:
    evidence = evidence_of(RUN)
    bare = evidence_of(
        RUN,
        tally=Tally.from_tables({"counts/invariants.parquet": evidence.tally.rows("invariants").select(["invariant"])}),
    )
    assert {plan.rows for plan in expected_evidence(bare) if plan.about != CANARY} == {0}


@pytest.mark.parametrize("spare", [0, -1])
def test_a_second_opinion_is_expected_of_a_run_up_to_the_stated_size(
    monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    evidence = evidence_of(RUN)
    monkeypatch.setattr(tally, "SECOND_OPINION_RECORDS", evidence.offsets.records + spare)
    missing = {*INVARIANTS_OF_EFFECTS, *([tally.SECOND_OPINION] if spare < 0 else [])}
    assert set(INVARIANTS) - set(invariants_of(evidence)) == missing
    assert {plan.about for plan in expected_evidence(evidence)} == set(INVARIANTS) - missing


def test_every_partition_has_a_row_for_each_producer_and_for_foreign_writers() -> None:
    evidence = evidence_of(RUN)
    subject = next(arm for arm in evidence.loaded if arm.name == SUBJECT)
    assert producer_rows(subject) == len(evidence.tally.rows("producers", arm=SUBJECT)) > 0


def test_unexplained_cases_are_tolerated_nowhere_and_every_expectation_stands_once() -> None:
    plans = expected_evaluations(evidence_of(RUN))
    assert len({plan.key for plan in plans}) == len(plans)
    assert {plan.tolerance for plan in plans if "unexplained" in plan.about} == {0}
