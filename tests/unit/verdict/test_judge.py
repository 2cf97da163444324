"""Tests of the judge: its verdict without any doubt, and whether a run counts as expected."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from support import oracle
from support.applications import applied
from support.evidence import (
    CANARY_ARM,
    EFFECT_AT,
    RUN,
    SECOND,
    SUBJECT,
    WEAK,
    Rows,
    a_scenario,
    arm,
    both,
    case,
    cases,
    evidence_of,
    judged,
    lost,
    setting,
    the_injections,
    validation_of,
    with_arm,
)
from support.findings import finding as finding_of
from support.planters import History, duplicated_behind_later_records
from support.stored_data import NAMES, stored_run

from delivery_verifier.contract.rulings import Ruling, effective
from delivery_verifier.contract.settings import Settings
from delivery_verifier.model.anomalies import EFFECTS, KINDS, SECONDARY, TRANSACTIONAL, Anomaly, also_column, column
from delivery_verifier.model.claims import CLAIMS
from delivery_verifier.model.history import Disturbance
from delivery_verifier.model.scenario import Arm, Bound, Claim, Expectation, Scenario, VerdictName
from delivery_verifier.model.verdict import Doubt, Finding
from delivery_verifier.run_directory.counts import UNPROVEN
from delivery_verifier.run_directory.run_directory import IncompleteRun
from delivery_verifier.verdict.evidence import Evidence
from delivery_verifier.verdict.judge import _meets, load_and_judge, verdict_of
from delivery_verifier.verdict.sentences import run_sentence
from delivery_verifier.verdict.transaction_counts import TransactionCounts


def test_a_run_without_doubts_and_anomalies_is_held_and_green() -> None:
    verdict = judged(evidence_of(RUN))
    assert [(item.arm, item.verdict, item.doubts) for item in verdict.arms] == [
        (SUBJECT, "HELD", []),
        (WEAK, "HELD", []),
        (CANARY_ARM, "HELD", []),
    ]
    assert (verdict.verdict, verdict.green, verdict.exit_code) == ("HELD", True, 0)
    assert arm(verdict).sentence == (
        "HELD: all 1,200 acknowledged records are in the log exactly once and in order; the leader was killed once, "
        "with 20 records in flight at the fault and 150 records exposed until recovery."
    )
    assert "The fault took none of 1,200 records from the control acks_0." in verdict.sentence
    assert any("95 %" in limit for limit in verdict.limits)


def test_a_forbidden_loss_is_violated_and_says_how_many() -> None:
    verdict = judged(evidence_of(RUN, lost(3)))
    assert (verdict.verdict, verdict.green, verdict.exit_code) == ("VIOLATED", False, 1)
    assert "of 1,200 acknowledged records, 3 lost, which the contract forbids" in verdict.sentence


def test_a_permitted_loss_is_held_and_the_control_tells_what_the_fault_took() -> None:
    verdict = judged(evidence_of(RUN, lost(30, WEAK)))
    assert arm(verdict, WEAK).verdict == "HELD"
    assert "30 lost, as the settings permit" in arm(verdict, WEAK).sentence
    assert "The fault took 30 of 1,200 records from the control acks_0." in verdict.sentence
    assert verdict.green


def test_a_permitted_loss_is_violated_under_a_claim_that_forbids_it() -> None:
    verdict = judged(evidence_of(a_scenario("acks_1", claim="at_least_once"), lost(2, "acks_1")))
    assert verdict.verdict == "VIOLATED"
    assert "which the claim forbids" in verdict.sentence


def test_a_reordering_hidden_under_a_permitted_duplicate_convicts_under_a_claim_of_order() -> None:
    def change(rows: Rows) -> None:
        row = next(row for row in rows["counts/producers.parquet"] if row["producer"] == 0)
        row["duplicated"], row["also_reordered"] = 1, 1

    ordered = judged(evidence_of(a_scenario("acks_all", claim="ordered"), change))
    assert ordered.verdict == "VIOLATED"
    assert judged(evidence_of(a_scenario("acks_all"), change)).verdict == "HELD"


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [("exactly_once", "VIOLATED"), ("at_most_once", "VIOLATED"), ("ordered", "HELD"), ("contract", "HELD")],
)
def test_the_log_1_2_3_2_is_ordered_by_its_first_copies_and_convicts_under_exactly_once(
    claim: Claim, verdict: str
) -> None:
    history = History("acks_all", 1)
    duplicated_behind_later_records(history)
    assert [line["partition_sequence"] for line in history.lines] == [0, 1, 2, 1]
    tally, _ = oracle.judge(history.attempts, history.lines, history.seen)
    assert (tally["duplicated"], tally["reordered"], tally["also_reordered"]) == (1, 0, 0)

    def change(rows: Rows) -> None:
        row = next(row for row in rows["counts/producers.parquet"] if row["producer"] == 0)
        row |= {name: tally[name] for name in ("duplicated", "reordered", "also_reordered")}

    assert judged(evidence_of(a_scenario("acks_all", claim=claim), change)).verdict == verdict


def test_the_claim_of_order_says_that_it_speaks_of_first_copies_and_which_claim_speaks_of_the_others() -> None:
    assert "first copies" in CLAIMS["ordered"].meaning
    assert "exactly_once" in CLAIMS["ordered"].meaning
    assert Anomaly.DUPLICATED in CLAIMS["exactly_once"].forbids


@pytest.mark.parametrize("anomaly", Anomaly)
@pytest.mark.parametrize("also", [False, True])
def test_every_anomaly_that_is_forbidden_convicts_and_is_named_in_the_sentence(anomaly: Anomaly, also: bool) -> None:
    if also and anomaly not in SECONDARY:
        return
    name = also_column(anomaly) if also else column(anomaly)
    run = a_scenario(
        "transactional", claim="exactly_once" if anomaly in (Anomaly.RESENT, Anomaly.REAPPLIED) else "contract"
    )
    run = applied(run) if anomaly in EFFECTS else run
    subject = run.subjects[0].name

    def change(rows: Rows) -> None:
        row = next(row for row in rows["counts/producers.parquet"] if row["arm"] == subject and row["producer"] == 0)
        row[name] = 3

    verdict = judged(evidence_of(run, change, transactions={subject: TransactionCounts(3, 2, 1)}))
    assert verdict.verdict == "VIOLATED", arm(verdict, subject)
    assert f"3 {KINDS[anomaly].participle}" in verdict.sentence


def test_a_quiet_run_is_held_and_says_that_it_shows_nothing_of_faults() -> None:
    verdict = judged(evidence_of(a_scenario(fault="none")))
    assert verdict.verdict == "HELD"
    assert "no fault was injected" in verdict.sentence
    assert "Of the control acks_0, none of 1,200 records were lost, without a fault." in verdict.sentence
    assert verdict.limits[0].startswith("No fault was injected")


def test_a_violation_beside_a_fault_without_proof_does_not_say_that_there_was_no_fault() -> None:
    verdict = judged(
        evidence_of(RUN, lost(3), injections=[msgspec.structs.replace(the_injections(RUN)[0], took_effect=False)])
    )
    assert verdict.verdict == "VIOLATED"
    assert verdict.sentence.startswith("VIOLATED: of 1,200 acknowledged records, 3 lost")
    assert "no injected fault is proven to have taken effect" in verdict.sentence
    assert verdict.limits[0].startswith("No injected fault is proven to have taken effect")


def expecting(*verdicts: Any, bounds: tuple[Bound, ...] = (), of: Scenario = RUN) -> Scenario:
    return with_arm(of, SUBJECT, expectation=Expectation(verdicts=verdicts, bounds=bounds))


def test_a_violation_that_was_expected_is_green() -> None:
    verdict = judged(evidence_of(expecting("VIOLATED", bounds=(Bound(count="LOST", op=">=", value=1),)), lost(3)))
    assert (verdict.verdict, verdict.green, verdict.exit_code) == ("VIOLATED", True, 0)
    assert arm(verdict).expected == "VIOLATED; LOST >= 1"


@pytest.mark.parametrize(
    ("bound", "met"),
    [
        (Bound(count="LOST", op=">=", value=3), True),
        (Bound(count="LOST", op=">=", value=4), False),
        (Bound(count="LOST", op="=", value=2), False),
        (Bound(count="failed", op="<=", value=0), True),
        (Bound(count="attempted", op="=", value=1200), True),
        (Bound(count="attempted", op="<=", value=1199), False),
    ],
)
def test_an_arm_is_as_expected_only_within_its_bounds(bound: Bound, met: bool) -> None:
    verdict = judged(evidence_of(expecting("VIOLATED", bounds=(bound,)), lost(3)))
    assert (arm(verdict).as_expected, verdict.green) == (met, met)


def test_what_chance_decides_and_the_arm_did_not_show_is_inconclusive_and_not_held() -> None:
    bounds = (Bound(count="LOST", op=">=", value=1),)
    of = with_arm(RUN, SUBJECT, expectation=Expectation(verdicts=("VIOLATED",), bounds=bounds, by_chance=True))
    quiet, broken = judged(evidence_of(of)), judged(evidence_of(of, lost(3)))
    assert (arm(quiet).verdict, quiet.exit_code) == ("INCONCLUSIVE", 2)
    (doubt,) = arm(quiet).doubts
    assert (doubt.kind, doubt.name) == ("coverage", "did_not_show")
    assert "LOST >= 1, which chance decides, and did not in 1 cycle of faults" in doubt.detail
    assert (arm(broken).verdict, arm(broken).doubts, broken.green) == ("VIOLATED", [], True)
    sure = judged(evidence_of(expecting("VIOLATED", bounds=bounds)))
    assert (arm(sure).verdict, sure.green, arm(sure).doubts) == ("HELD", False, []), "not by chance: not as expected"


def test_a_bound_on_a_count_that_nobody_keeps_is_an_error_and_no_verdict() -> None:
    with pytest.raises(ValueError, match="no column of the counts"):
        judged(evidence_of(expecting("HELD", bounds=(Bound(count="angels", op="=", value=0),))))


def test_a_violated_run_exits_with_1_whatever_doubts_its_other_arms_have() -> None:
    unproven = [msgspec.structs.replace(the_injections(RUN)[0], took_effect=False)]
    verdict = judged(evidence_of(RUN, lost(3), injections=unproven))
    assert [each.verdict for each in verdict.arms if each.role == "control"] == ["INCONCLUSIVE"]
    assert (verdict.verdict, verdict.exit_code) == ("VIOLATED", 1)
    verdict = judged(evidence_of(RUN, injections=unproven))
    assert (verdict.verdict, verdict.exit_code) == ("INCONCLUSIVE", 2)


def test_a_planned_fault_without_proof_is_no_unplanned_disturbance() -> None:
    verdict = judged(evidence_of(RUN, injections=[msgspec.structs.replace(the_injections(RUN)[0], took_effect=False)]))
    assert {doubt.name for doubt in arm(verdict).doubts} == {"fault_took_no_effect"}


def test_a_strong_control_that_breaks_is_not_green_though_the_subject_is_as_expected() -> None:
    verdict = judged(evidence_of(a_scenario("acks_1"), lost(1, "control-safe")))
    assert (verdict.verdict, verdict.green, verdict.exit_code) == ("HELD", False, 1)


def test_the_run_is_the_worst_of_its_subjects() -> None:
    second = Arm(
        name="second",
        ordinal=7,
        role="subject",
        profile=RUN.arm(SUBJECT).profile,
        topic_name="t2",
        records=1200,
    )
    two = msgspec.structs.replace(RUN, arms=(*RUN.arms, second))
    few = setting("counts/exposure.parquet", "reported", 5, arm=SUBJECT)
    assert judged(evidence_of(two)).verdict == "HELD"
    assert judged(evidence_of(two, few)).verdict == "INCONCLUSIVE"
    assert judged(evidence_of(two, both(few, lost(1, "second")))).verdict == "VIOLATED"


def test_cases_that_were_cut_are_noted() -> None:
    cut = setting("counts/cases.parquet", "cut", True, arm=SUBJECT, kind="LOST")
    assert "cases of LOST were written down" in judged(evidence_of(RUN, cut)).notes[0]


def test_the_bound_for_no_anomaly_in_n_injections_is_stated() -> None:
    many = [msgspec.structs.replace(the_injections(RUN)[0], id=number, cycle=number) for number in range(20)]

    def exposed(rows: Rows) -> None:
        first = rows["counts/exposure.parquet"]
        rows["counts/exposure.parquet"] = [row | {"injection": number} for row in first for number in range(20)]

    verdict = judged(evidence_of(RUN, exposed, injections=many))
    assert "up to 14 % of such faults" in verdict.limits[1]
    assert "killed 20 times" in verdict.sentence


def test_injections_of_one_cycle_are_one_trial_and_expose_no_record_twice() -> None:
    two = [msgspec.structs.replace(the_injections(RUN)[0], id=number) for number in range(2)]

    def exposed(rows: Rows) -> None:
        rows["counts/exposure.parquet"] = [
            row | {"injection": n} for row in rows["counts/exposure.parquet"] for n in range(2)
        ]

    once, twice = judged(evidence_of(RUN)), judged(evidence_of(RUN, exposed, injections=two))
    assert "up to 95 % of such cycles" in twice.limits[1]
    assert (
        once.sentence.split(" records exposed")[0].split()[-1]
        == twice.sentence.split(" records exposed")[0].split()[-1]
    )


def test_evidence_is_pure_data_and_tables_with_other_types_do_not_become_zero() -> None:
    plain: Evidence = evidence_of(RUN)
    assert isinstance(plain.tally.tables["counts/invariants.parquet"], pa.Table)
    assert plain.tally.totals("nobody")["lost"] == 0


def test_one_judgement_works_out_the_contract_of_each_arm_once(monkeypatch: pytest.MonkeyPatch) -> None:
    claims = []

    def counted(settings: Settings, claim: Claim, disturbances: Iterable[Disturbance]) -> dict[Anomaly, Ruling]:
        claims.append(claim)
        return effective(settings, claim, disturbances)

    change = both(lost(3), lost(30, WEAK))
    validation = validation_of(evidence_of(RUN, change))
    monkeypatch.setattr("delivery_verifier.verdict.evidence.effective", counted)
    assert judged(evidence_of(RUN, change), validation).verdict == "VIOLATED"
    assert claims == [arm.claim for arm in RUN.loaded]


def test_several_subjects_and_many_controls_are_reported_in_one_line_each_and_the_fault_once() -> None:
    evidence = evidence_of(RUN, lost(30, WEAK))
    verdict = judged(evidence)
    subjects = [arm(verdict), msgspec.structs.replace(arm(verdict), arm="safe")]
    hurt, unhurt = arm(verdict, WEAK), msgspec.structs.replace(arm(judged(evidence_of(RUN)), WEAK), arm="acks_1")
    told = run_sentence(evidence, subjects, [hurt, unhurt, msgspec.structs.replace(hurt, arm="acks_all")])
    clause = "HELD: all 1,200 acknowledged records are in the log exactly once and in order."
    assert told == (
        f"{SUBJECT}: {clause} safe: {clause} The leader was killed once. Of the controls, the fault hurt "
        "control-acks_0 (30 lost), acks_all (30 lost), and not acks_1."
    )
    quiet = run_sentence(evidence_of(a_scenario(fault="none")), subjects[:1], [unhurt] * 3)
    assert quiet.endswith("Of the controls, hurt without a fault were none.")


def finding(count: int, tolerance: int | None, also: int = 0) -> Finding:
    return finding_of("LOST", count, also, tolerance, ruling="FORBIDDEN")


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


def test_a_bound_of_what_the_tally_do_not_have_is_an_error() -> None:
    with pytest.raises(ValueError, match="no anomaly and no column"):
        _meets({"lost": 3}, Bound(count="missing", op="=", value=0))


def test_a_run_is_green_only_if_every_arm_is_as_expected_and_its_worst_subject_decides() -> None:
    verdict = judged(evidence_of(RUN))
    assert (verdict.verdict, verdict.green) == ("HELD", True) and verdict.notes == []
    lost = judged(evidence_of(RUN, setting("counts/producers.parquet", "duplicated", 1, arm=SUBJECT, producer=0)))
    assert not lost.green


# ---- At the edges: equal counts that must not cancel out, several bounds, and what decides on green.


PRODUCERS = "counts/producers.parquet"


def counted(name: str = SUBJECT, **counts: int) -> object:
    """Returns a change of the counts of the arm's first producer in partition 0."""

    def change(rows: Rows) -> None:
        next(row for row in rows[PRODUCERS] if row["arm"] == name and row["producer"] == 0).update(counts)

    return change


def findings_of(name: str, scenario: Scenario, change: object, anomaly: str, *rows: dict[str, object]) -> list[Finding]:
    evidence = evidence_of(scenario, change, cases=cases(*rows))  # type: ignore[arg-type]
    return [item for item in arm(judged(evidence), name).findings if item.anomaly == anomaly]


def test_as_many_hidden_as_plain_cases_that_are_unexplained_convict() -> None:
    late = EFFECT_AT + 60 * SECOND
    rows = [
        case(late, late + 1, "MISPLACED", arm="acks_1"),
        case(late, late + 1, "DUPLICATED", "MISPLACED", arm="acks_1"),
    ]
    change = counted("acks_1", misplaced=4, also_misplaced=3, duplicated=1)
    permitted, forbidden = findings_of("acks_1", a_scenario("acks_1"), change, "MISPLACED", *rows)
    assert (permitted.count, permitted.also, permitted.tolerance) == (3, 2, None)
    assert (forbidden.count, forbidden.also, forbidden.tolerance) == (1, 1, 0)


@pytest.mark.parametrize("anomaly", TRANSACTIONAL)
def test_an_anomaly_of_transactions_in_an_arm_without_any_is_left_out_only_if_it_did_not_occur(anomaly: str) -> None:
    kind = next(each for each in TRANSACTIONAL if each == anomaly)
    assert findings_of(SUBJECT, RUN, counted(), anomaly) == []
    for count, also in ((2, 2), (1, 0), (0, 1)):
        (finding,) = findings_of(SUBJECT, RUN, counted(**{column(kind): count, also_column(kind): also}), anomaly)
        assert (finding.count, finding.also) == (count, also)


def test_an_arm_of_transactions_has_a_finding_for_each_anomaly() -> None:
    run = a_scenario("transactional")
    found = {item.anomaly for item in arm(judged(evidence_of(run)), run.subjects[0].name).findings}
    assert set(TRANSACTIONAL) <= found and "LOST" in found


def test_a_run_that_was_expected_to_be_inconclusive_is_as_expected_but_not_green() -> None:
    few = setting("counts/exposure.parquet", "reported", 5, arm=SUBJECT)
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


def test_a_control_without_tally_is_no_control_in_the_sentence() -> None:
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
