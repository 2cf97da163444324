"""Tests of when a partition counts as drained: which applications must have committed all of it to their group."""

from __future__ import annotations

from typing import Any

import pytest
from support.applications import application
from support.evidence import SUBJECT, a_scenario, with_arm

from delivery_verifier.model.application import DISCIPLINES, IN_GROUP, Discipline
from spark_jobs.effect_books import EffectInputs, _is_committed


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
    assert is_committed(discipline, None), "an older run has no witness"
    assert is_committed(discipline, {}, "canary"), "the verifier itself applies the canary"


def test_databases_and_own_applications_keep_their_offsets_themselves() -> None:
    assert set(DISCIPLINES) - set(IN_GROUP) == {"database_apart", "database_together", "database_compared", "own"}
