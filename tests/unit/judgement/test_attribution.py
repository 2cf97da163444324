"""Tests of attribution. A case (a record with an anomaly) belongs to the injection during which its record was under
way. The bounds on shares of injections are exact."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.evidence import (
    BITE,
    RECOVERED,
    RUN,
    SECOND,
    SUBJECT,
    WEAK,
    arm,
    case,
    cases,
    evidence_of,
    judged,
    the_injections,
)

from delivery_verifier.judgement.attribution import OUTSIDE, attribute_cases, confidence_interval

FIRST = the_injections(RUN)[0]
SECOND_BITE = RECOVERED + 20 * SECOND
AGAIN = replace(FIRST, id=2, bite_at_us=SECOND_BITE, recovered_at_us=SECOND_BITE + 8 * SECOND)


@pytest.mark.parametrize(
    ("sent_us", "settled_us", "owner"),
    [
        (BITE - 5 * SECOND, BITE - 2 * SECOND, OUTSIDE),
        (BITE - 5 * SECOND, BITE - SECOND // 2, 1),
        (BITE + 1, BITE + 2, 1),
        (RECOVERED + SECOND // 2, RECOVERED + SECOND, 1),
        (RECOVERED + 2 * SECOND, RECOVERED + 3 * SECOND, OUTSIDE),
        (RECOVERED, SECOND_BITE, 2),  # under way from one injection into the next
        (BITE, None, 1),  # never settled: it met both, and the first one first
        (SECOND_BITE, None, 2),
        (None, None, OUTSIDE),  # nobody made it
    ],
)
def test_a_case_belongs_to_the_injection_that_its_record_met(
    sent_us: int | None, settled_us: int | None, owner: int
) -> None:
    assert attribute_cases(cases(case(sent_us, settled_us)), [FIRST, AGAIN]) == {WEAK: {"LOST": [owner]}}


def test_an_injection_hurts_an_arm_once_however_many_cases_it_made_and_of_whatever_kind() -> None:
    rows = [case(BITE + at, BITE + at + 1) for at in range(50)] + [
        case(SECOND_BITE, SECOND_BITE, "DUPLICATED", "REORDERED")
    ]
    found = attribute_cases(cases(*rows), [FIRST, AGAIN])[WEAK]
    assert found == {"LOST": [1], "DUPLICATED": [2], "REORDERED": [2]}


def test_what_no_injection_explains_hurt_in_none() -> None:
    found = attribute_cases(cases(case(1, 2)), [FIRST])[WEAK]
    assert found == {"LOST": [OUTSIDE]}


def test_a_column_that_is_missing_is_not_read_as_no_bite() -> None:
    with pytest.raises(KeyError):
        attribute_cases(cases(case(BITE, BITE)).drop_columns(["sent_at"]), [FIRST])


@pytest.mark.parametrize(
    ("seen", "of", "low", "high"),
    [(0, 20, 0.0, 0.139), (20, 20, 0.861, 1.0), (0, 1, 0.0, 0.95), (1, 3, 0.008, 0.906), (5, 15, 0.118, 0.616)],
)
def test_the_interval_is_clopper_and_pearsons(seen: int, of: int, low: float, high: float) -> None:
    assert confidence_interval(seen, of) == pytest.approx((low, high), abs=0.0006)


@pytest.mark.parametrize(("seen", "of"), [(0, 0), (3, 2), (-1, 2)])
def test_no_injections_bound_nothing(seen: int, of: int) -> None:
    with pytest.raises(ValueError, match="injections"):
        confidence_interval(seen, of)


def test_the_verdict_says_which_injections_hurt_an_arm_and_the_limits_how_often() -> None:
    verdict = judged(evidence_of(RUN, cases=cases(case(BITE, BITE + 1))))
    assert arm(verdict, WEAK).bites == {"LOST": [1]} and arm(verdict, SUBJECT).bites == {}
    assert any(
        line.startswith(f"The fault hurt {WEAK} (LOST; 95 % confidence: 5 % to 100 % of such faults)")
        and line.endswith(f"and not {SUBJECT}.")
        for line in verdict.limits
    )


def test_without_the_cases_nothing_is_said_of_bites() -> None:
    verdict = judged(evidence_of(RUN))
    assert arm(verdict, WEAK).bites is None and not any("hurt" in line for line in verdict.limits)


def test_an_injection_that_did_not_bite_hurt_nobody() -> None:
    evidence = evidence_of(RUN, cases=cases(case(BITE, BITE + 1)), injections=[replace(FIRST, bit=False)])
    assert evidence.cases_by_injection == {WEAK: {"LOST": [OUTSIDE]}}
