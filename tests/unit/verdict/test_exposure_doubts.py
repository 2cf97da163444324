"""Tests of HELD that would mean nothing: no fault could have harmed the arm, or hardly any attempt was answered."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from support.evidence import (
    EFFECT_AT,
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

from delivery_verifier.verdict.exposure_doubts import _is_inside, exposure_doubts

NOTHING = ("coverage", "not_exercised")
FEW = ("coverage", "too_few_answered")


def outstanding(**by_arm: int) -> Change:
    def change(rows: Rows) -> None:
        for row in rows["counts/exposure.parquet"]:
            row["outstanding"] = by_arm.get(row["arm"].replace("-", "_"), 0)

    return change


def unanswered(name: str, per_partition: int, at_us: int | None = None, outcome: str = "indeterminate") -> Change:
    """Returns a change after which attempts to each partition got no answer, at the time `at_us` of the timeline."""

    def change(rows: Rows) -> None:
        for row in rows["timeline/load.parquet"]:
            row["at_us"] -= 0 if row["at_us"] == LAST else 5 * SECOND  # outside every injection
        for row in rows["counts/producers.parquet"]:
            if row["arm"] == name and row["producer"] == 0:
                row[outcome] = per_partition
                row["acked"] = row["reported"] = row["found"] = 400 - per_partition
        if at_us is not None:
            rows["timeline/load.parquet"].append(
                rows["timeline/load.parquet"][0]
                | {"arm": name, "at_us": at_us, "sent": 0, "reported": 0, outcome: 3 * per_partition}
            )

    return change


def test_where_no_attempt_was_outstanding_and_no_arm_was_hurt_nothing_was_exposed() -> None:
    verdict = judged(evidence_of(RUN, outstanding()))
    assert doubts(verdict) == doubts(verdict, WEAK) == {NOTHING}
    assert (verdict.verdict, verdict.green, verdict.exit_code) == ("INCONCLUSIVE", False, 2)
    assert "no attempt was outstanding when an injection took effect, and no injection hurt any arm" in verdict.sentence


def test_one_outstanding_attempt_is_an_exposure_of_its_arm_and_of_arms_with_acks_0() -> None:
    verdict = judged(evidence_of(RUN, outstanding(idempotent=1)))
    assert (arm(verdict).verdict, arm(verdict, WEAK).verdict) == ("HELD", "HELD")
    verdict = judged(evidence_of(RUN, outstanding(control_acks_0=1)))
    assert doubts(verdict) == {NOTHING}
    assert arm(verdict, WEAK).verdict == "HELD"


@pytest.mark.parametrize(("sent_us", "expected"), [(EFFECT_AT, "HELD"), (EFFECT_AT - 5 * SECOND, "INCONCLUSIVE")])
def test_a_control_that_an_injection_hurt_shows_the_exposure(sent_us: int, expected: str) -> None:
    hurt = cases(case(sent_us, sent_us + 1))
    assert arm(judged(evidence_of(RUN, outstanding(), cases=hurt))).verdict == expected


@pytest.mark.parametrize(
    ("at_us", "expected"), [(EFFECT_AT, "HELD"), (RECOVERED, "HELD"), (EFFECT_AT - 5 * SECOND, "INCONCLUSIVE")]
)
def test_an_attempt_that_nobody_answered_during_an_injection_shows_the_exposure(at_us: int, expected: str) -> None:
    change = both(outstanding(), unanswered(WEAK, 1, at_us))
    assert arm(judged(evidence_of(RUN, change))).verdict == expected


def test_an_injection_that_took_no_effect_shows_no_exposure() -> None:
    (kill,) = the_injections(RUN)
    missed = [msgspec.structs.replace(kill, took_effect=False)]
    assert NOTHING not in doubts(judged(evidence_of(RUN, outstanding(), injections=missed))), "it has its own doubt"


def test_a_loss_of_power_puts_exposed_what_was_acknowledged_before() -> None:
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
    change = both(unanswered(SUBJECT, 1), setting("counts/producers.parquet", "failed", 2, arm=SUBJECT, producer=0))
    sentence = judged(evidence_of(RUN, change)).sentence
    assert "all 1,197 acknowledged records (beside 3 INDETERMINATE and 2 FAILED attempts) are in the log" in sentence


def test_without_a_fault_held_is_said_of_a_quiet_day() -> None:
    verdict = judged(evidence_of(a_scenario(fault="none")))
    assert verdict.verdict == "HELD"
    assert arm(verdict).sentence.endswith("; on a quiet day, no fault was injected.")


FIRST = the_injections(RUN)[0]
ENDLESS = replace(FIRST, recovered_at_us=None)
FROM, UNTIL = EFFECT_AT - SECOND, RECOVERED + SECOND
"""The window of FIRST, in µs: from a second before the effect to a second after the recovery."""


@pytest.mark.parametrize(("at_us", "inside"), [(FROM - 1, False), (FROM, True), (UNTIL, True), (UNTIL + 1, False)])
def test_an_interval_of_the_timeline_is_inside_from_the_first_to_the_last_microsecond(at_us: int, inside: bool) -> None:
    assert _is_inside(at_us, evidence_of(RUN)) is inside
    assert _is_inside(at_us, evidence_of(RUN, injections=[ENDLESS])) is (at_us >= FROM)


# ---- At the edges: one attempt, none, and more reports during a fault than the tables of counts have in all.


FEW_ANSWERED = "too_few_answered"


def few_answered(inside: int, indeterminate: int, *without: str) -> list[str]:
    """Returns what `exposure_doubts` says of the answers if `inside` of 1,200 reports came while a fault acted.

    `indeterminate` attempts got no answer while no fault acted. The counts lack the columns `without`.
    """

    def change(rows: Rows) -> None:
        of_producer = [
            row for row in rows["counts/producers.parquet"] if row["arm"] == SUBJECT and row["producer"] == 0
        ]
        of_producer[0]["indeterminate"] = indeterminate
        for row in rows["counts/producers.parquet"]:
            for name in without:
                del row[name]
        for row in rows["timeline/load.parquet"]:
            row["at_us"], row["reported"] = EFFECT_AT, 0
        load: Any = next(row for row in rows["timeline/load.parquet"] if row["arm"] == SUBJECT)
        load["reported"] = inside

    subject = next(arm for arm in evidence_of(RUN, change).loaded if arm.name == SUBJECT)
    return [detail for name, detail in exposure_doubts(subject) if name == FEW_ANSWERED]


@pytest.mark.parametrize(("inside", "indeterminate", "few"), [(1200, 0, 0), (1200, 1, 1), (1199, 1, 0), (1201, 0, 0)])
def test_one_attempt_without_an_answer_must_be_balanced_by_one_with_an_answer(
    inside: int, indeterminate: int, few: int
) -> None:
    assert len(few_answered(inside, indeterminate)) == few


def test_more_reports_during_faults_than_in_all_count_as_none_outside() -> None:
    (detail,) = few_answered(1202, 3)
    assert ": outside all faults, 0 of 3 attempts were reported" in detail


@pytest.mark.parametrize("indeterminate", [0, 1])
def test_a_column_that_the_tally_lack_counts_nothing(indeterminate: int) -> None:
    assert len(few_answered(1200, indeterminate, "failed")) == indeterminate


def test_one_loss_of_power_among_other_faults_puts_every_arm_exposed() -> None:
    def idle(rows: Rows) -> None:
        for row in rows["counts/exposure.parquet"]:
            row["outstanding"] = 0

    (kill,) = the_injections(RUN)
    power = replace(kill, id=2, action="power_off")
    names = {name for _, name in doubts(judged(evidence_of(RUN, idle, injections=[kill, power])))}
    assert "not_exercised" not in names
    assert "not_exercised" in {name for _, name in doubts(judged(evidence_of(RUN, idle)))}


def test_one_injection_that_had_records_in_progress_puts_the_arm_exposed() -> None:
    def idle(rows: Rows) -> None:
        for row in rows["counts/exposure.parquet"]:
            row["outstanding"] = 0

    (kill,) = the_injections(RUN)
    crash = replace(kill, id=2, action="kill_application", proof={"process": {f"in progress of {SUBJECT}": 1}})
    for injections, exposed_records in (([kill, crash], True), ([kill, replace(crash, proof={})], False)):
        subject = next(arm for arm in evidence_of(RUN, idle, injections=injections).loaded if arm.name == SUBJECT)
        assert ("not_exercised" not in dict(exposure_doubts(subject))) == exposed_records
