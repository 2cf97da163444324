"""Tests of the judgement at its edges: the first and the last moment of an injection's window, the least count that
convicts, and the bounds that a scenario expects."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support import findings
from support.evidence import (
    BITE,
    RECOVERED,
    RUN,
    SECOND,
    SUBJECT,
    WEAK,
    case,
    cases,
    evidence_of,
    judged,
    setting,
    the_injections,
)

from delivery_verifier.judgement.attribution import (
    OUTSIDE,
    attribute_cases,
    confidence_interval,
    kinds_sent_afterwards,
    read_cases,
)
from delivery_verifier.judgement.judge import _meets, verdict_of
from delivery_verifier.judgement.stakes import _is_inside
from delivery_verifier.model.history import Injection
from delivery_verifier.model.scenario import Bound, VerdictName
from delivery_verifier.model.verdict import WORST_FIRST, Doubt, Finding

FIRST = the_injections(RUN)[0]
LATER = replace(FIRST, id=2, bite_at_us=BITE + 50 * SECOND, recovered_at_us=BITE + 60 * SECOND)
ENDLESS = replace(FIRST, recovered_at_us=None)
FROM, UNTIL = BITE - SECOND, RECOVERED + SECOND
"""The window of FIRST, in µs: from a second before the bite to a second after the recovery."""


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
    both_ways = {None: [1], LATER.bite_at_us: [2]}
    for settled_us, owner in both_ways.items():
        assert attribute_cases(cases(case(BITE, settled_us)), injections) == {WEAK: {"LOST": owner}}


def test_the_ids_of_an_anomaly_are_sorted_and_outside_is_the_first() -> None:
    rows = [case(LATER.bite_at_us, LATER.bite_at_us), case(BITE, BITE), case(1, 2)]
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


@pytest.mark.parametrize(("at_us", "inside"), [(FROM - 1, False), (FROM, True), (UNTIL, True), (UNTIL + 1, False)])
def test_an_interval_of_the_timeline_is_inside_from_the_first_to_the_last_microsecond(at_us: int, inside: bool) -> None:
    assert _is_inside(at_us, evidence_of(RUN)) is inside
    assert _is_inside(at_us, evidence_of(RUN, injections=[ENDLESS])) is (at_us >= FROM)


def finding(count: int, tolerance: int | None, also: int = 0) -> Finding:
    return findings.finding("LOST", count, also, tolerance, ruling="FORBIDDEN")


CHECKER = Doubt(kind="checker", name="c", detail="")
COVERAGE = Doubt(kind="coverage", name="c", detail="")


@pytest.mark.parametrize(
    ("doubts", "findings", "expected"),
    [
        ([], [], "HELD"),
        ([], [finding(0, 0)], "HELD"),
        ([], [finding(1, 0)], "VIOLATED"),
        ([], [finding(0, 0, also=1)], "VIOLATED"),
        ([], [finding(1, 2, also=1)], "HELD"),
        ([], [finding(2, 2, also=1)], "VIOLATED"),
        ([], [finding(9, None)], "HELD"),
        ([], [finding(0, 0), finding(1, 0)], "VIOLATED"),
        ([COVERAGE], [finding(1, 0)], "VIOLATED"),
        ([COVERAGE], [finding(0, 0)], "INCONCLUSIVE"),
        ([CHECKER], [finding(1, 0)], "INCONCLUSIVE"),
        ([CHECKER], [finding(0, 0)], "INCONCLUSIVE"),
        ([COVERAGE, CHECKER], [finding(1, 0)], "INCONCLUSIVE"),
    ],
)
def test_a_verdict_follows_from_doubts_and_findings(
    doubts: list[Doubt], findings: list[Finding], expected: VerdictName
) -> None:
    assert verdict_of(doubts, findings) == expected


@pytest.mark.parametrize(
    ("op", "value", "met"),
    [("=", 3, True), ("=", 2, False), ("=", 4, False), (">=", 3, True), (">=", 2, True), (">=", 4, False)]
    + [("<=", 3, True), ("<=", 4, True), ("<=", 2, False)],
)
def test_a_bound_of_an_anomaly_or_of_a_column_is_met_up_to_its_value(op: str, value: int, met: bool) -> None:
    for name in ("lost", "LOST", "failed"):
        bound = Bound(count=name, op=op, value=value)  # type: ignore[arg-type]
        assert _meets({"lost": 3, "failed": 3, "acked": 9}, bound) is met


def test_a_bound_of_what_the_books_do_not_have_is_an_error() -> None:
    with pytest.raises(ValueError, match="no anomaly and no column"):
        _meets({"lost": 3}, Bound(count="missing", op="=", value=0))


def test_a_run_is_green_only_if_every_arm_is_as_expected_and_its_worst_subject_decides() -> None:
    assert WORST_FIRST == ("VIOLATED", "INCONCLUSIVE", "HELD")
    verdict = judged(evidence_of(RUN))
    assert (verdict.verdict, verdict.green) == ("HELD", True) and verdict.notes == []
    lost = judged(evidence_of(RUN, setting("books/producers.parquet", "duplicated", 1, arm=SUBJECT, producer=0)))
    assert not lost.green
