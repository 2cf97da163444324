"""Doubts about the observer: a gap in its heartbeats, a clock that was set back, a topic that it never saw."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.evidence import (
    BITE,
    LAST,
    RECOVERED,
    RUN,
    SECOND,
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
from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.judgement.observer_doubts import observer_doubts
from delivery_verifier.model.history import Observation, read_observations
from delivery_verifier.model.verdict import RunVerdict

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
        ((BITE, BITE + 2 * SECOND), True),
        ((BITE - 3 * SECOND, BITE - SECOND // 2), True),  # ends within the second before the bite
        ((RECOVERED + SECOND // 2, RECOVERED + 3 * SECOND), True),  # begins within the second after the recovery
        ((BITE - 20 * SECOND, BITE - 10 * SECOND), False),
        ((RECOVERED + 2 * SECOND, LAST), False),
    ],
)
def test_a_gap_is_a_doubt_if_it_is_in_the_time_of_an_injection(without: tuple[int, int], doubted: bool) -> None:
    verdict = judged(run_with(beats(without=without)))
    assert doubts(verdict) == (BLIND if doubted else set())
    assert verdict.verdict == ("INCONCLUSIVE" if doubted else "HELD")


QUIET = (RECOVERED + 2 * SECOND, LAST)
"""A time after every injection, in which load still flows."""
BEFORE = (BITE - 20 * SECOND, BITE - 10 * SECOND)
"""A time before the load begins."""


def late_loss(profile: str, without: tuple[int, int], **more: Any) -> RunVerdict:
    """Returns the verdict on records that were lost although they were sent when the kill of partition 0 was over, if
    the observer did not see the cluster in the time `without`."""
    run = a_scenario(profile, **more)
    seen = sorted([*the_observations(run), *beats(without=without)], key=lambda it: it.at_us)
    table = cases(case(BITE + 4_500_000, BITE + 4_600_000, arm=profile))
    return judged(evidence_of(run, lost(1, profile), observations=seen, cases=table, raw=True))


def test_a_conviction_that_a_missed_disturbance_could_undo_is_in_doubt_after_a_gap_outside_of_injections() -> None:
    assert late_loss("acks_1", BEFORE).verdict == "VIOLATED", "what happens before the load hurts no record"
    verdict = late_loss("acks_1", QUIET)
    assert (verdict.verdict, doubts(verdict, "acks_1") & BLIND) == ("INCONCLUSIVE", BLIND)
    assert any("did not see the cluster for 2.0 s" in doubt.detail for doubt in arm(verdict, "acks_1").doubts)
    assert not doubts(verdict, "control-acks_0") & BLIND, "that arm is not convicted"


def test_a_conviction_that_nothing_could_excuse_stands_after_a_gap_outside_of_injections() -> None:
    assert late_loss("idempotent", QUIET).verdict == "VIOLATED", "no disturbance permits it"
    assert late_loss("acks_1", QUIET, claim="at_least_once").verdict == "VIOLATED", "the claim forbids it"


def test_a_reordering_that_a_missed_shrink_could_excuse_is_in_doubt_after_a_gap() -> None:
    profile = PROFILES["acks_all"]
    one = msgspec.structs.replace(profile, producer=profile.producer | {"max.in.flight.requests.per.connection": 1})
    run = with_arm(a_scenario("acks_all", "none"), "acks_all", profile=one)
    swapped = setting("books/producers.parquet", "reordered", 1, arm="acks_all", producer=0, partition=0)
    verdicts = []
    for without in (BEFORE, QUIET):
        seen = sorted([*the_observations(run), *beats(without=without)], key=lambda it: it.at_us)
        verdicts.append(judged(evidence_of(run, swapped, observations=seen, raw=True)).verdict)
    assert verdicts == ["VIOLATED", "INCONCLUSIVE"]


@pytest.mark.parametrize("pause_us", [999_999, 1_000_000, 1_000_001])
def test_the_longest_pause_that_is_no_gap_is_the_lag_that_the_contract_allows_for(pause_us: int) -> None:
    looks = [beat(it.at_us, pause_us) if it.at_us == BITE + 1 else it for it in beats()]
    assert (doubts(judged(run_with(looks))) == BLIND) == (pause_us > SECOND)


@pytest.mark.parametrize(("first_us", "doubted"), [(BITE - 3 * SECOND // 5, False), (BITE - 2 * SECOND // 5, True)])
def test_what_was_not_seen_before_anything_was_sent_is_no_doubt(first_us: int, doubted: bool) -> None:
    """A fault may bite less than a second after the load begins."""
    evidence = dataclasses.replace(run_with(beats(first_us=first_us)), load_began_us=BITE - SECOND // 2)
    assert ("observer_blind" in {doubt.name for doubt in observer_doubts(evidence)}) == doubted


def test_an_observer_that_began_late_or_ended_early_is_a_doubt() -> None:
    assert doubts(judged(run_with(beats(first_us=BITE + SECOND)))) == BLIND
    assert doubts(judged(run_with(beats(last_us=BITE + 2 * SECOND)))) == BLIND
    assert doubts(judged(run_with(beats(last_us=RECOVERED - SECOND)))) == BLIND


def test_heartbeats_that_are_missing_are_a_gap_though_no_pause_is_named() -> None:
    some = [it for it in beats() if not BITE < it.at_us < BITE + 4 * SECOND]
    assert doubts(judged(run_with(some))) == BLIND


def test_an_injection_that_was_never_recovered_lasts_until_the_snapshot() -> None:
    late = beats(without=(LAST - 3 * SECOND, LAST))
    assert doubts(judged(run_with(late))) == set()
    open_end = [msgspec.structs.replace(it, recovered_at_us=None) for it in run_with(late).injections]
    assert doubts(judged(run_with(late, injections=open_end))) >= BLIND


@pytest.mark.parametrize("violated", [False, True], ids=["clean", "with_a_loss"])
def test_a_clock_that_was_set_back_forbids_held_and_violated_alike(violated: bool) -> None:
    looks = [*the_observations(RUN), *beats(first_us=BITE + 4 * SECOND)]
    early = sorted([*beats(last_us=BITE + 3 * SECOND), *looks], key=lambda it: it.at_us)
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
