"""Tests of INDETERMINATE attempts that stand in the log behind later records: whom they convict, and whom not."""

from __future__ import annotations

import msgspec
import pytest
from support.evidence import SUBJECT, Rows, a_scenario, arm, evidence_of, judged, the_injections, with_arm

from delivery_verifier.contract.rules import LATE
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.scenario import Bound, Claim, Expectation
from delivery_verifier.model.verdict import ArmVerdict, Finding
from delivery_verifier.reporting.anomaly_columns import cases, columns
from delivery_verifier.reporting.report.reasons import reasons
from delivery_verifier.verdict.evidence import TransactionCounts

LATE_ATTEMPTS = 2


def late(rows: Rows, name: str = SUBJECT, column: str = "resolved_late") -> None:
    """Two attempts of the arm are INDETERMINATE, and stand in the log behind records that were sent after them."""
    row = next(row for row in rows["counts/producers.parquet"] if row["arm"] == name and row["producer"] == 0)
    for reported in ("acked", "reported", "found"):
        row[reported] -= LATE_ATTEMPTS
    row["indeterminate"] = row["resolved_present"] = row[column] = LATE_ATTEMPTS


def in_order(rows: Rows) -> None:
    late(rows, column="resolved_present")


def reordered(of: ArmVerdict) -> Finding:
    return next(finding for finding in of.findings if finding.anomaly == Anomaly.REORDERED)


def test_an_idempotent_producer_that_lived_on_is_convicted_by_a_late_attempt_of_unknown_outcome() -> None:
    verdict = judged(evidence_of(a_scenario(), late))
    subject = arm(verdict)
    assert (subject.verdict, verdict.verdict, verdict.exit_code, subject.doubts) == ("VIOLATED", "VIOLATED", 1, [])
    finding = reordered(subject)
    assert (finding.rule, finding.source, finding.count, finding.also) == (LATE.id, LATE.source, 0, LATE_ATTEMPTS)
    assert (
        "of 1,198 acknowledged records (beside 2 INDETERMINATE attempts), 2 out of order (2 of them INDETERMINATE, and "
        "yet in the log behind a later record), which the contract forbids"
    ) in verdict.sentence


def test_no_page_calls_a_late_attempt_acknowledged_or_its_arm_unhurt() -> None:
    verdict = judged(evidence_of(a_scenario(), late))
    (reason,) = reasons(verdict)
    assert reason.lead == (
        "Violated because 2 records are in the log behind records that were sent after them (of 2 the client never "
        "learned the outcome)."
    )
    assert not any("none hurt" in limit for limit in verdict.limits)


def test_tables_of_arms_show_the_late_attempts_that_convict() -> None:
    tally = arm(judged(evidence_of(a_scenario(), late))).tally
    assert cases(tally, Anomaly.REORDERED) == LATE_ATTEMPTS
    assert Anomaly.REORDERED in columns([tally])


def test_a_bound_on_reorderings_counts_the_late_attempts_that_convict() -> None:
    expectation = Expectation(verdicts=("VIOLATED",), bounds=(Bound(count="REORDERED", op="=", value=LATE_ATTEMPTS),))
    assert judged(evidence_of(with_arm(a_scenario(), SUBJECT, expectation=expectation), late)).green


def test_a_transactional_producer_is_convicted_too() -> None:
    counts = {"transactional": TransactionCounts(3, 2, 1)}
    verdict = judged(
        evidence_of(a_scenario("transactional"), lambda rows: late(rows, "transactional"), transactions=counts)
    )
    assert arm(verdict, "transactional").verdict == "VIOLATED"


def test_an_attempt_of_unknown_outcome_in_its_place_convicts_nobody() -> None:
    verdict = judged(evidence_of(a_scenario(), in_order))
    assert arm(verdict).verdict == "HELD"
    assert "reordered_late" not in arm(verdict).tally
    assert reordered(arm(verdict)).rule == "reordered.never"


@pytest.mark.parametrize("claim", ["contract", "ordered"])
@pytest.mark.parametrize("profile", ["acks_1", "acks_all", "in_flight_1", "retries_off"])
def test_without_idempotence_a_late_attempt_is_legitimate(profile: str, claim: Claim) -> None:
    run = a_scenario(profile, claim=claim)
    assert arm(judged(evidence_of(run, lambda rows: late(rows, profile))), profile).verdict == "HELD"


@pytest.mark.parametrize("took_effect", [True, False])
def test_what_a_killed_producer_left_behind_may_land_late(took_effect: bool) -> None:
    run = a_scenario()
    (kill,) = the_injections(run)
    killed = msgspec.structs.replace(kill, id=2, action="kill_producer", brokers=[], took_effect=took_effect)
    verdict = judged(evidence_of(run, late, injections=[kill, killed]))
    assert "reordered_late" not in arm(verdict).tally
    assert arm(verdict).verdict != "VIOLATED"


def test_the_late_attempt_that_the_canary_plants_convicts_nobody() -> None:
    verdict = judged(evidence_of(a_scenario()))
    assert arm(verdict, "canary").tally["resolved_late"] == 1
    assert "reordered_late" not in arm(verdict, "canary").tally
    assert arm(verdict, "canary").verdict == "HELD"
