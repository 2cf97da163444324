"""Tests of refusals at the edges: an ISR seen in the microsecond of an alteration, and a leader with the id 0."""

from __future__ import annotations

import pytest

from delivery_verifier.contract.refusals import regained, satisfied
from delivery_verifier.model.history import Disturbance, Observation

AT_US = 20


def isr(at_us: int, size: int) -> tuple[int, Observation]:
    return at_us, Observation(at_us=at_us, kind="partition", topic="t", partition=0, leader=0, isr=list(range(size)))


@pytest.mark.parametrize(
    ("seen", "end_us"),
    [
        ([isr(19, 3), isr(AT_US, 1), isr(27, 3)], 27),
        ([isr(19, 1), isr(AT_US, 3)], AT_US),
        ([isr(AT_US, 3), isr(AT_US, 1), isr(27, 3)], 27),
        ([isr(19, 3), isr(21, 1)], AT_US),
        ([isr(19, 1), isr(21, 3)], 21),
        ([isr(18, 3), isr(19, 1), isr(27, 3)], 27),
        ([isr(19, 1)], None),
    ],
)
def test_the_last_isr_up_to_the_alteration_counts(seen: list[tuple[int, Observation]], end_us: int | None) -> None:
    altered = Disturbance(
        kind="topic_altered", at_us=AT_US, planned=True, topic="t", partitions=[0], setting="min.insync.replicas",
        value="3",
    )  # fmt: skip
    assert satisfied(altered, {("t", 0): seen}) == end_us


def test_an_isr_that_broker_0_leads_is_whole_again() -> None:
    assert regained({("t", 0): [isr(1, 2), isr(2, 1), isr(3, 2)]}) == {("t", 0, 2): 3}
