"""Tests of attribution at the edges: shares that are exactly 0 or 1."""

from __future__ import annotations

import pytest

from delivery_verifier.judgement.attribution import confidence_interval


@pytest.mark.parametrize("trials", [1, 2, 29])
def test_a_share_of_none_begins_at_0_and_a_share_of_all_ends_at_1(trials: int) -> None:
    assert confidence_interval(0, trials)[0] == 0.0
    assert confidence_interval(trials, trials)[1] == 1.0
