"""Tests of what a verdict says of a user application: lines that name no record, and what may be claimed."""

from __future__ import annotations

import pytest
from support.applications import DEFECTS, EFFECTS, PRODUCERS
from support.evidence import (
    SUBJECT,
    WEAK,
    Change,
    arm,
    both,
    doubts,
    evidence_of,
    judged,
    setting,
)
from support.judged_applications import applied_by, counted, doubts_of, run_of

from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.application import Discipline
from delivery_verifier.model.scenario import Claim
from delivery_verifier.verdict.applications import torn_effects


@pytest.mark.parametrize("defect", DEFECTS)
@pytest.mark.parametrize("claim", ["contract", "at_least_once", "exactly_once"])
def test_the_same_holds_for_a_user_application(defect: str, claim: Claim) -> None:
    doubt, change = DEFECTS[defect]
    if doubt == "effects_unparsed":  # 13 of 1212 effects are more than one in a hundred
        change = setting(EFFECTS, "unparsed", 13, arm=SUBJECT, partition=0)
    verdict = judged(evidence_of(applied_by("own", claim), change))
    assert arm(verdict).verdict == verdict.verdict == "INCONCLUSIVE"
    assert doubt in {name.split(":")[0] for _, name in doubts(verdict)}


def test_a_user_application_may_have_a_few_lines_without_a_record() -> None:
    few = setting(EFFECTS, "unparsed", 10, arm=SUBJECT, partition=0)
    assert judged(evidence_of(applied_by("own"), few)).verdict == "HELD"


@pytest.mark.parametrize(("discipline", "is_checked"), [("commit_after", True), ("own", False)])
def test_no_order_is_claimed_of_a_user_application(discipline: Discipline, is_checked: bool) -> None:
    verdict = judged(evidence_of(applied_by(discipline)))
    assert ("applied exactly once and in order" in arm(verdict).sentence) is is_checked
    assert "applied exactly once" in arm(verdict).sentence
    limit = f"The order in which the application of {SUBJECT} applied records was not checked"
    assert any(text.startswith(limit) for text in verdict.limits) is not is_checked


@pytest.mark.parametrize(
    ("skipped", "unparsed", "verdict"), [(3, 3, "INCONCLUSIVE"), (4, 3, "VIOLATED"), (14, 13, "INCONCLUSIVE")]
)
def test_lines_without_a_record_may_be_the_skipped_records(skipped: int, unparsed: int, verdict: str) -> None:
    torn = setting(EFFECTS, "unparsed", unparsed, arm=SUBJECT, partition=0)
    result = judged(evidence_of(applied_by("own"), both(counted(Anomaly.SKIPPED, skipped), torn)))
    assert result.verdict == verdict
    assert (("checker", "effects_torn") in doubts(result)) is (verdict != "VIOLATED")


# ---- At the edges: one line without a record in a hundred.


def unparsed(count: int, arm: str = SUBJECT) -> Change:
    return setting(EFFECTS, "unparsed", count, arm=arm, partition=1)


@pytest.mark.parametrize(("count", "effects", "torn"), [(12, 1200, False), (13, 1299, True)])
def test_a_user_application_may_have_one_line_without_a_record_in_a_hundred(
    count: int, effects: int, torn: bool
) -> None:
    others = 2 * 401
    run = run_of("own", both(unparsed(count), setting(EFFECTS, "effects", effects - others, arm=SUBJECT, partition=0)))
    details = [detail for _, _, detail in torn_effects(run)]
    wanted = f"{SUBJECT}: {count} of {effects} effects name no record, and 0 records count as SKIPPED"
    assert details == [wanted] * torn
    assert ("effects_unparsed" in doubts_of(run)) == torn


@pytest.mark.parametrize(("skipped", "torn"), [(0, False), (1, True), (2, False)])
def test_one_torn_line_may_be_the_one_skipped_record(skipped: int, torn: bool) -> None:
    change = both(unparsed(1), setting(PRODUCERS, "skipped", skipped, arm=SUBJECT, producer=0, partition=0))
    assert bool(list(torn_effects(run_of("own", change)))) == torn


def test_lines_are_torn_only_in_user_applications_and_in_each_of_them() -> None:
    assert not list(torn_effects(run_of("commit_after", unparsed(13))))
    ((name, _, _),) = torn_effects(run_of("own", unparsed(13, WEAK), arm=WEAK))
    assert name == WEAK, "the arm before it has no application"
