"""Tests of what a verdict says of applications: what was drained, what was exposed, and what a crash explains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from support.applications import DEFECTS, EFFECTS, PRODUCERS, application, applied, undrained
from support.evidence import (
    EFFECT_AT,
    HEALED,
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
    with_arm,
)
from support.judged_applications import applied_by, counted, doubts_of, run_of

from delivery_verifier.model.anomalies import EFFECTS as KINDS
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.application import Discipline
from delivery_verifier.model.fault_plan import FaultPlan, FaultStep, Trigger
from delivery_verifier.model.history import Injection
from delivery_verifier.model.scenario import Claim
from delivery_verifier.verdict.applications import (
    exposed_records,
    in_progress,
    set_back,
    torn_effects,
)
from delivery_verifier.verdict.evaluation import INVARIANTS_OF_EFFECTS, expected_evaluations
from delivery_verifier.verdict.evidence import Evidence


def killed(**proof: object) -> Injection:
    return Injection(
        id=1,
        cycle=0,
        action="kill_application",
        brokers=[],
        hit={a_scenario().arm(SUBJECT).topic_name: [0, 1, 2]},
        requested_at_us=EFFECT_AT - 1,
        effect_at_us=EFFECT_AT,
        healed_at_us=HEALED,
        recovered_at_us=RECOVERED,
        took_effect=True,
        proof={"process": {f"in progress of {SUBJECT}": 6, "member 0": "SIGKILL", **proof}},
    )


def stopped(waiting: int) -> Injection:
    proof = {"process": {}, "process_before_heal": {f"waiting of {SUBJECT}": waiting, "waiting of other": 30}}
    return msgspec.structs.replace(killed(), id=2, action="stop_application", proof=proof)


def rewound(by: int) -> Injection:
    proof = {"process": {f"rewound {SUBJECT}": by}}
    return msgspec.structs.replace(killed(), id=2, action="rewind", proof=proof)


def exposure(rows: Rows, injection: int = 1) -> None:
    rows["counts/exposure.parquet"] += [
        {"arm": of.name, "injection": injection, "reported": 150, "outstanding": 0} for of in a_scenario().loaded
    ]


def crashed(
    discipline: Discipline,
    change: Change = lambda rows: None,
    claim: Claim = "contract",
    reset: str = "earliest",
    **more: Any,
) -> Evidence:
    made = applied_by(discipline, claim, reset)
    return evidence_of(made, both(exposure, change), **{"injections": [killed()]} | more)


def of_kind(kind: Anomaly, sent_us: int = EFFECT_AT - SECOND, count: int = 6) -> Any:
    return cases(*[case(sent_us, sent_us + 1000, kind.value, arm=SUBJECT)] * count)


def test_a_quiet_application_that_applied_everything_is_held() -> None:
    verdict = judged(evidence_of(applied_by("commit_after")))
    assert (verdict.verdict, doubts(verdict)) == ("HELD", set())
    assert {finding.anomaly for finding in arm(verdict).findings} >= {kind.value for kind in KINDS}
    assert arm(verdict).tally["effects_applied"] == 1200


def test_a_run_without_applications_has_no_expectation_finding_or_invariant_of_effects() -> None:
    plain = evidence_of(a_scenario())
    assert not {plan.about for plan in expected_evaluations(plain)} & {
        *INVARIANTS_OF_EFFECTS,
        *(kind.value for kind in KINDS),
    }
    assert not {finding.anomaly for finding in arm(judged(plain)).findings} & {kind.value for kind in KINDS}
    assert not [name for name in arm(judged(plain)).tally if name.startswith("effects_")]


def test_a_partition_without_a_marker_is_a_doubt_and_nothing_in_it_is_skipped() -> None:
    change = both(
        setting(EFFECTS, "drained", 0, arm=SUBJECT, partition=1),
        setting(EFFECTS, "pending", 9, arm=SUBJECT, partition=1),
    )
    verdict = judged(evidence_of(applied_by("commit_after", "exactly_once"), change))
    assert (verdict.verdict, doubts(verdict)) == ("INCONCLUSIVE", {("coverage", "not_drained")})
    assert "partitions [1]" in arm(verdict).doubts[0].detail
    assert "9 records" in arm(verdict).doubts[0].detail


@pytest.mark.parametrize("invariant", INVARIANTS_OF_EFFECTS)
@pytest.mark.parametrize("owner", [SUBJECT, "canary"])
def test_a_broken_invariant_of_effects_forbids_every_verdict(invariant: str, owner: str) -> None:
    change = both(
        counted(Anomaly.SKIPPED, 5), setting("counts/invariants.parquet", "left", 8, invariant=invariant, arm=owner)
    )
    verdict = judged(evidence_of(applied_by("commit_after", "at_least_once"), change))
    name = "effects_incomplete" if invariant == "effects_read" else f"counts_unbalanced:{invariant}"
    assert ("checker", name) in doubts(verdict)
    assert verdict.verdict == "INCONCLUSIVE"


def test_a_missing_invariant_of_effects_or_a_missing_table_forbids_every_verdict() -> None:
    def without(rows: Rows) -> None:
        rows["counts/invariants.parquet"] = [
            row for row in rows["counts/invariants.parquet"] if row["invariant"] != "incarnations"
        ]

    assert ("checker", "invariant_missing") in doubts(judged(evidence_of(applied_by("commit_after"), without)))

    def empty(rows: Rows) -> None:
        rows["counts/effects.parquet"] = []

    assert ("checker", "table_missing") in doubts(judged(evidence_of(applied_by("commit_after"), empty)))


@pytest.mark.parametrize("name", ["skipped", "reapplied", "ghost", "overtaken", "also_overtaken"])
def test_a_canary_of_which_one_case_was_not_found_forbids_every_verdict(name: str) -> None:
    verdict = judged(evidence_of(applied_by("commit_after"), setting(PRODUCERS, name, 0, arm="canary", producer=0)))
    assert ("checker", "canary_wrong") in doubts(verdict)


@pytest.mark.parametrize("name", ["carried", "pending", "unparsed", "markers", "drained", "again", "ghost_effects"])
def test_a_count_of_the_canarys_effects_that_is_wrong_forbids_every_verdict(name: str) -> None:
    verdict = judged(evidence_of(applied_by("commit_after"), setting(EFFECTS, name, 77, arm="canary", partition=0)))
    assert ("checker", "canary_wrong") in doubts(verdict)


def test_at_most_once_permits_what_was_in_progress_in_a_crash_to_be_skipped() -> None:
    verdict = judged(crashed("commit_first", counted(Anomaly.SKIPPED, 6), cases=of_kind(Anomaly.SKIPPED)))
    (finding,) = [item for item in arm(verdict).findings if item.anomaly == "SKIPPED"]
    assert (finding.ruling, finding.rule, finding.count) == ("PERMITTED", "skipped.commit_first", 6)
    assert [explanation.count for explanation in finding.explained_by] == [6]
    assert (arm(verdict).verdict, doubts(verdict)) == ("HELD", set())
    assert arm(verdict).seen_in == {"SKIPPED": [1]}


@pytest.mark.parametrize("claim", ["at_least_once", "exactly_once"])
def test_a_claim_that_forbids_a_loss_is_violated_by_it(claim: Claim) -> None:
    verdict = judged(crashed("commit_first", counted(Anomaly.SKIPPED, 6), claim, cases=of_kind(Anomaly.SKIPPED)))
    assert arm(verdict).verdict == "VIOLATED"


def test_who_commits_after_applying_may_skip_nothing_and_reapply() -> None:
    verdict = judged(crashed("commit_after", counted(Anomaly.SKIPPED, 1), cases=of_kind(Anomaly.SKIPPED, count=1)))
    assert arm(verdict).verdict == "VIOLATED"
    verdict = judged(crashed("commit_after", counted(Anomaly.REAPPLIED, 4), cases=of_kind(Anomaly.REAPPLIED, count=4)))
    assert (arm(verdict).verdict, doubts(verdict)) == ("HELD", set())


def test_more_skipped_than_in_progress_is_no_pass() -> None:
    verdict = judged(crashed("commit_first", counted(Anomaly.SKIPPED, 7), cases=of_kind(Anomaly.SKIPPED, count=7)))
    assert arm(verdict).verdict == "INCONCLUSIVE"
    assert "only 6 records were in progress" in next(item.detail for item in arm(verdict).doubts)


def replaced(**thawed: Any) -> list[Injection]:
    """Returns the freeze of an application's member, and the thaw, with the changes `thawed`."""
    thaw = msgspec.structs.replace(killed(), id=2, action="thaw_application")
    return [msgspec.structs.replace(killed(), action="freeze_application"), msgspec.structs.replace(thaw, **thawed)]


FROZEN = FaultPlan(
    name="frozen",
    summary="",
    steps=tuple(
        FaultStep(trigger=Trigger(kind="at_once"), action=action, target="none", options=options)
        for action, options in (("park", {"at": "polled"}), ("freeze_application", {}), ("thaw_application", {}))
    ),
)


@pytest.mark.parametrize(
    ("discipline", "claim", "expected"),
    [
        ("database_together", "contract", "HELD"),
        ("database_together", "exactly_once", "VIOLATED"),
        ("database_compared", "contract", "VIOLATED"),
    ],
)
def test_only_who_does_not_compare_may_apply_again_behind_its_replacement(
    discipline: Discipline, claim: Claim, expected: str
) -> None:
    change = both(lambda rows: exposure(rows, 2), counted(Anomaly.REAPPLIED, 6))
    evidence = crashed(discipline, change, claim, injections=replaced(), cases=of_kind(Anomaly.REAPPLIED))
    verdict = judged(evidence)
    assert (arm(verdict).verdict, doubts(verdict)) == (expected, set())


@pytest.mark.parametrize(
    ("proof", "said"),
    [
        ({"failed": "timed out: a/0"}, "injection 2 (thaw application) has no proof that it took effect: timed out"),
        ({}, "nothing shows that every application went on behind its replacement"),
    ],
)
def test_a_zombie_that_did_nothing_leaves_no_verdict_and_the_doubt_says_what_did_not_happen(
    proof: dict[str, object], said: str
) -> None:
    planned = msgspec.structs.replace(applied_by("database_compared", "exactly_once"), fault=FROZEN)
    missed = replaced(took_effect=False, proof={"process": {}, **proof})
    verdict = judged(evidence_of(planned, both(exposure, lambda rows: exposure(rows, 2)), injections=missed))
    assert arm(verdict).verdict == "INCONCLUSIVE"
    assert any(item.name == "fault_took_no_effect" and said in item.detail for item in arm(verdict).doubts)


def test_a_rewind_does_not_explain_what_is_skipped_beside_a_crash() -> None:
    """Nothing that was set back is in progress: 6 records were."""
    beside = [killed(), rewound(600)]
    for count, wanted in ((6, "HELD"), (7, "INCONCLUSIVE")):
        change = both(counted(Anomaly.SKIPPED, count), lambda rows: exposure(rows, 2))
        evidence = crashed("commit_first", change, injections=beside, cases=of_kind(Anomaly.SKIPPED, count=count))
        assert arm(judged(evidence)).verdict == wanted
    assert "only 6 records were in progress" in arm(judged(evidence)).doubts[0].detail


def test_more_applied_again_than_was_set_back_is_no_pass() -> None:
    """`again` also counts the effects of records that the log has twice. These were carried, and not set back."""
    for extra, wanted in ((60, "HELD"), (61, "INCONCLUSIVE")):
        change = both(
            counted(Anomaly.REAPPLIED, 60),
            setting(EFFECTS, "again", 300, arm=SUBJECT, partition=0),
            setting(EFFECTS, "extra", extra, arm=SUBJECT, partition=0),
        )
        evidence = crashed("commit_first", change, cases=of_kind(Anomaly.REAPPLIED, count=60))
        verdict = judged(replace(evidence, injections=[msgspec.structs.replace(rewound(60), id=1)]))
        assert arm(verdict).verdict == wanted
    assert "61 effects too many, but only 60 records were set back" in arm(verdict).doubts[0].detail


@pytest.mark.parametrize(
    ("discipline", "behind", "wanted"),
    [
        ("commit_after", 0, "HELD"),
        ("commit_after", 1, "INCONCLUSIVE"),
        ("commit_first", 6, "HELD"),
        ("commit_first", 7, "INCONCLUSIVE"),
    ],
)
def test_a_group_that_starts_at_the_end_jumps_over_nothing_behind_what_it_applied(
    discipline: Discipline, behind: int, wanted: str
) -> None:
    change = both(counted(Anomaly.SKIPPED, 50), setting(EFFECTS, "skipped_behind", behind, arm=SUBJECT, partition=0))
    verdict = judged(crashed(discipline, change, reset="latest", cases=of_kind(Anomaly.SKIPPED, count=50)))
    assert arm(verdict).verdict == wanted
    assert doubts(verdict) == (set() if wanted == "HELD" else {("coverage", "unexplained")})


def test_the_sentence_says_what_was_in_progress_and_what_was_set_back() -> None:
    evidence = crashed("commit_after", lambda rows: exposure(rows, 2))
    for injections, words in (
        ([killed()], "with 6 records in progress."),
        ([rewound(60)], "with 60 records set back."),
        ([killed(), rewound(60)], "with 6 records in progress and 60 records set back."),
        ([stopped(29)], "stopped in good order once, with 29 records behind what was committed."),
        ([stopped(1), killed()], "with 6 records in progress and 1 record behind what was committed."),
    ):
        assert words in arm(judged(replace(evidence, injections=injections))).sentence


@pytest.mark.parametrize("defect", DEFECTS)
@pytest.mark.parametrize("claim", ["contract", "at_least_once", "exactly_once"])
def test_tally_that_prove_nothing_neither_acquit_nor_convict(defect: str, claim: Claim) -> None:
    doubt, change = DEFECTS[defect]
    verdict = judged(evidence_of(applied_by("commit_after", claim), change))
    assert arm(verdict).verdict == verdict.verdict == "INCONCLUSIVE"
    assert doubt in {name.split(":")[0] for _, name in doubts(verdict)}


@pytest.mark.parametrize("claim", ["contract", "at_least_once", "exactly_once"])
def test_a_member_that_was_killed_and_never_started_again_has_skipped_nothing(claim: Claim) -> None:
    dead = msgspec.structs.replace(killed(), healed_at_us=None, recovered_at_us=None)
    verdict = judged(crashed("commit_first", both(*map(undrained, range(3))), claim, injections=[dead]))
    assert arm(verdict).verdict == "INCONCLUSIVE"
    assert {("coverage", "not_drained"), ("coverage", "fault_not_healed")} <= doubts(verdict)
    assert not [finding for finding in arm(verdict).findings if finding.cases]


def test_an_arm_that_only_others_applications_make_a_run_of_effects_for_is_judged_as_ever() -> None:
    everywhere = judged(evidence_of(applied(a_scenario())))
    assert {part.verdict for part in everywhere.arms} == {
        part.verdict for part in judged(evidence_of(a_scenario())).arms
    }


def test_what_was_sent_after_the_members_ran_again_was_not_in_progress() -> None:
    late = of_kind(Anomaly.SKIPPED, sent_us=RECOVERED + 9 * SECOND)
    verdict = judged(crashed("commit_first", counted(Anomaly.SKIPPED, 6), cases=late))
    assert arm(verdict).verdict == "INCONCLUSIVE"
    assert {name for _, name in doubts(verdict)} == {"unexplained"}


def test_a_crash_with_nothing_in_progress_puts_nothing_to_the_test() -> None:
    empty = msgspec.structs.replace(killed(), proof={"process": {f"in progress of {SUBJECT}": 0}})
    verdict = judged(replace(crashed("commit_after"), injections=[empty]))
    assert {name for _, name in doubts(verdict)} == {"too_little_exposed", "not_exercised"}
    unproven = msgspec.structs.replace(killed(), took_effect=False)
    verdict = judged(replace(crashed("commit_after"), injections=[unproven]))
    assert ("coverage", "fault_took_no_effect") in doubts(verdict)


@pytest.mark.parametrize("moment", ["process", "process_before_heal"])
def test_a_program_whose_group_has_never_committed_has_a_doubt_that_says_so(moment: str) -> None:
    """Nobody sees what such a program has in progress: it may have had nothing."""
    blind = msgspec.structs.replace(killed(), proof={moment: {f"group of {SUBJECT}": "has never committed"}})
    verdict = judged(replace(crashed("own"), injections=[blind]))
    assert arm(verdict).verdict == "INCONCLUSIVE"
    assert {name for _, name in doubts(verdict)} == {"group_never_committed", "not_exercised"}
    (detail,) = [doubt.detail for doubt in arm(verdict).doubts if doubt.name == "group_never_committed"]
    assert "the group of this program has never committed" in detail


def test_the_arm_without_an_application_is_not_put_to_the_test_by_a_crash_of_applications() -> None:
    verdict = judged(crashed("commit_after"))
    assert ("coverage", "too_little_exposed") in doubts(verdict, "control-acks_0")


def test_a_loss_in_the_log_and_a_ghost_are_two_cases_of_one_record() -> None:
    change = both(counted(Anomaly.GHOST, 2), setting(PRODUCERS, "lost", 2, arm=SUBJECT, producer=0, partition=0))
    verdict = judged(evidence_of(applied_by("commit_after"), change))
    wrong = {finding.anomaly: finding.count for finding in arm(verdict).findings if finding.count}
    assert wrong == {"LOST": 2, "GHOST": 2}
    assert arm(verdict).verdict == "VIOLATED"


# ---- At the edges: proofs that say nothing, and counts that the counts lack.


IN_PROGRESS, BACK = f"in progress of {SUBJECT}", f"rewound {SUBJECT}"


def proven(action: str = "kill_application", **proof: object) -> Injection:
    """Returns an injection into the application of SUBJECT, with this proof."""
    return Injection(
        id=1,
        cycle=0,
        action=action,
        brokers=[],
        hit={},
        requested_at_us=EFFECT_AT,
        effect_at_us=EFFECT_AT,
        took_effect=True,
        proof=proof,
    )


def without(table: str, *columns: str) -> Change:
    """Returns a change that takes columns from a table."""

    def change(rows: Rows) -> None:
        for row in rows[table]:
            for name in columns:
                row.pop(name, None)

    return change


def unparsed(count: int, arm: str = SUBJECT) -> Change:
    return setting(EFFECTS, "unparsed", count, arm=arm, partition=1)


def test_records_behind_the_commits_of_stopped_members_are_exposed_and_neither_in_progress_nor_set_back() -> None:
    injection = stopped(29)
    of = evidence_of(RUN, injections=[injection])
    assert exposed_records(injection, SUBJECT) == 29
    assert (in_progress(of, SUBJECT), set_back(of, SUBJECT)) == (0, 0)


@pytest.mark.parametrize("key", [IN_PROGRESS, BACK])
@pytest.mark.parametrize(
    ("after", "before_heal", "count"),
    [(1, 5, 1), (0, 1, 1), (0, 0, 0), (-1, 1, 1), ("many", 2, 2), (None, 2, 2), (None, None, 0)],
)
def test_what_was_exposed_is_the_first_count_that_a_proof_has(
    key: str, after: object, before_heal: object, count: int
) -> None:
    injection = proven(process={key: after}, process_before_heal={key: before_heal})
    both_of = evidence_of(RUN, injections=[injection, injection])
    assert exposed_records(injection, SUBJECT) == count
    assert {in_progress(both_of, SUBJECT), set_back(both_of, SUBJECT)} == {0, 2 * count}
    assert exposed_records(injection, WEAK) == 0, "the proof names an arm"


@pytest.mark.parametrize("proof", [{}, {"process": "SIGKILL"}, {"process": {}, "process_before_heal": ""}])
def test_a_proof_without_counts_exposes_nothing(proof: dict[str, object]) -> None:
    assert exposed_records(proven(**proof), SUBJECT) == 0


def test_what_was_set_back_counts_where_nothing_was_in_progress() -> None:
    assert exposed_records(proven(process={IN_PROGRESS: 0, BACK: 7}), SUBJECT) == 7
    assert exposed_records(proven(process={IN_PROGRESS: 3, BACK: 7}), SUBJECT) == 3


def test_counts_that_the_effects_lack_are_none() -> None:
    lacking = without(EFFECTS, "effects", "unparsed", "pending", "skipped_behind", "extra")
    run = run_of("own", both(lacking, setting(PRODUCERS, "skipped", 3, arm=SUBJECT, producer=0, partition=0)))
    assert not list(torn_effects(run)) and not doubts_of(run)
    undrained = both(lacking, setting(EFFECTS, "drained", 0, arm=SUBJECT, partition=1))
    (detail,) = doubts_of(run_of("commit_after", undrained)).values()
    assert detail.endswith("of partitions [1], and 0 records had not been applied yet")


def test_a_group_that_starts_at_the_end_skips_nothing_behind_in_tally_that_do_not_count_it() -> None:
    program = application("commit_after")
    latest = msgspec.structs.replace(program, consumer=program.consumer | {"auto.offset.reset": "latest"})
    scenario = with_arm(a_scenario(fault="none"), SUBJECT, application=latest)
    assert not doubts_of(evidence_of(scenario, without(EFFECTS, "skipped_behind")))
    behind = setting(EFFECTS, "skipped_behind", 1, arm=SUBJECT, partition=0)
    assert set(doubts_of(evidence_of(scenario, behind))) == {"unexplained"}


def test_a_rewind_with_no_count_explains_nothing_and_needs_to_explain_nothing() -> None:
    scenario = with_arm(a_scenario(fault="none"), SUBJECT, application=application("commit_first"))
    rewind = proven("rewind")
    hit = msgspec.structs.replace(rewind, hit={scenario.arm(SUBJECT).topic_name: [0, 1, 2]})
    lacking, extra = without(EFFECTS, "extra"), setting(EFFECTS, "extra", 1, arm=SUBJECT, partition=0)
    assert not doubts_of(evidence_of(scenario, lacking, injections=[hit]))
    assert set(doubts_of(evidence_of(scenario, extra, injections=[hit]))) == {"unexplained"}


def test_one_partition_that_was_applied_in_time_was_put_to_the_test() -> None:
    idle = [setting(EFFECTS, "in_time", 0, arm=SUBJECT, partition=at) for at in range(3)]
    assert set(doubts_of(run_of("commit_after", both(*idle)))) == {"application_idle"}
    assert not doubts_of(run_of("commit_after", both(*idle[:2])))


@pytest.mark.parametrize("damage", ["corrupted", "phantoms", "unattributed"])
def test_each_record_without_a_name_explains_one_effect_without_a_record(damage: str) -> None:
    damaged = setting(PRODUCERS, damage, 2, arm=SUBJECT, producer=0, partition=0)
    for count, names in ((2, set()), (3, {"effects_unparsed"})):
        assert set(doubts_of(run_of("commit_after", both(damaged, unparsed(count))))) == names


def test_damage_that_the_tally_do_not_count_explains_nothing() -> None:
    uncounted = without(PRODUCERS, "corrupted", "phantoms", "unattributed")
    assert not doubts_of(run_of("commit_after", uncounted))
    assert set(doubts_of(run_of("commit_after", both(uncounted, unparsed(1))))) == {"effects_unparsed"}


def test_only_an_application_is_doubted_and_not_that_of_the_canary() -> None:
    run = run_of("commit_after", both(*[unparsed(9, name) for name in (SUBJECT, "canary")]))
    assert [doubts_of(run, arm.name) != {} for arm in run.arms] == [arm.name == SUBJECT for arm in run.arms]
