"""Tests of HELD that would mean nothing: no fault could have harmed the arm, or hardly any attempt was answered."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.evidence import (
    BITE,
    LAST,
    RECOVERED,
    RUN,
    SECOND,
    SUBJECT,
    WEAK,
    Change,
    Rows,
    a_scenario,
    arm,
    both,
    case,
    cases,
    doubts,
    evidence_of,
    judged,
    setting,
    the_injections,
)

NOTHING = ("coverage", "nothing_at_stake")
FEW = ("coverage", "too_few_answered")


def outstanding(**by_arm: int) -> Change:
    def change(rows: Rows) -> None:
        for row in rows["books/exposure.parquet"]:
            row["outstanding"] = by_arm.get(row["arm"].replace("-", "_"), 0)

    return change


def unanswered(name: str, per_partition: int, at_us: int | None = None, outcome: str = "indeterminate") -> Change:
    """Returns a change after which attempts to each partition got no answer, at the time `at_us` of the timeline."""

    def change(rows: Rows) -> None:
        for row in rows["timeline/load.parquet"]:
            row["at_us"] -= 0 if row["at_us"] == LAST else 5 * SECOND  # outside every injection
        for row in rows["books/producers.parquet"]:
            if row["arm"] == name and row["producer"] == 0:
                row[outcome] = per_partition
                row["acked"] = row["reported"] = row["found"] = 400 - per_partition
        if at_us is not None:
            rows["timeline/load.parquet"].append(
                rows["timeline/load.parquet"][0]
                | {"arm": name, "at_us": at_us, "sent": 0, "reported": 0, outcome: 3 * per_partition}
            )

    return change


def test_where_no_attempt_was_outstanding_and_no_arm_was_hurt_nothing_was_at_stake() -> None:
    verdict = judged(evidence_of(RUN, outstanding()))
    assert doubts(verdict) == doubts(verdict, WEAK) == {NOTHING}
    assert (verdict.verdict, verdict.green, verdict.exit_code) == ("INCONCLUSIVE", False, 2)
    assert "no attempt was outstanding when an injection bit, and no injection hurt any arm" in verdict.sentence


def test_one_outstanding_attempt_is_a_stake_of_its_arm_and_of_arms_with_acks_0() -> None:
    verdict = judged(evidence_of(RUN, outstanding(idempotent=1)))
    assert (arm(verdict).verdict, arm(verdict, WEAK).verdict) == ("HELD", "HELD")
    verdict = judged(evidence_of(RUN, outstanding(control_acks_0=1)))
    assert doubts(verdict) == {NOTHING}
    assert arm(verdict, WEAK).verdict == "HELD"


@pytest.mark.parametrize(("sent_us", "expected"), [(BITE, "HELD"), (BITE - 5 * SECOND, "INCONCLUSIVE")])
def test_a_control_that_an_injection_hurt_shows_the_stake(sent_us: int, expected: str) -> None:
    hurt = cases(case(sent_us, sent_us + 1))
    assert arm(judged(evidence_of(RUN, outstanding(), cases=hurt))).verdict == expected


@pytest.mark.parametrize(
    ("at_us", "expected"), [(BITE, "HELD"), (RECOVERED, "HELD"), (BITE - 5 * SECOND, "INCONCLUSIVE")]
)
def test_an_attempt_that_nobody_answered_during_an_injection_shows_the_stake(at_us: int, expected: str) -> None:
    change = both(outstanding(), unanswered(WEAK, 1, at_us))
    assert arm(judged(evidence_of(RUN, change))).verdict == expected


def test_an_injection_that_did_not_bite_shows_no_stake() -> None:
    (kill,) = the_injections(RUN)
    missed = [msgspec.structs.replace(kill, bit=False)]
    assert NOTHING not in doubts(judged(evidence_of(RUN, outstanding(), injections=missed))), "it has its own doubt"


def test_a_loss_of_power_puts_at_stake_what_was_acknowledged_before() -> None:
    (kill,) = the_injections(RUN)
    power: Any = [msgspec.structs.replace(kill, action="power_off")]
    assert NOTHING not in doubts(judged(evidence_of(RUN, outstanding(), injections=power)))


def test_twelve_of_1200_reported_on_a_quiet_cluster_are_no_proof_of_anything() -> None:
    for run in (RUN, a_scenario(fault="none")):
        verdict = judged(evidence_of(run, unanswered(SUBJECT, 396)))
        assert doubts(verdict) == {FEW}
        assert "outside all faults, 12 of 1200 attempts were reported, at least 50% are needed" in verdict.sentence


@pytest.mark.parametrize(("per_partition", "expected"), [(200, set()), (201, {FEW})])
@pytest.mark.parametrize("outcome", ["indeterminate", "failed"])
def test_half_of_all_attempts_outside_the_faults_must_be_answered(
    outcome: str, per_partition: int, expected: set[tuple[str, str]]
) -> None:
    assert doubts(judged(evidence_of(RUN, unanswered(SUBJECT, per_partition, LAST, outcome)))) == expected


def test_what_a_fault_leaves_unanswered_while_it_lasts_is_no_doubt_and_stands_in_the_sentence() -> None:
    verdict = judged(evidence_of(RUN, unanswered(SUBJECT, 396, RECOVERED)))
    assert not doubts(verdict)
    assert "HELD: all 12 acknowledged records (beside 1,188 INDETERMINATE attempts) are in the log" in verdict.sentence


def test_the_attempts_that_failed_stand_in_the_sentence_of_held_too() -> None:
    change = both(unanswered(SUBJECT, 1), setting("books/producers.parquet", "failed", 2, arm=SUBJECT, producer=0))
    sentence = judged(evidence_of(RUN, change)).sentence
    assert "all 1,197 acknowledged records (beside 3 INDETERMINATE and 2 FAILED attempts) are in the log" in sentence


def test_without_a_fault_held_is_said_of_a_quiet_day() -> None:
    verdict = judged(evidence_of(a_scenario(fault="none")))
    assert verdict.verdict == "HELD"
    assert arm(verdict).sentence.endswith("; on a quiet day, no fault was injected.")
