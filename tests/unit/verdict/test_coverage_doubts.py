"""Tests of coverage doubts. Each test produces one doubt. No coverage doubt prevents VIOLATED."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from support.evidence import (
    EFFECT_AT,
    HEALED,
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
    lost,
    partition,
    setting,
    the_injections,
    the_observations,
)

from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import Disturbance, Observation
from delivery_verifier.model.scenario import Arm
from delivery_verifier.verdict.coverage_doubts import _elsewhere, _load, _unplanned, coverage_doubts
from delivery_verifier.verdict.evidence import ArmEvidence
from delivery_verifier.verdict.transaction_counts import TransactionCounts


def injection(**changes: Any) -> dict[str, Any]:
    return {"injections": [msgspec.structs.replace(the_injections(RUN)[0], **changes)]}


def extra(*seen: Observation) -> dict[str, Any]:
    return {"observations": [*the_observations(RUN), *seen]}


def nothing(rows: Rows) -> None:
    pass


def idle(rows: Rows) -> None:
    for row in rows["timeline/load.parquet"]:
        row["reported"] = 0


def no_exposure(rows: Rows) -> None:
    rows["counts/exposure.parquet"] = []


def unreported(rows: Rows) -> None:
    for row in rows["counts/producers.parquet"]:
        if row["arm"] == SUBJECT:
            row["indeterminate"], row["acked"], row["reported"], row["found"] = row["attempted"], 0, 0, 0


def hardly_reported(rows: Rows) -> None:
    for row in rows["counts/producers.parquet"]:
        if row["arm"] == SUBJECT and row["producer"] == 0:
            row["indeterminate"], row["acked"], row["reported"], row["found"] = row["attempted"] - 1, 1, 1, 1


COVERAGE: list[tuple[str, Change, dict[str, Any]]] = [
    ("fault_took_no_effect", nothing, injection(took_effect=False)),
    ("fault_took_no_effect", no_exposure, {"injections": []}),
    ("fault_not_healed", nothing, injection(healed_at_us=None)),
    ("fault_not_healed", nothing, injection(recovered_at_us=None)),
    ("too_little_exposed", setting("counts/exposure.parquet", "reported", 99, arm=SUBJECT), {}),
    ("load_over_too_early", setting("timeline/load.parquet", "at_us", RECOVERED, arm=SUBJECT, at_us=LAST), {}),
    ("load_over_too_early", nothing, injection(effect_at_us=EFFECT_AT, healed_at_us=HEALED, recovered_at_us=LAST + 1)),
    ("load_over_too_early", idle, {}),
    ("load_incomplete", setting("counts/producers.parquet", "attempted", 399, arm=SUBJECT, producer=0), {}),
    ("load_ended_early", nothing, {"ended_early": {f"{SUBJECT}/0/0": "fatal client error: _FENCED"}}),
    ("foreign_writer_in_topic", nothing, {"foreign_writers": {SUBJECT: 1}}),
    ("nothing_reported", unreported, {}),
    ("too_little_reported", hardly_reported, {}),
    ("unplanned_disturbance", nothing, extra(partition(RUN, EFFECT_AT - 50 * SECOND, SUBJECT, 1, 3, 1, [1, 2, 3]))),
    ("unplanned_disturbance", nothing, extra(partition(RUN, EFFECT_AT + SECOND, SUBJECT, 1, 2, 0, [1, 2]))),
    ("unplanned_disturbance", nothing, extra(Observation(at_us=1, kind="process", broker=3, state="frozen"))),
]


@pytest.mark.parametrize(
    ("name", "change", "more"), COVERAGE, ids=[f"{line[0]}-{at}" for at, line in enumerate(COVERAGE)]
)
def test_a_coverage_doubt_forbids_held(name: str, change: Change, more: dict[str, Any]) -> None:
    verdict = judged(evidence_of(RUN, change, **more))
    assert ("coverage", name) in doubts(verdict)
    assert not any(kind == "checker" for kind, _ in doubts(verdict))
    assert (arm(verdict).verdict, verdict.verdict, verdict.exit_code) == ("INCONCLUSIVE", "INCONCLUSIVE", 2)
    assert verdict.sentence.startswith("INCONCLUSIVE: no verdict, because ")


def test_a_coverage_doubt_does_not_stand_in_the_way_of_violated() -> None:
    few = setting("counts/exposure.parquet", "reported", 5, arm=SUBJECT)
    verdict = judged(evidence_of(RUN, both(lost(1), few)))
    assert (arm(verdict).verdict, doubts(verdict)) == ("VIOLATED", {("coverage", "too_little_exposed")})


def test_a_plan_of_two_cycles_of_which_one_was_made_took_no_effect() -> None:
    twice = msgspec.structs.replace(RUN, fault=msgspec.structs.replace(RUN.fault, cycles=2))
    assert ("coverage", "fault_took_no_effect") in doubts(judged(evidence_of(twice)))


def test_what_only_an_unplanned_disturbance_permits_is_a_doubt_and_not_a_pass() -> None:
    quiet = a_scenario("acks_1", fault="none")
    moved = partition(quiet, EFFECT_AT, "acks_1", 0, 2, 1, [1, 2, 3])
    seen = {"observations": [*the_observations(quiet), moved]}
    verdict = judged(evidence_of(quiet, lost(4, "acks_1"), **seen))
    assert doubts(verdict, "acks_1") == {("coverage", "unplanned_disturbance")}
    assert verdict.verdict == "INCONCLUSIVE"
    assert judged(evidence_of(quiet, lost(4, "acks_1"))).verdict == "VIOLATED"


def test_a_loss_on_a_partition_whose_leader_never_changed_is_not_explained_by_another_partitions_leader() -> None:
    run = a_scenario("acks_1")
    where: dict[str, Any] = {"arm": "acks_1", "producer": 0}

    def lost_on(partition: int) -> Change:
        return both(
            setting("counts/producers.parquet", "lost", 7, partition=partition, **where),
            setting("counts/producers.parquet", "found", 393, partition=partition, **where),
        )

    assert judged(evidence_of(run, lost_on(0))).verdict == "HELD"
    verdict = judged(evidence_of(run, lost_on(2)))
    assert doubts(verdict, "acks_1") == {("coverage", "unexplained")}
    assert (verdict.verdict, verdict.green) == ("INCONCLUSIVE", False)


@pytest.mark.parametrize("kind", ["LOST", "MISPLACED"])
def test_what_an_election_permits_is_unexplained_of_records_that_were_under_way_in_no_injection(kind: str) -> None:
    run, before = a_scenario("acks_1"), (EFFECT_AT - 5 * SECOND, EFFECT_AT - 2 * SECOND)
    within = case(EFFECT_AT, EFFECT_AT + 1, kind, arm="acks_1")
    assert judged(evidence_of(run, lost(7, "acks_1"), cases=cases(within))).verdict == "HELD"
    verdict = judged(evidence_of(run, lost(7, "acks_1"), cases=cases(within, case(*before, kind, arm="acks_1"))))
    assert doubts(verdict, "acks_1") == {("coverage", "unexplained")}
    assert (verdict.verdict, verdict.green) == ("INCONCLUSIVE", False)


@pytest.mark.parametrize(("cut", "also"), [("LOST", False), ("DUPLICATED", True)])
def test_where_not_all_cases_were_written_down_nobody_knows_that_an_injection_explains_them(
    cut: str, also: bool
) -> None:
    run, within = a_scenario("acks_1"), cases(case(EFFECT_AT, EFFECT_AT + 1, arm="acks_1"))
    permitted = lost(7, "acks_1")
    if also:  # hidden behind a case of another kind
        permitted = both(permitted, setting("counts/producers.parquet", "also_misplaced", 1, arm="acks_1", producer=0))
    beyond = setting("counts/cases.parquet", "cut", True, arm="acks_1", kind=cut)
    assert judged(evidence_of(run, permitted, cases=within)).verdict == "HELD"
    assert doubts(judged(evidence_of(run, both(permitted, beyond), cases=within)), "acks_1") >= {
        ("coverage", "unexplained")
    }


def test_what_is_permitted_on_a_quiet_day_needs_no_injection_to_explain_it() -> None:
    verdict = judged(evidence_of(RUN, cases=cases(case(EFFECT_AT - 5 * SECOND, EFFECT_AT - 2 * SECOND, arm=WEAK))))
    assert arm(verdict, WEAK).seen_in == {"LOST": [-1]} and not doubts(verdict, WEAK)


def test_an_arm_that_no_fault_could_hurt_is_not_held_even_if_nobody_asked_for_exposure() -> None:
    unasked = a_scenario(min_exposed=0)
    none = setting("counts/exposure.parquet", "reported", 0, arm=SUBJECT)
    assert doubts(judged(evidence_of(unasked, none))) == {("coverage", "too_little_exposed")}


def test_a_disturbance_of_another_arms_topic_is_no_doubt_of_this_one() -> None:
    verdict = judged(evidence_of(RUN, **extra(partition(RUN, EFFECT_AT - 50 * SECOND, WEAK, 1, 3, 1, [1, 2, 3]))))
    assert (arm(verdict).verdict, arm(verdict, WEAK).verdict) == ("HELD", "INCONCLUSIVE")
    assert not verdict.green


def test_the_vocabulary_and_what_can_be_done_are_the_same_actions() -> None:
    from delivery_verifier.faults.actions import ACTIONS
    from delivery_verifier.model.fault_actions import ACTS

    assert set(ACTIONS) == {name for name, act in ACTS.items() if not act.by_others}, "others do what is theirs"
    assert all(set(act.heals) <= set(ACTS) for act in ACTS.values())
    both_ways = {act.name for act in ACTS.values() if act.takes_effect and act.heals}
    assert both_ways == {"kill", "thaw_application"}, "a kill ends a freeze, and a thawed member may apply once more"
    healed = {name for act in ACTS.values() for name in act.heals}
    lasting = {act.name for act in ACTS.values() if act.takes_effect and not act.momentary}
    assert healed == lasting - {"observe"}, "what somebody else did, somebody else undoes"


@pytest.mark.parametrize(
    ("counted", "told"),
    [
        (None, "of an unknown number of transactions"),
        (TransactionCounts(7, 0, 1), "of 7 transactions none was committed"),
    ],
)
def test_transactions_of_which_none_was_committed_hold_nothing(counted: TransactionCounts | None, told: str) -> None:
    run = a_scenario("transactional")
    verdict = judged(evidence_of(run, transactions={"transactional": counted} if counted else {}))
    found = arm(verdict, "transactional")
    assert found.verdict == "INCONCLUSIVE"
    assert [doubt.name for doubt in found.doubts] == ["nothing_committed"] and told in found.doubts[0].detail


def test_transactions_of_which_none_was_aborted_do_not_show_that_aborted_ones_are_invisible() -> None:
    run = a_scenario("transactional")
    verdict = judged(evidence_of(run, transactions={"transactional": TransactionCounts(58, 58, 0)}))
    assert doubts(verdict, "transactional") == {("coverage", "nothing_aborted")}
    assert verdict.verdict == "INCONCLUSIVE"


def test_what_was_seen_of_transactions_is_said() -> None:
    run = a_scenario("transactional")
    verdict = judged(evidence_of(run, transactions={"transactional": TransactionCounts(58, 52, 5)}))
    assert arm(verdict, "transactional").verdict == "HELD"
    assert (
        "in order; a read_committed consumer sees every committed transaction (52 in all), and nothing "
        "of the aborted ones (5 in all) (how 1 more ended is not known; each is seen whole or not at all)"
    ) in verdict.sentence
    assert {"TORN", "ABORTED_VISIBLE"} <= {one.anomaly for one in arm(verdict, "transactional").findings}
    assert not {"TORN", "ABORTED_VISIBLE"} & {one.anomaly for one in arm(verdict, "control-acks_0").findings}


# ---- At the edges: just enough reports, just enough exposed, and an injection without an end.


def names(change: object = lambda rows: None, min_exposed: int = 1, **of_injection: int | None) -> set[str]:
    """Returns the names of the coverage doubts about the subject."""
    evidence = evidence_of(RUN, change)  # type: ignore[arg-type]
    (kill,) = evidence.injections
    evidence = replace(
        evidence,
        scenario=msgspec.structs.replace(RUN, min_exposed=min_exposed),
        injections=[msgspec.structs.replace(kill, **of_injection)],
    )
    (arm,) = (arm for arm in evidence.loaded if arm.name == SUBJECT)
    return {doubt.name for doubt in coverage_doubts(arm)}


@pytest.mark.parametrize(
    ("min_exposed", "reported", "few"),
    [(9999, 12, False), (9999, 11, True), (5, 5, False), (5, 4, True), (0, 1, False)],
)
def test_a_hundredth_of_the_records_must_be_reported_or_as_many_as_must_be_exposed(
    min_exposed: int, reported: int, few: bool
) -> None:
    def change(rows: Rows) -> None:
        of_arm = [row for row in rows["counts/producers.parquet"] if row["arm"] == SUBJECT]
        for number, row in enumerate(of_arm):
            row["reported"] = 0 if number else reported

    assert ("too_little_reported" in names(change, min_exposed)) == few


@pytest.mark.parametrize(("min_exposed", "few"), [(149, False), (150, False), (151, True)])
def test_an_injection_must_expose_as_many_reports_as_are_asked_for(min_exposed: int, few: bool) -> None:
    assert ("too_little_exposed" in names(min_exposed=min_exposed)) == few


@pytest.mark.parametrize(
    ("last_us", "healed_us", "early"),
    [(EFFECT_AT, None, True), (EFFECT_AT + 1, None, False), (HEALED, HEALED, True), (HEALED + 1, HEALED, False)],
)
def test_an_injection_without_a_recovery_is_over_when_it_was_healed_or_else_when_it_bit(
    last_us: int, healed_us: int | None, early: bool
) -> None:
    def change(rows: Rows) -> None:
        for row in rows["timeline/load.parquet"]:
            row["at_us"] = last_us if row["at_us"] == LAST else EFFECT_AT - SECOND

    found = names(change, recovered_at_us=None, healed_at_us=healed_us)
    assert ("load_over_too_early" in found) == early


def test_an_unplanned_unclean_election_counts_where_the_topic_allows_it_or_somebody_asked_for_it() -> None:
    unclean = Disturbance(kind="unclean_election", at_us=1, planned=False, detail="seen")
    asked = Disturbance(kind="unclean_request", at_us=1, planned=True)
    run = a_scenario("acks_all")
    plain = run.arm("acks_all")
    topic = {**plain.profile.topic, "unclean.leader.election.enable": True}
    profile = msgspec.structs.replace(plain.profile, topic=topic)
    allowing = msgspec.structs.replace(plain, profile=profile)

    def doubts(spec: Arm, *observed: Disturbance) -> list[tuple[str, str]]:
        known = SimpleNamespace(scenario=run, injections=[])
        arm = SimpleNamespace(name="a", spec=spec, disturbances=observed, run=known)
        return list(_unplanned(cast(ArmEvidence, arm)))

    doubt = [("unplanned_disturbance", "a: 1 x unclean election, first: seen")]
    assert doubts(allowing, unclean) == doubts(plain, unclean, asked) == doubt
    assert doubts(plain, unclean) == doubts(plain, asked) == []
    later = msgspec.structs.replace(unclean, detail="seen later")
    assert doubts(allowing, unclean, later) == [("unplanned_disturbance", "a: 2 x unclean election, first: seen")]


def test_an_arm_without_counts_attempted_and_reported_nothing() -> None:
    tally = evidence_of(RUN).tally
    run = SimpleNamespace(scenario=RUN, ended_early={}, injections=[], tally=tally)
    arm = SimpleNamespace(name="a", spec=RUN.arm(SUBJECT), totals={}, run=run)
    assert list(_load(cast(ArmEvidence, arm))) == [
        ("nothing_reported", "a: not one record was reported, there is nothing to hold"),
        ("load_incomplete", f"a: 0 records were attempted, {RUN.arm(SUBJECT).records} were planned"),
    ]


@pytest.mark.parametrize(("reported", "few"), [(98, True), (99, False)])
def test_of_9900_records_99_must_be_reported(reported: int, few: bool) -> None:
    scenario = SimpleNamespace(min_exposed=9999)
    run = SimpleNamespace(scenario=scenario, ended_early={}, injections=[], tally=evidence_of(RUN).tally)
    totals = {"attempted": 9900, "reported": reported}
    arm = SimpleNamespace(name="a", spec=SimpleNamespace(records=9900), totals=totals, run=run)
    assert [name for name, _ in _load(cast(ArmEvidence, arm))] == (["too_little_reported"] if few else [])


@pytest.mark.parametrize(("reported", "few"), [(0, True), (1, False)])
def test_without_a_least_exposure_an_injection_must_expose_one_report(reported: int, few: bool) -> None:
    exposed = setting("counts/exposure.parquet", "reported", reported, arm=SUBJECT)
    assert ("too_little_exposed" in names(exposed, min_exposed=0)) is few


def test_cases_elsewhere_name_the_first_cause_and_a_cause_without_a_topic_may_touch_every_partition() -> None:
    tally = SimpleNamespace(cases_at=lambda *_: 3)
    run = SimpleNamespace(scenario=SimpleNamespace(load=SimpleNamespace(partitions=2)), tally=tally)
    rulings = {Anomaly.LOST: SimpleNamespace(because=("leader_change", "isr_power_loss"))}

    def doubts(*causes: Disturbance) -> list[tuple[str, str]]:
        arm: Any = SimpleNamespace(name="a", run=run, rulings=rulings, disturbances=causes)
        return list(_elsewhere(arm))

    change = Disturbance(kind="leader_change", at_us=1, planned=True, topic="t", partitions=[0])
    assert doubts(change) == [("unexplained", "a: 3 LOST on partitions [1], where no leader_change was seen")]
    assert doubts(change, Disturbance(kind="isr_power_loss", at_us=1, planned=True)) == []
