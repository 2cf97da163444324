"""Tests of what is known of a partition: when it counts as drained, and which of its records nobody knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.applications import application
from support.evidence import SUBJECT, a_scenario, with_arm

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.model.application import DISCIPLINES, IN_GROUP, Discipline
from delivery_verifier.model.held_back import HeldBack
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from spark_jobs.checks import effects_opinion
from spark_jobs.effects.effect_tally import EffectInputs, _is_committed, _places


def is_committed(discipline: Discipline, positions: Any, arm: str = SUBJECT) -> bool:
    scenario = with_arm(a_scenario(fault="none"), SUBJECT, application=application(discipline))
    unused: Any = None
    inputs = EffectInputs(unused, unused, scenario, unused, unused, 1, True, positions)
    return _is_committed(inputs, {"arm": arm, "partition": 2}, 10)


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_only_where_nobody_else_has_the_offsets_the_group_must_have_committed_them(discipline: Discipline) -> None:
    assert is_committed(discipline, {(SUBJECT, 2): 10})
    assert is_committed(discipline, {(SUBJECT, 2): 9}) is (discipline not in IN_GROUP)
    assert is_committed(discipline, {}) is (discipline not in IN_GROUP)
    assert is_committed(discipline, None), "no group log has recorded it"
    assert is_committed(discipline, {}, "canary"), "the verifier itself applies the canary"


def test_databases_and_own_applications_keep_their_offsets_themselves() -> None:
    assert set(DISCIPLINES) - set(IN_GROUP) == {"database_apart", "database_together", "database_compared", "own"}


@pytest.mark.parametrize("transactional", [True, False])
def test_what_a_consumer_got_behind_an_open_transaction_is_known_only_if_it_reads_uncommitted(
    transactional: bool,
) -> None:
    scenario = with_arm(a_scenario(fault="none"), SUBJECT, application=application("database_together"))
    if transactional:
        scenario = with_arm(scenario, SUBJECT, profile=PROFILES["transactional"])
    assert (SUBJECT in scenario.transactional) is transactional
    common = {"topic": "t", "start": 0, "end": 10, "live_end": 12, "leader": 1, "leader_epoch": 0}
    held = HeldBack(last_stable_offset=5)
    offsets = Offsets(
        bootstrap_servers="",
        taken_at_us=0,
        partitions=[
            PartitionSnapshot(arm=SUBJECT, partition=number, held_back=back, **common)  # type: ignore[arg-type]
            for number, back in enumerate((held, None))
        ],
    )
    unused: Any = None
    places = _places(EffectInputs(unused, unused, scenario, offsets, unused, 1, True), [])
    assert places.hidden == ({(SUBJECT, 0)} if transactional else set())
    arms = effects_opinion.parameters(Path("nowhere"), scenario, offsets)[0]
    assert (SUBJECT in arms) is not transactional  # type: ignore[operator]
