"""How long the partitions of records that were given up had no leader, also if this was broker 0, or hardly a time."""

from __future__ import annotations

from typing import Any

import pytest
from support.evidence import EFFECT_AT, RUN, SECOND, SUBJECT, Change, Rows, evidence_of, partition

from delivery_verifier.model.history import Observation
from delivery_verifier.model.verdict import GivenUp
from delivery_verifier.run_directory.given_up import GivenUpCount
from delivery_verifier.verdict.given_up import given_up_of, longest_away_s


def given_up(change: Change = lambda rows: None, **more: Any) -> GivenUp:
    """Returns what the subject gave up: 40 records."""
    evidence = evidence_of(RUN, change, given_up={SUBJECT: [GivenUpCount(0, "_MSG_TIMED_OUT", 40)]}, **more)
    found = given_up_of(next(arm for arm in evidence.arms if arm.name == SUBJECT))
    assert found is not None
    return found


TOPIC = RUN.arm(SUBJECT).topic_name


def test_broker_0_leads_like_any_other() -> None:
    seen = [partition(RUN, at_s * SECOND, SUBJECT, 0, leader, at_s, [0, 1]) for at_s, leader in ((1, 0), (9, 1))]
    assert longest_away_s(seen, TOPIC, {0}) == 0
    gone = Observation(at_us=5 * SECOND, kind="process", broker=0, state="exited")
    assert longest_away_s([seen[0], gone, seen[1]], TOPIC, {0}) == 4


@pytest.mark.parametrize(("away_us", "is_told"), [(50_000, True), (49_999, False)])
def test_a_leader_that_was_away_for_a_twentieth_of_a_second_is_told_and_a_shorter_time_is_not(
    away_us: int, is_told: bool
) -> None:
    seen = [
        partition(RUN, 1, SUBJECT, 0, 1, 0, [1, 2, 3]),
        partition(RUN, EFFECT_AT, SUBJECT, 0, -1, 1, [2, 3]),
        partition(RUN, EFFECT_AT + away_us, SUBJECT, 0, 2, 2, [2, 3]),
    ]
    told = given_up(observations=seen)
    assert ("had no running leader for 0.1 s." in told.sentence) is is_told
    assert ("longest outage, which was 0.1 s here." in told.changes[0]) is is_told


def test_counts_without_attempts_have_none() -> None:
    def without(rows: Rows) -> None:
        for row in rows["counts/producers.parquet"]:
            del row["attempted"]

    told = given_up(without)
    assert told.attempted == 0 and told.sentence.startswith("40 of 0 records")


@pytest.mark.parametrize(("away_us", "away_s"), [(3_140_000, 3.1), (3_160_000, 3.2)])
def test_how_long_a_leader_was_away_is_stored_in_tenths_of_a_second(away_us: int, away_s: float) -> None:
    seen = [
        partition(RUN, EFFECT_AT, SUBJECT, 0, -1, 0, [1]),
        partition(RUN, EFFECT_AT + away_us, SUBJECT, 0, 1, 1, [1]),
    ]
    assert given_up(observations=seen).away_s == away_s
