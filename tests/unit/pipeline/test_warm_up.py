"""Tests of the warm-up: which of its records are still missing in the logs of all replicas. The load begins only when
none is missing."""

from __future__ import annotations

import pytest

from delivery_verifier.pipeline.steps.produce import missing


@pytest.mark.parametrize(
    ("sent", "ends", "found"),
    [
        (6, (2, 2, 2), {}),
        (6, (3, 3, 3), {}),  # a retry wrote some of them twice
        (6, (2, 2, 1), {"t": 1}),
        (6, (1, 1, 1), {"t": 3}),
        (6, (3, 3, 0), {"t": 1}),
        (0, (0, 0, 0), {"t": 3}),
        (6, (), {"t": 6}),
    ],
)
def test_warm_up_is_over_when_all_that_was_reported_is_in_the_logs_and_every_partition_has_some(
    sent: int, ends: tuple[int, ...], found: dict[str, int]
) -> None:
    marks = {("t", partition): end for partition, end in enumerate(ends)} | {("another", 0): 9}
    assert missing({"t": sent}, marks) == found
