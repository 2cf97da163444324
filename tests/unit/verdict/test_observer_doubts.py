"""Doubts about the observer: a gap in its heartbeats, a clock that was set back, a topic that it never saw."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.evidence import (
    EFFECT_AT,
    LAST,
    RECOVERED,
    RUN,
    SECOND,
    SUBJECT,
    a_scenario,
    arm,
    beat,
    beats,
    case,
    cases,
    doubts,
    evidence_of,
    judged,
    lost,
    setting,
    the_observations,
    with_arm,
)
from support.stored_data import NAMES, stored_run
from support.stored_runs import reseal

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.catalogue.parts import AT_ONCE, step
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.history import HEARTBEAT_US, Observation, read_observations
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.verdict.evidence import Evidence
from delivery_verifier.verdict.observer_doubts import ALL, LOAD_INTERVAL_US, observer_doubts

BLIND, STEPPED = {("checker", "observer_blind")}, {("checker", "clock_stepped_back")}


def run_with(beats: list[Observation], **more: Any) -> Evidence:
    """The hand-made run, with heartbeats among its observations."""
    seen = sorted([*the_observations(RUN), *beats], key=lambda it: it.at_us)
    return evidence_of(RUN, observations=seen, raw=True, **more)


def test_a_run_whose_observer_looked_all_the_time_is_beyond_these_doubts() -> None:
    assert judged(run_with(beats())).verdict == "HELD"


@pytest.mark.parametrize("violated", [False, True], ids=["clean", "with_a_loss"])
def test_a_run_without_any_heartbeat_is_a_doubt(violated: bool) -> None:
    verdict = judged(evidence_of(RUN, *([lost(3)] if violated else []), raw=True))
    assert (verdict.verdict, doubts(verdict)) == ("INCONCLUSIVE", BLIND)


@pytest.mark.parametrize(
    ("without", "doubted"),
    [
        ((EFFECT_AT, EFFECT_AT + 2 * SECOND), True),
        ((EFFECT_AT - 3 * SECOND, EFFECT_AT - SECOND // 2), True),  # ends within the second before the effect
        ((RECOVERED + SECOND // 2, RECOVERED + 3 * SECOND), True),  # begins within the second after the recovery
        ((EFFECT_AT - 20 * SECOND, EFFECT_AT - 10 * SECOND), False),
        ((RECOVERED + 2 * SECOND, LAST), False),
    ],
)
def test_a_gap_is_a_doubt_if_it_is_in_the_time_of_an_injection(without: tuple[int, int], doubted: bool) -> None:
    verdict = judged(run_with(beats(without=without)))
    assert doubts(verdict) == (BLIND if doubted else set())
    assert verdict.verdict == ("INCONCLUSIVE" if doubted else "HELD")


QUIET = (RECOVERED + 2 * SECOND, LAST)
"""A time after every injection, in which load still flows."""
BEFORE = (EFFECT_AT - 20 * SECOND, EFFECT_AT - 10 * SECOND)
"""A time before the load begins."""


def late_loss(profile: str, without: tuple[int, int], **more: Any) -> RunVerdict:
    """Returns the verdict on records that were lost although they were sent when the kill of partition 0 was over, if
    the observer did not see the cluster in the time `without`."""
    run = a_scenario(profile, **more)
    seen = sorted([*the_observations(run), *beats(without=without)], key=lambda it: it.at_us)
    table = cases(case(EFFECT_AT + 4_500_000, EFFECT_AT + 4_600_000, arm=profile))
    return judged(evidence_of(run, lost(1, profile), observations=seen, cases=table, raw=True))


def test_a_conviction_that_a_missed_disturbance_could_undo_is_in_doubt_after_a_gap_outside_of_injections() -> None:
    assert late_loss("acks_1", BEFORE).verdict == "VIOLATED", "what happens before the load hurts no record"
    verdict = late_loss("acks_1", QUIET)
    assert (verdict.verdict, doubts(verdict, "acks_1") & BLIND) == ("INCONCLUSIVE", BLIND)
    assert any("did not see the cluster for 2.0 s" in doubt.detail for doubt in arm(verdict, "acks_1").doubts)
    assert not doubts(verdict, "control-acks_0") & BLIND, "that arm is not convicted"


def test_a_conviction_that_nothing_could_explain_stands_after_a_gap_outside_of_injections() -> None:
    assert late_loss("idempotent", QUIET).verdict == "VIOLATED", "no disturbance permits it"
    assert late_loss("acks_1", QUIET, claim="at_least_once").verdict == "VIOLATED", "the claim forbids it"


def test_a_reordering_that_a_missed_shrink_could_explain_is_in_doubt_after_a_gap() -> None:
    profile = PROFILES["acks_all"]
    one = msgspec.structs.replace(profile, producer=profile.producer | {"max.in.flight.requests.per.connection": 1})
    run = with_arm(a_scenario("acks_all", "none"), "acks_all", profile=one)
    swapped = setting("counts/producers.parquet", "reordered", 1, arm="acks_all", producer=0, partition=0)
    verdicts = []
    for without in (BEFORE, QUIET):
        seen = sorted([*the_observations(run), *beats(without=without)], key=lambda it: it.at_us)
        verdicts.append(judged(evidence_of(run, swapped, observations=seen, raw=True)).verdict)
    assert verdicts == ["VIOLATED", "INCONCLUSIVE"]


@pytest.mark.parametrize("pause_us", [999_999, 1_000_000, 1_000_001])
def test_the_longest_pause_that_is_no_gap_is_the_lag_that_the_contract_allows_for(pause_us: int) -> None:
    looks = [beat(it.at_us, pause_us) if it.at_us == EFFECT_AT + 1 else it for it in beats()]
    assert (doubts(judged(run_with(looks))) == BLIND) == (pause_us > SECOND)


@pytest.mark.parametrize(
    ("first_us", "doubted"), [(EFFECT_AT - 3 * SECOND // 5, False), (EFFECT_AT - 2 * SECOND // 5, True)]
)
def test_what_was_not_seen_before_anything_was_sent_is_no_doubt(first_us: int, doubted: bool) -> None:
    """A fault may take effect less than a second after the load begins."""
    evidence = dataclasses.replace(run_with(beats(first_us=first_us)), load_began_us=EFFECT_AT - SECOND // 2)
    assert ("observer_blind" in {doubt.name for doubt in observer_doubts(evidence)}) == doubted


def test_an_observer_that_began_late_or_ended_early_is_a_doubt() -> None:
    assert doubts(judged(run_with(beats(first_us=EFFECT_AT + SECOND)))) == BLIND
    assert doubts(judged(run_with(beats(last_us=EFFECT_AT + 2 * SECOND)))) == BLIND
    assert doubts(judged(run_with(beats(last_us=RECOVERED - SECOND)))) == BLIND


def test_heartbeats_that_are_missing_are_a_gap_though_no_pause_is_named() -> None:
    some = [it for it in beats() if not EFFECT_AT < it.at_us < EFFECT_AT + 4 * SECOND]
    assert doubts(judged(run_with(some))) == BLIND


def test_an_injection_that_was_never_recovered_lasts_until_the_snapshot() -> None:
    late = beats(without=(LAST - 3 * SECOND, LAST))
    assert doubts(judged(run_with(late))) == set()
    open_end = [msgspec.structs.replace(it, recovered_at_us=None) for it in run_with(late).injections]
    assert doubts(judged(run_with(late, injections=open_end))) >= BLIND


@pytest.mark.parametrize("violated", [False, True], ids=["clean", "with_a_loss"])
def test_a_clock_that_was_set_back_forbids_held_and_violated_alike(violated: bool) -> None:
    looks = [*the_observations(RUN), *beats(first_us=EFFECT_AT + 4 * SECOND)]
    early = sorted([*beats(last_us=EFFECT_AT + 3 * SECOND), *looks], key=lambda it: it.at_us)
    back = [*early, beat(LAST - SECOND)]
    for observations in (back, [*early, beat(LAST, pause_us=-1)]):
        more: dict[str, Any] = {"observations": observations, "raw": True}
        verdict = judged(evidence_of(RUN, lost(3), **more) if violated else evidence_of(RUN, **more))
        assert (verdict.verdict, doubts(verdict)) == ("INCONCLUSIVE", STEPPED)
    assert "by 1.000000 s" in next(
        it.detail for it in arm(judged(evidence_of(RUN, observations=back, raw=True))).doubts
    )


def test_a_transactional_run_whose_coordinators_were_never_observed_is_a_doubt() -> None:
    run = a_scenario("transactional")
    seen = sorted([*the_observations(run), *beats()], key=lambda it: it.at_us)
    coordinator = Observation(at_us=1, kind="partition", topic="__transaction_state", partition=0, leader=1, isr=[1])
    plain = evidence_of(run, observations=seen, raw=True)
    assert doubts(judged(plain), "transactional") >= BLIND
    watched = replace(plain, observations=[coordinator, *seen])
    assert not doubts(judged(watched), "transactional") >= BLIND


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_run_is_doubted_without_its_heartbeats(tmp_path: Path, name: str) -> None:
    run = stored_run(name, tmp_path)
    file = run.path / "observations.json"
    seen = [it for it in read_observations(file.read_bytes()) if it.kind != "heartbeat"]
    reseal(run, "settle", observations=msgspec.to_builtins(seen))
    verdict = judged(Evidence.load(run.path))
    assert verdict.verdict == "INCONCLUSIVE"
    assert {doubt.name for item in verdict.arms for doubt in item.doubts} >= {"observer_blind"}


# ---- At the edges: the last microsecond in which the observer saw enough, and the first after.


BEGAN = EFFECT_AT - SECOND
"""When the load begins, in the hand-made run."""
QUIET_RUN = evidence_of(RUN, injections=[])


def details(evidence: Evidence, owner: str = ALL) -> list[str]:
    return [doubt.detail for doubt in observer_doubts(evidence) if doubt.arm == owner]


@pytest.mark.parametrize(("late_us", "unseen"), [(-SECOND, False), (0, False), (1, True), (SECOND, True)])
def test_a_partition_is_seen_in_time_up_to_the_end_of_the_first_interval(late_us: int, unseen: bool) -> None:
    seen = [
        msgspec.structs.replace(each, at_us=BEGAN + SECOND + late_us) if each.kind == "partition" else each
        for each in evidence_of(RUN, injections=[], observations=QUIET_RUN.observations).observations
    ]
    expected = f"{SUBJECT}: partitions [0, 1, 2] were not observed before the load began"
    assert LOAD_INTERVAL_US == SECOND, "the intervals of timeline/load are a second long"
    assert (expected in details(replace(QUIET_RUN, observations=seen), SUBJECT)) == unseen


@pytest.mark.parametrize(("missing", "is_there_at_first"), [(1, True), (2, False)])
def test_a_partition_that_the_plan_adds_is_not_looked_for_before_the_load(
    missing: int, is_there_at_first: bool
) -> None:
    plan = FaultPlan(name="grows", summary="Grows.", steps=(step(AT_ONCE, "add_partitions", "none", count=1),))
    seen = [each for each in QUIET_RUN.observations if each.kind != "partition" or each.partition != missing]
    grown = replace(QUIET_RUN, scenario=msgspec.structs.replace(RUN, fault=plan), observations=seen)
    expected = f"{SUBJECT}: partitions [{missing}] were not observed before the load began"
    assert (expected in details(grown, SUBJECT)) == is_there_at_first


@pytest.mark.parametrize(("epoch", "doubted"), [(0, False), (1, True), (None, True)])
def test_an_added_partition_must_be_seen_before_it_can_have_had_an_election(epoch: int | None, doubted: bool) -> None:
    plan = FaultPlan(name="grows", summary="Grows.", steps=(step(AT_ONCE, "add_partitions", "none", count=1),))
    added = (RUN.arm(SUBJECT).topic_name, 2)
    seen = [each for each in QUIET_RUN.observations if (each.topic, each.partition) != added]
    if epoch is not None:
        example = next(each for each in QUIET_RUN.observations if (each.topic, each.partition) == added)
        seen += [msgspec.structs.replace(example, leader_epoch=at) for at in (epoch, epoch + 1)]
    grown = replace(QUIET_RUN, scenario=msgspec.structs.replace(RUN, fault=plan), observations=seen)
    expected = f"{SUBJECT}: partition 2 was added, and not observed in its first leader epoch"
    assert (expected in details(grown, SUBJECT)) == doubted


def test_what_was_seen_of_one_topic_says_nothing_of_another() -> None:
    topic = RUN.arm(SUBJECT).topic_name
    others = [each for each in QUIET_RUN.observations if each.topic != topic]
    assert any(
        "[0, 1, 2] were not observed" in detail for detail in details(replace(QUIET_RUN, observations=others), SUBJECT)
    )


@pytest.mark.parametrize(("epoch", "doubted"), [(-1, False), (0, True), (1, True), (9, True)])
def test_the_last_observation_must_be_what_the_snapshot_says(epoch: int, doubted: bool) -> None:
    offsets = QUIET_RUN.offsets
    partitions = [
        msgspec.structs.replace(each, leader=3, leader_epoch=epoch) if each.arm == SUBJECT else each
        for each in offsets.partitions
    ]
    other = replace(QUIET_RUN, offsets=msgspec.structs.replace(offsets, partitions=partitions))
    assert any("the observer last saw" in detail for detail in details(other, SUBJECT)) == doubted
    unseen = [each for each in QUIET_RUN.observations if each.topic != RUN.arm(SUBJECT).topic_name]
    assert not any("last saw" in detail for detail in details(replace(other, observations=unseen), SUBJECT))
    assert not any("last saw" in detail for detail in details(QUIET_RUN, SUBJECT))


@pytest.mark.parametrize(
    ("took_effect", "action", "doubts"), [(True, "kill", 1), (False, "kill", 0), (True, "delay", 0)]
)
def test_an_injection_that_bit_must_have_an_effect_that_was_seen(took_effect: bool, action: str, doubts: int) -> None:
    (kill,) = evidence_of(RUN).injections
    evidence = replace(QUIET_RUN, injections=[msgspec.structs.replace(kill, took_effect=took_effect, action=action)])
    seen = [each for each in QUIET_RUN.observations if each.kind == "heartbeat" or each.at_us == 1]
    blind = [detail for detail in details(replace(evidence, observations=seen)) if "saw nothing" in detail]
    assert len(blind) == doubts


@pytest.mark.parametrize(("over_us", "doubts"), [(0, 0), (1, 1), (2, 1)])
def test_one_microsecond_in_the_time_of_an_injection_is_a_doubt(over_us: int, doubts: int) -> None:
    (kill,) = evidence_of(RUN).injections
    begin_us = kill.effect_at_us - SECOND
    looks = [beat(1), beat(begin_us + over_us, 2 * SECOND), *(beat(at) for at in range(EFFECT_AT, LAST + 1, SECOND))]
    looks = [beat(1, 0), *(beat(at) for at in range(SECOND, begin_us - SECOND, SECOND)), *looks[1:]]
    partitions = [each for each in evidence_of(RUN).observations if each.kind != "heartbeat"]
    blind = [detail for detail in details(evidence_of(RUN, observations=[*partitions, *looks], raw=True))
             if "did not see the cluster" in detail]  # fmt: skip
    assert len(blind) == doubts


def test_the_detail_says_for_how_long_nothing_was_seen() -> None:
    (kill,) = evidence_of(RUN).injections
    endless, day_us = msgspec.structs.replace(kill, recovered_at_us=None), 86_400 * SECOND
    offsets = msgspec.structs.replace(QUIET_RUN.offsets, taken_at_us=LAST + day_us + HEARTBEAT_US)
    looks = [each for each in evidence_of(RUN).observations if each.at_us <= LAST]
    last_us = max(each.at_us for each in looks if each.kind == "heartbeat")
    blind = details(replace(QUIET_RUN, injections=[endless], observations=looks, offsets=offsets))
    assert f"the observer did not see the cluster for {(LAST - last_us + day_us) / SECOND:.1f} s" in blind[-1]


def test_a_run_without_any_observation_has_no_clock_that_was_set_back() -> None:
    names = {doubt.name for doubt in observer_doubts(replace(QUIET_RUN, observations=list[Observation]()))}
    assert names == {"observer_blind"}


@pytest.mark.parametrize(("late_us", "blind"), [(0, False), (1, True)])
def test_an_observer_that_first_looked_as_the_load_began_missed_nothing_of_it(late_us: int, blind: bool) -> None:
    weak = a_scenario("acks_1", fault="none")
    looks = [*the_observations(weak), *beats(BEGAN + late_us)]
    evidence = evidence_of(weak, lost(3, "acks_1"), observations=looks, raw=True)
    assert bool(details(evidence, "acks_1")) is blind
