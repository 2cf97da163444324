"""Tests of the sentences of a verdict: none, one and several; and what is not known."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from support.evidence import (
    CANARY_ARM,
    EFFECT_AT,
    RUN,
    SUBJECT,
    WEAK,
    a_scenario,
    arm,
    evidence_of,
    judged,
    the_injections,
)
from support.findings import finding

from delivery_verifier.model.figures import times
from delivery_verifier.model.history import Disturbance
from delivery_verifier.model.verdict import ArmVerdict, Doubt, ExplainedBy, Finding, RunVerdict
from delivery_verifier.run_directory.counts import LATE, UNPROVEN
from delivery_verifier.verdict import sentences
from delivery_verifier.verdict.evidence import ArmEvidence
from delivery_verifier.verdict.sentences import arm_sentence, run_sentence
from delivery_verifier.verdict.transaction_counts import TransactionCounts

EVIDENCE = evidence_of(RUN)
QUIET = evidence_of(a_scenario(fault="none"))
UNPROVEN_FAULT = evidence_of(RUN, injections=[msgspec.structs.replace(the_injections(RUN)[0], took_effect=False)])
PERMITS = "as the settings permit, and nothing they forbid"


@cache
def verdict() -> RunVerdict:
    return judged(EVIDENCE)


def subjects() -> list[ArmVerdict]:
    return [arm(verdict())]


def doubt(detail: str, kind: Any = "coverage") -> Doubt:
    return Doubt(kind=kind, name="d", detail=detail)


def control(name: str = "weak", lost: int = 0, *doubts: Doubt, **tally: int) -> ArmVerdict:
    counts = {"lost": lost, "reported": 9000, **tally}
    findings = [finding(count=lost, tolerance=None)]
    return msgspec.structs.replace(
        arm(verdict(), WEAK), arm=name, profile=name, tally=counts, doubts=list(doubts), findings=findings
    )


def of_the_controls(*controls: ArmVerdict, evidence: Any = EVIDENCE) -> str:
    """Returns what the run's sentence says of the controls."""
    (subject,) = subjects()
    text = run_sentence(evidence, [subject], controls)
    assert text.startswith(subject.sentence)
    return text.removeprefix(subject.sentence).strip()


def with_totals(**totals: int) -> ArmEvidence:
    """Returns an arm in a run on a quiet day, with these totals and no others."""
    return cast(
        ArmEvidence,
        SimpleNamespace(
            totals=totals, is_canary=False, transactions=None, run=QUIET, name="a", spec=QUIET.loaded[0].spec
        ),
    )


def violated(*findings: Finding, **totals: int) -> str:
    """Returns the reason in the sentence of a violated arm."""
    text = arm_sentence(with_totals(reported=9, acked=9, **totals), "VIOLATED", [], findings)
    assert text.endswith("; on a quiet day, no fault was injected.")
    return text.removeprefix("VIOLATED: of 9 acknowledged records, ").split("; on a quiet day")[0]


def held(*findings: Finding, **totals: int) -> str:
    """Returns the reason in the sentence of an arm that held."""
    text = arm_sentence(with_totals(**totals), "HELD", [], findings)
    return text.removeprefix("HELD: ").split("; on a quiet day")[0]


@pytest.mark.parametrize(
    ("tally", "text"),
    [
        ({}, "The fault took none of 9,000 records from the control weak."),
        ({"lost": 1200}, "The fault took 1,200 of 9,000 records from the control weak."),
        (
            {"lost": 3, UNPROVEN: 4000},
            "The fault took at least 3 of 9,000 records from the control weak, and 4,000 that were not found may be at "
            "unreadable offsets.",
        ),
    ],
)
def test_one_control_says_what_the_fault_took_and_what_nobody_knows(tally: dict[str, int], text: str) -> None:
    assert of_the_controls(control(**tally)) == text


def test_a_control_without_counts_lost_none_of_none() -> None:
    uncounted = msgspec.structs.replace(control(), tally={})
    assert of_the_controls(uncounted) == "The fault took none of 0 records from the control weak."


@pytest.mark.parametrize(("evidence", "end"), [(QUIET, "without a fault"), (UNPROVEN_FAULT, "without a proven fault")])
def test_without_a_proven_fault_no_loss_is_blamed_on_one(evidence: Any, end: str) -> None:
    one = of_the_controls(control(lost=2), evidence=evidence)
    assert one == f"Of the control weak, 2 of 9,000 records were lost, {end}."
    several = of_the_controls(control("a", 2), control("b", 0), control("c", 1), evidence=evidence)
    assert several == f"Of the controls, hurt {end} were a (2 lost), c (1 lost), and not b."


def test_two_controls_have_a_sentence_each_and_three_share_one() -> None:
    two = [control("a", 2), control("b", 0)]
    text = of_the_controls(*two)
    assert text == f"{of_the_controls(two[0])} {of_the_controls(two[1])}"
    assert of_the_controls(*two, control("c", 1)) == (
        "Of the controls, the fault hurt a (2 lost), c (1 lost), and not b."
    )


def test_three_controls_say_if_all_or_none_were_hurt_and_what_was_not_found() -> None:
    hurt = [control("a", 2), control("b", 1), control("c", 3, **{UNPROVEN: 1500})]
    assert of_the_controls(*hurt) == (
        "Of the controls, the fault hurt a (2 lost), b (1 lost), c (3 lost, and 1,500 not found)."
    )
    assert of_the_controls(*[control(name) for name in "abc"]) == "Of the controls, the fault hurt none."


def test_a_control_is_left_out_if_the_check_of_it_is_doubted_and_only_then() -> None:
    checked, coverage = doubt("x", "checker"), doubt("y")
    left = control("left"), control("also_left", 0, coverage)
    out = control("out", 0, checked), control("also_out", 0, coverage, checked)
    text = of_the_controls(*out, *left)
    assert "control left." in text and "control also_left." in text and "out." not in text


def test_a_fault_that_is_not_proven_is_not_told_once_for_all_subjects() -> None:
    two = [*subjects(), *subjects()]
    assert run_sentence(EVIDENCE, two, []).endswith("in order. The leader was killed once.")
    assert run_sentence(UNPROVEN_FAULT, two, []).endswith("in the log exactly once and in order.")


def test_the_canary_that_held_names_the_sum_of_what_was_planted() -> None:
    canary = EVIDENCE.canary
    assert canary.name == CANARY_ARM
    text = arm_sentence(canary, "HELD", [], [finding(count=1200, also=3, tolerance=1203), finding(count=2)])
    assert text == "HELD: found exactly the 1,205 planted anomalies. The checker works."
    assert arm_sentence(canary, "INCONCLUSIVE", [doubt("x")], []) == "INCONCLUSIVE: no verdict, because x."


@pytest.mark.parametrize(
    ("details", "text"),
    [
        ([], "no verdict"),
        (["x"], "no verdict, because x"),
        (["x", "y"], "no verdict, because x (and 1 more doubt)"),
        (["x", "y", "z"], "no verdict, because x (and 2 more doubts)"),
    ],
)
def test_an_inconclusive_arm_names_its_first_doubt_and_how_many_there_are_beside(details: list[str], text: str) -> None:
    subject = next(each for each in EVIDENCE.arms if each.name == SUBJECT)
    assert arm_sentence(subject, "INCONCLUSIVE", list(map(doubt, details)), []) == f"INCONCLUSIVE: {text}."


@pytest.mark.parametrize(
    ("totals", "text"),
    [
        ({}, "0 acknowledged records"),
        ({"reported": 1200, "acked": 1200}, "1,200 acknowledged records"),
        ({"reported": 1200, "sent": 1200}, "1,200 sent records"),
        ({"reported": 1200, "sent": 1, "acked": 1199}, "1,200 acknowledged records"),
        (
            {"reported": 5, "acked": 5, "indeterminate": 1000},
            "5 acknowledged records (beside 1,000 INDETERMINATE attempts)",
        ),
        (
            {"reported": 5, "acked": 5, "indeterminate": 1, "failed": 2},
            "5 acknowledged records (beside 1 INDETERMINATE and 2 FAILED attempts)",
        ),
    ],
)
def test_an_arm_says_how_many_attempts_were_reported_and_how_many_were_not(totals: dict[str, int], text: str) -> None:
    assert held(**totals) == f"all {text} are in the log exactly once and in order"


def test_what_the_settings_permit_is_listed_and_what_did_not_occur_is_not() -> None:
    permitted = finding("DUPLICATED", 1200, tolerance=None), finding("REORDERED", 1, 2, tolerance=None)
    none = finding("LOST", tolerance=None)
    text = held(none, *permitted, reported=5000, acked=5000)
    assert text == f"of 5,000 acknowledged records, 1,200 duplicated, 3 out of order, {PERMITS}"


def test_a_violation_lists_what_is_beyond_its_tolerance_and_who_forbids_it() -> None:
    beyond = finding("LOST", 1, tolerance=1, also=1)
    within = finding("DUPLICATED", 2, tolerance=2), finding("RESENT", 9, tolerance=None), finding("PHANTOM", 0)
    assert violated(beyond, *within) == "2 lost, which the contract forbids"
    by_claim = finding("DUPLICATED", 1, ruled_by="claim")
    assert violated(by_claim) == "1 duplicated, which the claim forbids"
    assert violated(by_claim, finding("LOST", 4)) == "1 duplicated, 4 lost, which the contract forbids"


def test_a_violation_says_how_many_landed_late() -> None:
    landed = "(1,500 of them INDETERMINATE, and yet in the log behind a later record)"
    late = violated(finding("REORDERED", also=1500), **{LATE: 1500})
    assert late == f"1,500 out of order {landed}, which the contract forbids"


def explanation(count: int) -> ExplainedBy:
    cause = Disturbance(kind="leader_change", at_us=EFFECT_AT, planned=True)
    return ExplainedBy(disturbance=cause, since_us=None, until_us=EFFECT_AT, count=count)


@pytest.mark.parametrize(
    ("explained_by", "clause"),
    [
        ([explanation(3)], ""),
        ([explanation(1), explanation(1)], " (a disturbance explains 2)"),
        ([], " (a disturbance explains none)"),
    ],
)
def test_permitted_cases_are_named_beside_forbidden_ones_of_the_same_anomaly(
    explained_by: list[ExplainedBy], clause: str
) -> None:
    beside = finding(count=2, also=1, tolerance=None, explained_by=explained_by)
    other = finding("DUPLICATED", 5, tolerance=None), finding("LOST", 0, tolerance=None)
    text = violated(finding(count=1), beside, *other)
    assert text == f"1 lost, which the contract forbids, and 3 lost, which it permits{clause}"


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        (None, ""),
        ((3, 3, 0), "; a read_committed consumer sees every committed transaction (3 in all)"),
        (
            (3000, 2000, 1000),
            "; a read_committed consumer sees every committed transaction (2,000 in all), and nothing of "
            "the aborted ones (1,000 in all)",
        ),
        (
            (5010, 3, 7),
            "; a read_committed consumer sees every committed transaction (3 in all), and nothing of the "
            "aborted ones (7 in all) (how 5,000 more ended is not known; each is seen whole or not at all)",
        ),
    ],
)
def test_an_arm_of_transactions_says_what_a_consumer_sees_of_them(
    counts: tuple[int, int, int] | None, text: str
) -> None:
    subject = cast(
        ArmEvidence,
        SimpleNamespace(
            totals={"reported": 1, "acked": 1},
            is_canary=False,
            transactions=counts and TransactionCounts(*counts),
            run=QUIET,
            spec=QUIET.loaded[0].spec,
        ),
    )
    sentence = arm_sentence(subject, "HELD", [], [])
    assert sentence == (
        f"HELD: 1 acknowledged record is in the log exactly once and in order{text}; on a quiet day, no fault "
        "was injected."
    )


def test_the_circumstances_name_one_take_effect_or_several_and_no_fault_without_proof() -> None:
    first = the_injections(RUN)[0]
    again = msgspec.structs.replace(first, id=2, cycle=2)
    unproven = msgspec.structs.replace(first, id=3, took_effect=False)

    def circumstances(*injections: Any) -> str:
        evidence = replace(EVIDENCE, injections=list(injections))
        subject = next(each for each in evidence.arms if each.name == SUBJECT)
        return arm_sentence(subject, "HELD", [], []).split("in order; ")[1]

    exposed = "with 20 records in flight at {} and 150 records exposed until recovery."
    assert circumstances(first) == f"the leader was killed once, {exposed.format('the fault')}"
    assert circumstances(first, unproven) == f"the leader was killed once, {exposed.format('the fault')}"
    assert circumstances(first, again) == f"the leader was killed twice, {exposed.format('the faults')}"
    assert circumstances(unproven) == "no injected fault is proven to have taken effect."


def test_numbers_of_times_are_words_up_to_two() -> None:
    assert [times(count) for count in (1, 2, 3, 10)] == ["once", "twice", "3 times", "10 times"]


@pytest.mark.parametrize(
    ("indeterminate", "failed", "beside"),
    [
        (0, 0, ""),
        (0, 1, " (beside 1 FAILED attempt)"),
        (1, 0, " (beside 1 INDETERMINATE attempt)"),
        (0, 2, " (beside 2 FAILED attempts)"),
        (2, 1, " (beside 2 INDETERMINATE and 1 FAILED attempt)"),
        (1, 2, " (beside 1 INDETERMINATE and 2 FAILED attempts)"),
    ],
)
def test_the_last_number_says_whether_there_is_one_attempt_or_several(
    indeterminate: int, failed: int, beside: str
) -> None:
    arm = with_totals(reported=9, acked=9, indeterminate=indeterminate, failed=failed)
    assert sentences._reported(arm) == f"9 acknowledged records{beside}"
