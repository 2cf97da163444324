"""Tests of coverage at the edges: just enough reports, just enough exposed, and an injection without an end."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from support.evidence import BITE, HEALED, LAST, RUN, SECOND, SUBJECT, Rows, a_scenario, evidence_of, setting
from support.run_directories import scenario

from delivery_verifier import canary
from delivery_verifier.canary.layout import NOWHERE
from delivery_verifier.judgement.coverage_doubts import _elsewhere, _load, _unplanned, coverage_doubts
from delivery_verifier.judgement.evidence import ArmEvidence
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.model.history import Disturbance
from delivery_verifier.model.scenario import Arm


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
        of_arm = [row for row in rows["books/producers.parquet"] if row["arm"] == SUBJECT]
        for number, row in enumerate(of_arm):
            row["reported"] = 0 if number else reported

    assert ("too_little_reported" in names(change, min_exposed)) == few


@pytest.mark.parametrize(("min_exposed", "few"), [(149, False), (150, False), (151, True)])
def test_an_injection_must_expose_as_many_reports_as_are_asked_for(min_exposed: int, few: bool) -> None:
    assert ("too_little_exposed" in names(min_exposed=min_exposed)) == few


@pytest.mark.parametrize(
    ("last_us", "healed_us", "early"),
    [(BITE, None, True), (BITE + 1, None, False), (HEALED, HEALED, True), (HEALED + 1, HEALED, False)],
)
def test_an_injection_without_a_recovery_is_over_when_it_was_healed_or_else_when_it_bit(
    last_us: int, healed_us: int | None, early: bool
) -> None:
    def change(rows: Rows) -> None:
        for row in rows["timeline/load.parquet"]:
            row["at_us"] = last_us if row["at_us"] == LAST else BITE - SECOND

    found = names(change, recovered_at_us=None, healed_at_us=healed_us)
    assert ("load_over_too_early" in found) == early


def test_an_offset_beyond_the_log_is_claimed_as_it_is() -> None:
    run = scenario(["plain"])
    layout = canary.lay_out(run)
    (row, *_) = layout.rows
    layout.rows[:] = [replace(row, acked_at=at) for at in (None, 0, NOWHERE, NOWHERE + 1)]
    offsets = canary.ledger_table(run, layout, [77])["offset"].to_pylist()
    assert offsets == [None, 77, NOWHERE, NOWHERE + 1]


def test_an_unplanned_unclean_election_counts_where_the_topic_allows_it_or_somebody_asked_for_it() -> None:
    unclean = Disturbance(kind="unclean_election", at_us=1, planned=False, detail="seen")
    asked = Disturbance(kind="unclean_request", at_us=1, planned=True)
    run = a_scenario("acks_all")
    plain = run.arm("acks_all")
    topic = {**plain.profile.topic, "unclean.leader.election.enable": True}
    profile = msgspec.structs.replace(plain.profile, topic=topic)
    allowing = msgspec.structs.replace(plain, profile=profile)

    def doubts(spec: Arm, *observed: Disturbance) -> list[tuple[str, str]]:
        arm = SimpleNamespace(name="a", spec=spec, disturbances=observed, run=SimpleNamespace(scenario=run))
        return list(_unplanned(cast(ArmEvidence, arm)))

    doubt = [("unplanned_disturbance", "a: 1 x unclean election, first: seen")]
    assert doubts(allowing, unclean) == doubts(plain, unclean, asked) == doubt
    assert doubts(plain, unclean) == doubts(plain, asked) == []
    later = msgspec.structs.replace(unclean, detail="seen later")
    assert doubts(allowing, unclean, later) == [("unplanned_disturbance", "a: 2 x unclean election, first: seen")]


def test_an_arm_without_counts_attempted_and_reported_nothing() -> None:
    books = evidence_of(RUN).books
    run = SimpleNamespace(scenario=RUN, ended_early={}, injections=[], books=books)
    arm = SimpleNamespace(name="a", spec=RUN.arm(SUBJECT), totals={}, run=run)
    assert list(_load(cast(ArmEvidence, arm))) == [
        ("nothing_reported", "a: not one record was reported, there is nothing to hold"),
        ("load_incomplete", f"a: 0 records were attempted, {RUN.arm(SUBJECT).records} were planned"),
    ]


@pytest.mark.parametrize(("reported", "few"), [(98, True), (99, False)])
def test_of_9900_records_99_must_be_reported(reported: int, few: bool) -> None:
    scenario = SimpleNamespace(min_exposed=9999)
    run = SimpleNamespace(scenario=scenario, ended_early={}, injections=[], books=evidence_of(RUN).books)
    totals = {"attempted": 9900, "reported": reported}
    arm = SimpleNamespace(name="a", spec=SimpleNamespace(records=9900), totals=totals, run=run)
    assert [name for name, _ in _load(cast(ArmEvidence, arm))] == (["too_little_reported"] if few else [])


@pytest.mark.parametrize(("reported", "few"), [(0, True), (1, False)])
def test_without_a_least_exposure_an_injection_must_expose_one_report(reported: int, few: bool) -> None:
    exposed = setting("books/exposure.parquet", "reported", reported, arm=SUBJECT)
    assert ("too_little_exposed" in names(exposed, min_exposed=0)) is few


def test_cases_elsewhere_name_the_first_cause_and_a_cause_without_a_topic_may_touch_every_partition() -> None:
    books = SimpleNamespace(cases_at=lambda *_: 3)
    run = SimpleNamespace(scenario=SimpleNamespace(load=SimpleNamespace(partitions=2)), books=books)
    rulings = {Anomaly.LOST: SimpleNamespace(because=("leader_change", "isr_power_loss"))}

    def doubts(*causes: Disturbance) -> list[tuple[str, str]]:
        arm: Any = SimpleNamespace(name="a", run=run, rulings=rulings, disturbances=causes)
        return list(_elsewhere(arm))

    change = Disturbance(kind="leader_change", at_us=1, planned=True, topic="t", partitions=[0])
    assert doubts(change) == [("unexplained", "a: 3 LOST on partitions [1], where no leader_change was seen")]
    assert doubts(change, Disturbance(kind="isr_power_loss", at_us=1, planned=True)) == []
