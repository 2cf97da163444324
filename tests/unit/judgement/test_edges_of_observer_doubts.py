"""Tests of doubts about the observer at the edges: the last microsecond in which it saw enough, and the first after."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from support.evidence import (
    BITE,
    LAST,
    RUN,
    SECOND,
    SUBJECT,
    a_scenario,
    beat,
    beats,
    evidence_of,
    lost,
    the_observations,
)

from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.judgement.observer_doubts import ALL, LOAD_INTERVAL_US, observer_doubts
from delivery_verifier.model.history import HEARTBEAT_US, Observation

BEGAN = BITE - SECOND
"""When the load begins, in the hand-made run."""
QUIET = evidence_of(RUN, injections=[])


def details(evidence: Evidence, owner: str = ALL) -> list[str]:
    return [doubt.detail for doubt in observer_doubts(evidence) if doubt.arm == owner]


@pytest.mark.parametrize(("late_us", "unseen"), [(-SECOND, False), (0, False), (1, True), (SECOND, True)])
def test_a_partition_is_seen_in_time_up_to_the_end_of_the_first_interval(late_us: int, unseen: bool) -> None:
    seen = [
        msgspec.structs.replace(each, at_us=BEGAN + SECOND + late_us) if each.kind == "partition" else each
        for each in evidence_of(RUN, injections=[], observations=QUIET.observations).observations
    ]
    expected = f"{SUBJECT}: partitions [0, 1, 2] were not observed before the load began"
    assert LOAD_INTERVAL_US == SECOND, "the intervals of timeline/load are a second long"
    assert (expected in details(replace(QUIET, observations=seen), SUBJECT)) == unseen


def test_what_was_seen_of_one_topic_says_nothing_of_another() -> None:
    topic = RUN.arm(SUBJECT).topic_name
    others = [each for each in QUIET.observations if each.topic != topic]
    assert any(
        "[0, 1, 2] were not observed" in detail for detail in details(replace(QUIET, observations=others), SUBJECT)
    )


@pytest.mark.parametrize(("epoch", "doubted"), [(-1, False), (0, True), (1, True), (9, True)])
def test_the_last_observation_must_be_what_the_snapshot_says(epoch: int, doubted: bool) -> None:
    offsets = QUIET.offsets
    partitions = [
        msgspec.structs.replace(each, leader=3, leader_epoch=epoch) if each.arm == SUBJECT else each
        for each in offsets.partitions
    ]
    other = replace(QUIET, offsets=msgspec.structs.replace(offsets, partitions=partitions))
    assert any("the observer last saw" in detail for detail in details(other, SUBJECT)) == doubted
    unseen = [each for each in QUIET.observations if each.topic != RUN.arm(SUBJECT).topic_name]
    assert not any("last saw" in detail for detail in details(replace(other, observations=unseen), SUBJECT))
    assert not any("last saw" in detail for detail in details(QUIET, SUBJECT))


@pytest.mark.parametrize(("bit", "action", "doubts"), [(True, "kill", 1), (False, "kill", 0), (True, "delay", 0)])
def test_an_injection_that_bit_must_have_an_effect_that_was_seen(bit: bool, action: str, doubts: int) -> None:
    (kill,) = evidence_of(RUN).injections
    evidence = replace(QUIET, injections=[msgspec.structs.replace(kill, bit=bit, action=action)])
    seen = [each for each in QUIET.observations if each.kind == "heartbeat" or each.at_us == 1]
    blind = [detail for detail in details(replace(evidence, observations=seen)) if "saw nothing" in detail]
    assert len(blind) == doubts


@pytest.mark.parametrize(("over_us", "doubts"), [(0, 0), (1, 1), (2, 1)])
def test_one_microsecond_in_the_time_of_an_injection_is_a_doubt(over_us: int, doubts: int) -> None:
    (kill,) = evidence_of(RUN).injections
    begin_us = kill.bite_at_us - SECOND
    looks = [beat(1), beat(begin_us + over_us, 2 * SECOND), *(beat(at) for at in range(BITE, LAST + 1, SECOND))]
    looks = [beat(1, 0), *(beat(at) for at in range(SECOND, begin_us - SECOND, SECOND)), *looks[1:]]
    partitions = [each for each in evidence_of(RUN).observations if each.kind != "heartbeat"]
    blind = [detail for detail in details(evidence_of(RUN, observations=[*partitions, *looks], raw=True))
             if "did not see the cluster" in detail]  # fmt: skip
    assert len(blind) == doubts


def test_the_detail_says_for_how_long_nothing_was_seen() -> None:
    (kill,) = evidence_of(RUN).injections
    endless, day_us = msgspec.structs.replace(kill, recovered_at_us=None), 86_400 * SECOND
    offsets = msgspec.structs.replace(QUIET.offsets, taken_at_us=LAST + day_us + HEARTBEAT_US)
    looks = [each for each in evidence_of(RUN).observations if each.at_us <= LAST]
    last_us = max(each.at_us for each in looks if each.kind == "heartbeat")
    blind = details(replace(QUIET, injections=[endless], observations=looks, offsets=offsets))
    assert f"the observer did not see the cluster for {(LAST - last_us + day_us) / SECOND:.1f} s" in blind[-1]


def test_a_run_without_any_observation_has_no_clock_that_was_set_back() -> None:
    names = {doubt.name for doubt in observer_doubts(replace(QUIET, observations=list[Observation]()))}
    assert names == {"observer_blind"}


@pytest.mark.parametrize(("late_us", "blind"), [(0, False), (1, True)])
def test_an_observer_that_first_looked_as_the_load_began_missed_nothing_of_it(late_us: int, blind: bool) -> None:
    weak = a_scenario("acks_1", fault="none")
    looks = [*the_observations(weak), *beats(BEGAN + late_us)]
    evidence = evidence_of(weak, lost(3, "acks_1"), observations=looks, raw=True)
    assert bool(details(evidence, "acks_1")) is blind
