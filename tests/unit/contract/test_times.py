"""Tests of times that may be unknown."""

from __future__ import annotations

import pytest

from delivery_verifier.contract.times import latest


@pytest.mark.parametrize(("times", "expected"), [([], None), ([2, 3, 1], 3), ([2, None], None), ([None, 2], None)])
def test_the_latest_time_is_known_only_if_all_times_are(times: list[int | None], expected: int | None) -> None:
    assert latest(iter(times)) == expected
