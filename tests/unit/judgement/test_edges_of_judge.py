"""Tests of the judge at the edges: equal counts that must not cancel out, several bounds, and what decides on green."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.evidence import (
    BITE,
    CANARY_ARM,
    RUN,
    SECOND,
    SUBJECT,
    Rows,
    a_scenario,
    arm,
    case,
    cases,
    evidence_of,
    judged,
    lost,
    setting,
    with_arm,
)
from support.stored_data import NAMES, stored_run

from delivery_verifier.judgement.judge import _meets, load_and_judge
from delivery_verifier.model.anomalies import TRANSACTIONAL, also_column, column
from delivery_verifier.model.scenario import Bound, Expectation, Scenario
from delivery_verifier.model.verdict import Finding
from delivery_verifier.store.counts import UNPROVEN
from delivery_verifier.store.run_directory import IncompleteRun

PRODUCERS = "books/producers.parquet"


def counted(name: str = SUBJECT, **counts: int) -> object:
    """Returns a change of the counts of the arm's first producer in partition 0."""

    def change(rows: Rows) -> None:
        next(row for row in rows[PRODUCERS] if row["arm"] == name and row["producer"] == 0).update(counts)

    return change


def findings(name: str, scenario: Scenario, change: object, anomaly: str, *rows: dict[str, object]) -> list[Finding]:
    evidence = evidence_of(scenario, change, cases=cases(*rows))  # type: ignore[arg-type]
    return [item for item in arm(judged(evidence), name).findings if item.anomaly == anomaly]


def test_as_many_hidden_as_plain_cases_that_are_unexplained_convict() -> None:
    late = BITE + 60 * SECOND
    rows = [
        case(late, late + 1, "MISPLACED", arm="acks_1"),
        case(late, late + 1, "DUPLICATED", "MISPLACED", arm="acks_1"),
    ]
    change = counted("acks_1", misplaced=4, also_misplaced=3, duplicated=1)
    permitted, forbidden = findings("acks_1", a_scenario("acks_1"), change, "MISPLACED", *rows)
    assert (permitted.count, permitted.also, permitted.tolerance) == (3, 2, None)
    assert (forbidden.count, forbidden.also, forbidden.tolerance) == (1, 1, 0)


@pytest.mark.parametrize("anomaly", TRANSACTIONAL)
def test_an_anomaly_of_transactions_in_an_arm_without_any_is_left_out_only_if_it_did_not_occur(anomaly: str) -> None:
    kind = next(each for each in TRANSACTIONAL if each == anomaly)
    assert findings(SUBJECT, RUN, counted(), anomaly) == []
    for count, also in ((2, 2), (1, 0), (0, 1)):
        (finding,) = findings(SUBJECT, RUN, counted(**{column(kind): count, also_column(kind): also}), anomaly)
        assert (finding.count, finding.also) == (count, also)


def test_an_arm_of_transactions_has_a_finding_for_each_anomaly() -> None:
    run = a_scenario("transactional")
    found = {item.anomaly for item in arm(judged(evidence_of(run)), run.subjects[0].name).findings}
    assert set(TRANSACTIONAL) <= found and "LOST" in found


def expecting(*verdicts: str, bounds: tuple[Bound, ...] = ()) -> Scenario:
    return with_arm(RUN, SUBJECT, expectation=Expectation(verdicts=verdicts, bounds=bounds))  # type: ignore[arg-type]


def test_a_run_that_was_expected_to_be_inconclusive_is_as_expected_but_not_green() -> None:
    few = setting("books/exposure.parquet", "reported", 5, arm=SUBJECT)
    verdict = judged(evidence_of(expecting("INCONCLUSIVE"), few))
    assert (arm(verdict).verdict, arm(verdict).as_expected, verdict.green) == ("INCONCLUSIVE", True, False)


def test_all_bounds_must_be_met_and_they_make_no_other_verdict_expected() -> None:
    met, missed = Bound(count="LOST", op="=", value=3), Bound(count="LOST", op="=", value=4)
    for bounds, expected in (((met, met), True), ((met, missed), False), ((missed, met), False)):
        assert arm(judged(evidence_of(expecting("VIOLATED", bounds=bounds), lost(3)))).as_expected is expected
        assert not arm(judged(evidence_of(expecting("HELD", bounds=bounds), lost(3)))).as_expected


@pytest.mark.parametrize(
    ("op", "value", "met"),
    [
        ("=", 3, False),
        ("=", 5, False),
        (">=", 3, True),
        (">=", 4, False),
        ("<=", 4, False),
        ("<=", 5, True),
    ],
)
def test_a_bound_of_losses_must_be_met_whether_those_unproven_are_lost_or_not(op: str, value: int, met: bool) -> None:
    totals = {"lost": 3, "duplicated": 3, UNPROVEN: 2}
    assert _meets(totals, Bound(count="LOST", op=op, value=value)) is met  # type: ignore[arg-type]
    of_copies = Bound(count="DUPLICATED", op="=", value=3)
    assert _meets(totals, of_copies) and _meets(totals | {UNPROVEN: 9}, of_copies)


def test_a_bound_of_losses_counts_nothing_unproven_where_nothing_is() -> None:
    assert _meets({"lost": 3}, Bound(count="LOST", op="=", value=3))


def test_the_canary_has_a_finding_for_each_anomaly_with_what_was_planted() -> None:
    canary = arm(judged(evidence_of(RUN)), CANARY_ARM)
    assert len(canary.findings) == len(evidence_of(RUN).searched)
    assert all(item.tolerance == item.count + item.also for item in canary.findings)
    assert all(item.sentence.startswith(f"{item.tolerance} were planted") for item in canary.findings)


def test_a_control_without_books_is_no_control_in_the_sentence() -> None:
    verdict = judged(evidence_of(RUN, lambda rows: [row.pop("lost") for row in rows[PRODUCERS]]))
    assert "control" not in verdict.sentence


def test_a_run_whose_validation_did_not_finish_has_no_verdict(tmp_path: Path) -> None:
    run = stored_run(NAMES[0], tmp_path)
    (run.path / "validate.json").unlink()
    with pytest.raises(IncompleteRun, match="validate"):
        load_and_judge(run.path)


def test_a_validation_that_was_altered_is_refused(tmp_path: Path) -> None:
    run = stored_run(NAMES[0], tmp_path)
    file = run.path / "validation.json"
    file.write_bytes(file.read_bytes() + b"\n")
    with pytest.raises(IncompleteRun, match="SHA-256"):
        load_and_judge(run.path)
