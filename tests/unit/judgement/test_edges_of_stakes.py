"""Tests of stakes at the edges: one attempt, none, and more reports during a fault than the books count in all."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from support.evidence import BITE, RUN, SUBJECT, Rows, doubts, evidence_of, judged, the_injections

from delivery_verifier.judgement.stakes import stakes

FEW = "too_few_answered"


def few_answered(inside: int, indeterminate: int, *without: str) -> list[str]:
    """Returns what `stakes` says of the answers if `inside` of 1,200 reports came while a fault acted.

    `indeterminate` attempts got no answer while no fault acted. The books lack the columns `without`.
    """

    def change(rows: Rows) -> None:
        of_producer = [row for row in rows["books/producers.parquet"] if row["arm"] == SUBJECT and row["producer"] == 0]
        of_producer[0]["indeterminate"] = indeterminate
        for row in rows["books/producers.parquet"]:
            for name in without:
                del row[name]
        for row in rows["timeline/load.parquet"]:
            row["at_us"], row["reported"] = BITE, 0
        load: Any = next(row for row in rows["timeline/load.parquet"] if row["arm"] == SUBJECT)
        load["reported"] = inside

    subject = next(arm for arm in evidence_of(RUN, change).loaded if arm.name == SUBJECT)
    return [detail for name, detail in stakes(subject) if name == FEW]


@pytest.mark.parametrize(("inside", "indeterminate", "few"), [(1200, 0, 0), (1200, 1, 1), (1199, 1, 0), (1201, 0, 0)])
def test_one_attempt_without_an_answer_must_be_balanced_by_one_with_an_answer(
    inside: int, indeterminate: int, few: int
) -> None:
    assert len(few_answered(inside, indeterminate)) == few


def test_more_reports_during_faults_than_in_all_count_as_none_outside() -> None:
    (detail,) = few_answered(1202, 3)
    assert ": outside all faults, 0 of 3 attempts were reported" in detail


@pytest.mark.parametrize("indeterminate", [0, 1])
def test_a_column_that_the_books_lack_counts_nothing(indeterminate: int) -> None:
    assert len(few_answered(1200, indeterminate, "failed")) == indeterminate


def test_one_loss_of_power_among_other_faults_puts_every_arm_at_stake() -> None:
    def idle(rows: Rows) -> None:
        for row in rows["books/exposure.parquet"]:
            row["outstanding"] = 0

    (kill,) = the_injections(RUN)
    power = replace(kill, id=2, action="power_off")
    names = {name for _, name in doubts(judged(evidence_of(RUN, idle, injections=[kill, power])))}
    assert "nothing_at_stake" not in names
    assert "nothing_at_stake" in {name for _, name in doubts(judged(evidence_of(RUN, idle)))}


def test_one_injection_that_had_records_in_hand_puts_the_arm_at_stake() -> None:
    def idle(rows: Rows) -> None:
        for row in rows["books/exposure.parquet"]:
            row["outstanding"] = 0

    (kill,) = the_injections(RUN)
    crash = replace(kill, id=2, action="kill_application", proof={"process": {f"in hand of {SUBJECT}": 1}})
    for injections, at_stake in (([kill, crash], True), ([kill, replace(crash, proof={})], False)):
        subject = next(arm for arm in evidence_of(RUN, idle, injections=injections).loaded if arm.name == SUBJECT)
        assert ("nothing_at_stake" not in dict(stakes(subject))) == at_stake
