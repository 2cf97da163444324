"""Tests of what a verdict says of applications: what was drained, what was at stake, and what a crash excuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from support.applications import application
from support.evidence import (
    BITE,
    HEALED,
    RECOVERED,
    SECOND,
    SUBJECT,
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
    with_arm,
)

from delivery_verifier.judgement.evaluation import LAWS_OF_EFFECTS, expected_evaluations
from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.model.act import Act
from delivery_verifier.model.anomalies import EFFECTS as KINDS
from delivery_verifier.model.anomalies import Anomaly, column
from delivery_verifier.model.application import Discipline
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import Injection
from delivery_verifier.model.scenario import Claim, Scenario

EFFECTS, PRODUCERS = "books/effects.parquet", "books/producers.parquet"


@pytest.fixture(autouse=True)
def _an_action_that_kills_applications(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    act = Act(name="kill_application", summary="", whom="application", bites=True, counts_as=("application_crash",))
    monkeypatch.setitem(ACTS, act.name, act)
    yield


def applied_by(discipline: Discipline, claim: Claim = "contract", fault: str = "none") -> Scenario:
    return with_arm(a_scenario(fault=fault), SUBJECT, application=application(discipline), claim=claim)


def killed(**proof: object) -> Injection:
    return Injection(
        id=1,
        cycle=0,
        action="kill_application",
        brokers=[],
        hit={a_scenario().arm(SUBJECT).topic_name: [0, 1, 2]},
        requested_at_us=BITE - 1,
        bite_at_us=BITE,
        healed_at_us=HEALED,
        recovered_at_us=RECOVERED,
        bit=True,
        proof={"process": {f"in hand of {SUBJECT}": 6, "member 0": "SIGKILL", **proof}},
    )


def exposure(rows: Rows) -> None:
    rows["books/exposure.parquet"] = [
        {"arm": of.name, "injection": 1, "reported": 150, "outstanding": 0} for of in a_scenario().loaded
    ]


def crashed(
    discipline: Discipline, change: Change = lambda rows: None, claim: Claim = "contract", **more: Any
) -> Evidence:
    made = applied_by(discipline, claim)
    return evidence_of(made, both(exposure, change), injections=[killed()], **more)


def counted(kind: Anomaly, count: int) -> Change:
    """Returns a change that makes `count` records of the subject cases of `kind`, and keeps the books in balance."""

    def change(rows: Rows) -> None:
        setting(PRODUCERS, column(kind), count, arm=SUBJECT, producer=0, partition=0)(rows)
        if kind is Anomaly.SKIPPED:
            setting(EFFECTS, "applied", 400 - count, arm=SUBJECT, partition=0)(rows)

    return change


def of_kind(kind: Anomaly, sent_us: int = BITE - SECOND, count: int = 6) -> Any:
    return cases(*[case(sent_us, sent_us + 1000, kind.value, arm=SUBJECT)] * count)


def test_a_quiet_application_that_applied_everything_is_held() -> None:
    verdict = judged(evidence_of(applied_by("commit_after")))
    assert (verdict.verdict, doubts(verdict)) == ("HELD", set())
    assert {finding.anomaly for finding in arm(verdict).findings} >= {kind.value for kind in KINDS}
    assert arm(verdict).books["effects_applied"] == 1200


def test_a_run_without_applications_has_no_expectation_finding_or_law_of_effects() -> None:
    plain = evidence_of(a_scenario())
    assert not {plan.about for plan in expected_evaluations(plain)} & {
        *LAWS_OF_EFFECTS,
        *(kind.value for kind in KINDS),
    }
    assert not {finding.anomaly for finding in arm(judged(plain)).findings} & {kind.value for kind in KINDS}
    assert not [name for name in arm(judged(plain)).books if name.startswith("effects_")]


def test_a_partition_without_a_marker_is_a_doubt_and_nothing_in_it_is_skipped() -> None:
    change = both(
        setting(EFFECTS, "drained", 0, arm=SUBJECT, partition=1),
        setting(EFFECTS, "pending", 9, arm=SUBJECT, partition=1),
    )
    verdict = judged(evidence_of(applied_by("commit_after", "exactly_once"), change))
    assert (verdict.verdict, doubts(verdict)) == ("INCONCLUSIVE", {("coverage", "not_drained")})
    assert "partitions [1]" in arm(verdict).doubts[0].detail
    assert "9 records" in arm(verdict).doubts[0].detail


@pytest.mark.parametrize("law", LAWS_OF_EFFECTS)
@pytest.mark.parametrize("owner", [SUBJECT, "canary"])
def test_a_broken_law_of_effects_forbids_every_verdict(law: str, owner: str) -> None:
    change = both(counted(Anomaly.SKIPPED, 5), setting("books/laws.parquet", "left", 8, law=law, arm=owner))
    verdict = judged(evidence_of(applied_by("commit_after", "at_least_once"), change))
    name = "effects_incomplete" if law == "effects_read" else f"books_unbalanced:{law}"
    assert ("checker", name) in doubts(verdict)
    assert verdict.verdict == "INCONCLUSIVE"


def test_a_missing_law_of_effects_or_a_missing_table_forbids_every_verdict() -> None:
    def without(rows: Rows) -> None:
        rows["books/laws.parquet"] = [row for row in rows["books/laws.parquet"] if row["law"] != "lives"]

    assert ("checker", "law_missing") in doubts(judged(evidence_of(applied_by("commit_after"), without)))

    def empty(rows: Rows) -> None:
        rows["books/effects.parquet"] = []

    assert ("checker", "table_missing") in doubts(judged(evidence_of(applied_by("commit_after"), empty)))


@pytest.mark.parametrize("name", ["skipped", "reapplied", "ghost", "overtaken", "also_overtaken"])
def test_a_canary_of_which_one_case_was_not_found_forbids_every_verdict(name: str) -> None:
    verdict = judged(evidence_of(applied_by("commit_after"), setting(PRODUCERS, name, 0, arm="canary", producer=0)))
    assert ("checker", "canary_wrong") in doubts(verdict)


@pytest.mark.parametrize("name", ["carried", "pending", "unparsed", "markers", "drained", "again", "ghost_effects"])
def test_a_count_of_the_canarys_effects_that_is_wrong_forbids_every_verdict(name: str) -> None:
    verdict = judged(evidence_of(applied_by("commit_after"), setting(EFFECTS, name, 77, arm="canary", partition=0)))
    assert ("checker", "canary_wrong") in doubts(verdict)


def test_at_most_once_permits_what_was_in_hand_in_a_crash_to_be_skipped() -> None:
    verdict = judged(crashed("commit_first", counted(Anomaly.SKIPPED, 6), cases=of_kind(Anomaly.SKIPPED)))
    (finding,) = [item for item in arm(verdict).findings if item.anomaly == "SKIPPED"]
    assert (finding.ruling, finding.rule, finding.count) == ("PERMITTED", "skipped.commit_first", 6)
    assert [excuse.count for excuse in finding.excuses] == [6]
    assert (arm(verdict).verdict, doubts(verdict)) == ("HELD", set())
    assert arm(verdict).bites == {"SKIPPED": [1]}


@pytest.mark.parametrize("claim", ["at_least_once", "exactly_once"])
def test_a_claim_that_forbids_a_loss_is_violated_by_it(claim: Claim) -> None:
    verdict = judged(crashed("commit_first", counted(Anomaly.SKIPPED, 6), claim, cases=of_kind(Anomaly.SKIPPED)))
    assert arm(verdict).verdict == "VIOLATED"


def test_who_commits_after_applying_may_skip_nothing_and_reapply() -> None:
    verdict = judged(crashed("commit_after", counted(Anomaly.SKIPPED, 1), cases=of_kind(Anomaly.SKIPPED, count=1)))
    assert arm(verdict).verdict == "VIOLATED"
    verdict = judged(crashed("commit_after", counted(Anomaly.REAPPLIED, 4), cases=of_kind(Anomaly.REAPPLIED, count=4)))
    assert (arm(verdict).verdict, doubts(verdict)) == ("HELD", set())


def test_more_skipped_than_in_hand_is_no_pass() -> None:
    verdict = judged(crashed("commit_first", counted(Anomaly.SKIPPED, 7), cases=of_kind(Anomaly.SKIPPED, count=7)))
    assert arm(verdict).verdict == "INCONCLUSIVE"
    assert "only 6 records were in hand" in next(item.detail for item in arm(verdict).doubts)


def test_more_applied_again_than_was_set_back_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    rewind = Act(name="rewind", summary="", whom="application", bites=True, momentary=True, counts_as=("rewind",))
    monkeypatch.setitem(ACTS, "rewind", rewind)
    setback = msgspec.structs.replace(killed(), action="rewind", proof={"process": {f"rewound {SUBJECT}": 60}})
    for again, verdict in ((60, "HELD"), (61, "INCONCLUSIVE")):
        change = both(counted(Anomaly.REAPPLIED, 60), setting(EFFECTS, "again", again, arm=SUBJECT, partition=0))
        evidence = crashed("commit_first", change, cases=of_kind(Anomaly.REAPPLIED, count=60))
        assert arm(judged(replace(evidence, injections=[setback]))).verdict == verdict


def test_what_was_sent_after_the_members_ran_again_was_not_in_hand() -> None:
    late = of_kind(Anomaly.SKIPPED, sent_us=RECOVERED + 9 * SECOND)
    verdict = judged(crashed("commit_first", counted(Anomaly.SKIPPED, 6), cases=late))
    assert arm(verdict).verdict == "INCONCLUSIVE"
    assert {name for _, name in doubts(verdict)} == {"unexplained"}


def test_a_crash_with_nothing_in_hand_puts_nothing_to_the_test() -> None:
    empty = msgspec.structs.replace(killed(), proof={"process": {f"in hand of {SUBJECT}": 0}})
    verdict = judged(replace(crashed("commit_after"), injections=[empty]))
    assert {name for _, name in doubts(verdict)} == {"too_little_exposed", "nothing_at_stake"}
    unproven = msgspec.structs.replace(killed(), bit=False)
    verdict = judged(replace(crashed("commit_after"), injections=[unproven]))
    assert ("coverage", "fault_did_not_bite") in doubts(verdict)


def test_the_arm_without_an_application_is_not_put_to_the_test_by_a_crash_of_applications() -> None:
    verdict = judged(crashed("commit_after"))
    assert ("coverage", "too_little_exposed") in doubts(verdict, "control-acks_0")


def test_an_application_that_stood_still_all_through_the_load_is_not_held() -> None:
    change = both(*[setting(EFFECTS, "in_time", 0, arm=SUBJECT, partition=at) for at in range(3)])
    verdict = judged(evidence_of(applied_by("commit_after"), change))
    assert (verdict.verdict, doubts(verdict)) == ("INCONCLUSIVE", {("coverage", "application_idle")})


def test_effects_that_name_no_record_forbid_held() -> None:
    change = both(
        setting(EFFECTS, "unparsed", 1, arm=SUBJECT, partition=0),
        setting(EFFECTS, "effects", 402, arm=SUBJECT, partition=0),
    )
    verdict = judged(evidence_of(applied_by("commit_after"), change))
    assert doubts(verdict) == {("coverage", "effects_unparsed")}


def test_a_loss_in_the_log_and_a_ghost_are_two_cases_of_one_record() -> None:
    change = both(counted(Anomaly.GHOST, 2), setting(PRODUCERS, "lost", 2, arm=SUBJECT, producer=0, partition=0))
    verdict = judged(evidence_of(applied_by("commit_after"), change))
    wrong = {finding.anomaly: finding.count for finding in arm(verdict).findings if finding.count}
    assert wrong == {"LOST": 2, "GHOST": 2}
    assert arm(verdict).verdict == "VIOLATED"
