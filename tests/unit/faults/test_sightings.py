"""What the observer has seen of brokers: when one did not answer, and when it was deposed."""

from __future__ import annotations

import pytest

from delivery_verifier.faults import sightings
from delivery_verifier.faults.sightings import deposed_us, silence_since
from delivery_verifier.model.history import Observation


def answers(at_us: int, broker: int, state: str, pause_us: int = 0) -> Observation:
    return Observation(at_us=at_us, kind="answers", broker=broker, state=state, pause_us=pause_us)


def partition(at_us: int, leader: int, isr: list[int], number: int = 0) -> Observation:
    return Observation(at_us=at_us, kind="partition", topic="t", partition=number, leader=leader, isr=isr)


def test_a_silence_counts_if_it_was_seen_to_begin_since_the_order_and_lasted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sightings, "HICCUP_US", 50)
    monkeypatch.setattr(sightings, "REFUSED_US", 20)
    seen = [
        answers(10, 1, "answers"),
        answers(15, 2, "silent", 3),
        answers(50, 1, "silent", 7),
        answers(60, 1, "refuses", 17),
        answers(90, 1, "answers", 47),
        answers(95, 1, "refuses", 2),
    ]
    first = silence_since(seen, 1, 45, 200)
    assert first is not None and (first.since_us, first.seen_us, first.until_us, first.refused) == (43, 50, 90, True)
    later = silence_since(seen, 1, 55, 200)
    assert later is not None and later.seen_us == 60, "it was silent before the order, and refuses since"
    assert silence_since(seen, 1, 91, 105) is None, "it has not lasted yet"
    assert silence_since(seen, 1, 96, 200) is None and silence_since(seen, 2, 16, 200) is None, "it began before"
    assert silence_since(seen, 3, 0, 200) is None
    assert silence_since(seen, 2, 15, 64) is None and silence_since(seen, 2, 15, 65), (
        "one that only is late takes longer"
    )


def test_a_broker_is_deposed_when_it_leads_no_more_or_leaves_an_isr_after_the_order() -> None:
    seen = [
        partition(1, 1, [1, 2, 3]),
        partition(1, 2, [1, 2, 3], 1),
        partition(5, 1, [1, 3]),
        partition(8, 2, [2, 3], 1),
        partition(9, 3, [3]),
    ]
    assert (deposed_us(seen, 1, 0), deposed_us(seen, 1, 9), deposed_us(seen, 1, 10)) == (8, 9, None)
    assert (deposed_us(seen, 2, 0), deposed_us(seen, 3, 0)) == (5, None)
