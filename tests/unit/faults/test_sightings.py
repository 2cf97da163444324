"""What the observer has seen of brokers: when one did not answer, and when it was deposed."""

from __future__ import annotations

from delivery_verifier.faults.sightings import Silence, deposed_us, silences
from delivery_verifier.model.history import Observation


def answers(at_us: int, broker: int, state: str, pause_us: int = 0) -> Observation:
    return Observation(at_us=at_us, kind="answers", broker=broker, state=state, pause_us=pause_us)


def partition(at_us: int, leader: int, isr: list[int], number: int = 0) -> Observation:
    return Observation(at_us=at_us, kind="partition", topic="t", partition=number, leader=leader, isr=isr)


def test_a_silence_begins_after_the_last_answer_and_ends_with_the_next() -> None:
    seen = [
        answers(10, 1, "answers"),
        answers(15, 2, "silent", 3),
        answers(50, 1, "silent", 7),
        answers(60, 1, "refuses", 17),
        answers(90, 1, "answers", 47),
        answers(95, 1, "refuses", 2),
    ]
    assert silences(seen, 1) == [Silence(43, 50, 60, 90), Silence(93, 95, 95, None)]
    assert silences(seen, 2) == [Silence(12, 15, None, None)] and silences(seen, 3) == []


def test_how_long_a_silence_lasted_is_counted_from_the_order() -> None:
    assert Silence(43, 50, None, 90).lasted_us(45, 1000) == 40
    assert Silence(43, 50, None, None).lasted_us(70, 100) == 30


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
