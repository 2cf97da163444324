"""Tests of the words of a verdict: when a finding convicts, and which verdict is worse."""

from __future__ import annotations

import pytest
from support.findings import finding

from delivery_verifier.model.verdict import WORST_FIRST


@pytest.mark.parametrize(
    ("count", "also", "tolerance", "broken"),
    [(0, 0, 0, False), (1, 0, 0, True), (0, 1, 0, True), (1, 1, 2, False), (2, 1, 2, True), (9, 9, None, False)],
)
def test_a_finding_is_broken_if_more_records_show_its_anomaly_than_are_tolerated(
    count: int, also: int, tolerance: int | None, broken: bool
) -> None:
    assert finding(count=count, also=also, tolerance=tolerance).broken is broken


def test_the_worst_verdict_comes_first() -> None:
    assert WORST_FIRST == ("VIOLATED", "INCONCLUSIVE", "HELD")
