"""Tests of attribution. A case (a record with an anomaly) belongs to the injection during which its record was under
way. The bounds on shares of injections are exact."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.evidence import (
    EFFECT_AT,
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

from delivery_verifier.model.history import Injection
from delivery_verifier.verdict.attribution import (
    OUTSIDE,
    attribute_cases,
    confidence_interval,
    kinds_sent_afterwards,
    read_cases,
)

FIRST = the_injections(RUN)[0]
SECOND_EFFECT_AT = RECOVERED + 20 * SECOND
AGAIN = replace(FIRST, id=2, effect_at_us=SECOND_EFFECT_AT, recovered_at_us=SECOND_EFFECT_AT + 8 * SECOND)


@pytest.mark.parametrize(
    ("sent_us", "settled_us", "owner"),
    [
        (EFFECT_AT - 5 * SECOND, EFFECT_AT - 2 * SECOND, OUTSIDE),
        (EFFECT_AT - 5 * SECOND, EFFECT_AT - SECOND // 2, 1),
        (EFFECT_AT + 1, EFFECT_AT + 2, 1),
        (RECOVERED + SECOND // 2, RECOVERED + SECOND, 1),
        (RECOVERED + 2 * SECOND, RECOVERED + 3 * SECOND, OUTSIDE),
        (RECOVERED, SECOND_EFFECT_AT, 2),  # under way from one injection into the next
        (EFFECT_AT, None, 1),  # never settled: it met both, and the first one first
        (SECOND_EFFECT_AT, None, 2),
        (None, None, OUTSIDE),  # nobody made it
    ],
)
def test_a_case_belongs_to_the_injection_that_its_record_met(
    sent_us: int | None, settled_us: int | None, owner: int
) -> None:
    assert attribute_cases(cases(case(sent_us, settled_us)), [FIRST, AGAIN]) == {WEAK: {"LOST": [owner]}}


def test_an_injection_hurts_an_arm_once_however_many_cases_it_made_and_of_whatever_kind() -> None:
    rows = [case(EFFECT_AT + at, EFFECT_AT + at + 1) for at in range(50)] + [
        case(SECOND_EFFECT_AT, SECOND_EFFECT_AT, "DUPLICATED", "REORDERED")
    ]
    found = attribute_cases(cases(*rows), [FIRST, AGAIN])[WEAK]
    assert found == {"LOST": [1], "DUPLICATED": [2], "REORDERED": [2]}


def test_what_no_injection_explains_hurt_in_none() -> None:
    found = attribute_cases(cases(case(1, 2)), [FIRST])[WEAK]
    assert found == {"LOST": [OUTSIDE]}


def test_a_column_that_is_missing_is_not_read_as_no_effect() -> None:
    with pytest.raises(KeyError):
        attribute_cases(cases(case(EFFECT_AT, EFFECT_AT)).drop_columns(["sent_at"]), [FIRST])


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
    verdict = judged(evidence_of(RUN, cases=cases(case(EFFECT_AT, EFFECT_AT + 1))))
    assert arm(verdict, WEAK).seen_in == {"LOST": [1]} and arm(verdict, SUBJECT).seen_in == {}
    assert any(
        line.startswith(f"The fault hurt {WEAK} (LOST; 95 % confidence: 5 % to 100 % of such faults)")
        and line.endswith(f"and not {SUBJECT}.")
        for line in verdict.limits
    )


def test_without_the_cases_nothing_is_said_of_takes_effect() -> None:
    verdict = judged(evidence_of(RUN))
    assert arm(verdict, WEAK).seen_in is None and not any("hurt" in line for line in verdict.limits)


def test_an_injection_that_took_no_effect_hurt_nobody() -> None:
    evidence = evidence_of(
        RUN, cases=cases(case(EFFECT_AT, EFFECT_AT + 1)), injections=[replace(FIRST, took_effect=False)]
    )
    assert evidence.cases_by_injection == {WEAK: {"LOST": [OUTSIDE]}}


# ---- At the edges: shares that are exactly 0 or 1, cases of two kinds, and the first and the last moment of a window.


@pytest.mark.parametrize("trials", [1, 2, 29])
def test_a_share_of_none_begins_at_0_and_a_share_of_all_ends_at_1(trials: int) -> None:
    assert confidence_interval(0, trials)[0] == 0.0
    assert confidence_interval(trials, trials)[1] == 1.0


@pytest.mark.parametrize(
    ("kinds", "owner"),
    [
        (("OVERTAKEN",), 1),
        (("REAPPLIED", "OVERTAKEN"), 1),
        (("DUPLICATED",), OUTSIDE),
        (("DUPLICATED", "OVERTAKEN"), OUTSIDE),
    ],
)
def test_a_record_that_was_settled_before_is_met_only_if_its_first_kind_is_one_of_effects(
    kinds: tuple[str, ...], owner: int
) -> None:
    settled = case(EFFECT_AT - 5 * SECOND, EFFECT_AT - 2 * SECOND, *kinds)
    assert attribute_cases(cases(settled), the_injections(RUN)) == {WEAK: {kind: [owner] for kind in kinds}}


LATER = replace(FIRST, id=2, effect_at_us=EFFECT_AT + 50 * SECOND, recovered_at_us=EFFECT_AT + 60 * SECOND)
ENDLESS = replace(FIRST, recovered_at_us=None)
FROM, UNTIL = EFFECT_AT - SECOND, RECOVERED + SECOND
"""The window of FIRST, in µs: from a second before the effect to a second after the recovery."""


@pytest.mark.parametrize(
    ("sent_us", "settled_us", "owner"),
    [
        (0, FROM - 1, OUTSIDE),
        (0, FROM, 1),
        (UNTIL, UNTIL, 1),
        (UNTIL + 1, UNTIL + 1, OUTSIDE),
        (UNTIL + 1, None, OUTSIDE),
        (UNTIL, None, 1),
    ],
)
def test_a_record_belongs_to_a_window_from_its_first_to_its_last_microsecond(
    sent_us: int, settled_us: int | None, owner: int
) -> None:
    assert attribute_cases(cases(case(sent_us, settled_us)), [FIRST]) == {WEAK: {"LOST": [owner]}}


def test_an_injection_that_never_recovers_has_no_last_moment() -> None:
    late = cases(case(UNTIL + 900 * SECOND, UNTIL + 901 * SECOND))
    assert attribute_cases(late, [ENDLESS]) == {WEAK: {"LOST": [1]}}


@pytest.mark.parametrize("injections", [[FIRST, LATER], [LATER, FIRST]])
def test_injections_count_in_the_order_in_which_they_bit_however_they_are_listed(injections: list[Injection]) -> None:
    both_ways = {None: [1], LATER.effect_at_us: [2]}
    for settled_us, owner in both_ways.items():
        assert attribute_cases(cases(case(EFFECT_AT, settled_us)), injections) == {WEAK: {"LOST": owner}}


def test_the_ids_of_an_anomaly_are_sorted_and_outside_is_the_first() -> None:
    rows = [case(LATER.effect_at_us, LATER.effect_at_us), case(EFFECT_AT, EFFECT_AT), case(1, 2)]
    assert attribute_cases(cases(*rows), [FIRST, LATER]) == {WEAK: {"LOST": [OUTSIDE, 1, 2]}}
    assert OUTSIDE not in (FIRST.id, LATER.id, 0)


def test_what_was_sent_afterwards_was_sent_after_the_last_microsecond_of_all_windows() -> None:
    end_us = LATER.recovered_at_us
    assert end_us is not None
    table = cases(case(end_us + SECOND, None), case(None, None, "PHANTOM"), case(UNTIL + 1, None, "DUPLICATED"))
    assert kinds_sent_afterwards(table, [LATER, FIRST]) == {}
    table = cases(case(end_us + SECOND + 1, None, "DUPLICATED", "REORDERED"), case(end_us + SECOND + 2, None))
    assert kinds_sent_afterwards(table, [LATER, FIRST]) == {WEAK: {"DUPLICATED", "REORDERED", "LOST"}}
    assert kinds_sent_afterwards(table, [LATER, ENDLESS]) == {}
    assert kinds_sent_afterwards(cases(case(1, 2)), []) == {WEAK: {"LOST"}}


def test_the_cases_of_one_arm_are_read_alone_if_it_is_named() -> None:
    table = cases(case(1, 2), case(3, 4) | {"arm": SUBJECT})
    assert [row.arm for row in read_cases(table, SUBJECT)] == [SUBJECT]
    assert [row.arm for row in read_cases(table)] == [WEAK, SUBJECT]


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [(0, 2, 0.0, 0.776393), (2, 2, 0.223607, 1.0), (1, 2, 0.012579, 0.987421), (1, 1, 0.05, 1.0)],
)
def test_the_interval_of_few_trials_is_exact(hits: int, trials: int, low: float, high: float) -> None:
    assert confidence_interval(hits, trials) == pytest.approx((low, high), abs=1e-6)
