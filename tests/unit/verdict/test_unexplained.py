"""Tests of unexplained cases as counts: those that are cases, those that are hidden, and those that nobody can know."""

from __future__ import annotations

from support.evidence import EFFECT_AT, SECOND, Change, a_scenario, case, cases, evidence_of, lost

from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.run_directory.tally import with_totals
from delivery_verifier.verdict.evidence import ArmEvidence
from delivery_verifier.verdict.unexplained import (
    UNEXPLAINED,
    unexplained_column,
    unexplained_counts,
    with_unexplained,
)

RUN, NAME = a_scenario("acks_1"), "acks_1"
SENT = EFFECT_AT + 5 * SECOND
"""After the last change of the leader: no disturbance explains what was acknowledged later."""
LOST = case(SENT, SENT + 1, "LOST", arm=NAME)
HIDDEN = case(SENT, SENT + 1, "DUPLICATED", "MISPLACED", arm=NAME)


def subject(*rows: dict[str, object], change: Change = lost(7, NAME), **more: object) -> ArmEvidence:
    evidence = evidence_of(RUN, change, **({"cases": cases(*rows)} if rows else {}), **more)
    return next(arm for arm in evidence.loaded if arm.name == NAME)


def column_of(arm: ArmEvidence, anomaly: Anomaly) -> list[int | None]:
    """Returns the counts of unexplained cases, by producer and partition; those that are 0 are left out."""
    rows = with_unexplained(with_totals(arm.run.tally.rows("producers", arm=NAME)), arm)
    counts: list[int | None] = rows[unexplained_column(anomaly)].to_pylist()
    assert len(counts) == rows.num_rows > 3
    return [count for count in counts if count != 0]


def test_unexplained_cases_are_counted_of_what_an_election_takes_and_of_what_is_sent_again() -> None:
    taken, copied = {Anomaly.LOST, Anomaly.MISPLACED}, {Anomaly.DUPLICATED, Anomaly.REORDERED}
    assert set(UNEXPLAINED) == taken | copied
    assert set(unexplained_counts(subject(LOST))) == set(UNEXPLAINED)


def test_a_record_that_shows_an_anomaly_but_is_a_case_of_another_counts_too() -> None:
    counts = {kind: count for kind, count in unexplained_counts(subject(LOST, LOST, HIDDEN)).items() if count}
    assert counts == {Anomaly.LOST: 2, Anomaly.MISPLACED: 1}


def test_the_tally_show_unexplained_cases_where_they_are() -> None:
    arm = subject(LOST, LOST, HIDDEN)
    assert column_of(arm, Anomaly.LOST) == [2] and column_of(arm, Anomaly.MISPLACED) == [1]


def test_without_a_list_of_cases_their_number_is_unknown_where_the_anomaly_is_permitted() -> None:
    assert column_of(subject(), Anomaly.LOST) == [None]
    assert column_of(subject(change=lost(0, NAME)), Anomaly.LOST) == []
    strict = evidence_of(a_scenario(), lost(7, "idempotent"))
    arm = next(arm for arm in strict.loaded if arm.name == "idempotent")
    rows = with_unexplained(with_totals(arm.run.tally.rows("producers", arm=arm.name)), arm)
    assert set(rows[unexplained_column(Anomaly.LOST)].to_pylist()) == {0}, "no disturbance permits a loss here"
