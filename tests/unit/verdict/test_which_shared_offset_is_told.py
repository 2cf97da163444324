"""Which of several shared offsets a doubt or a note names, how many of their attempts, and what leaders between say."""

from __future__ import annotations

from typing import Any

import pytest
from support.evidence import EFFECT_AT, RUN, SECOND, SUBJECT, evidence_of

from delivery_verifier.contract.elections import Answer, Elections, Tenure
from delivery_verifier.run_directory.shared_offsets import SharedOffsets
from delivery_verifier.verdict.evidence import Evidence
from delivery_verifier.verdict.shared_offsets import Origin, doubts, notes, origin_of

BEFORE, AFTER = EFFECT_AT - 10 * SECOND, EFFECT_AT + 20 * SECOND


def ack(at: int, sequence: int = 0) -> dict[str, Any]:
    return {"producer": 0, "session": 0, "sequence": sequence, "attempt": 0, "sent_at": at - 1, "settled_at": at}


def told(*places: tuple[int, int], attempts: int = 2) -> Evidence:
    """Returns a run in which so many attempts were told one offset, at each of `places` (partition, offset)."""
    acks = [ack(AFTER if number else BEFORE, number) for number in range(attempts)]
    return evidence_of(RUN, shared_offsets={SUBJECT: SharedOffsets(len(places), dict.fromkeys(places, acks))})


def details(evidence: Evidence) -> list[str]:
    return [detail for _, detail in doubts(next(arm for arm in evidence.arms if arm.name == SUBJECT))]


@pytest.mark.parametrize("partition", [1, 7], ids=["with one leader", "that nobody saw"])
def test_of_several_shared_offsets_the_first_is_named(partition: int) -> None:
    (detail,) = details(told((partition, 50), (partition, 60), (partition, 70)))
    assert f"3 x, first partition {partition}, offset 50, to" in detail


def test_of_several_truncated_offsets_the_first_is_named() -> None:
    (note,) = notes(told((0, 350), (0, 360), (0, 370)))
    assert "3 x, two acknowledgements name one offset (first 0/350), because a new leader lacked" in note
    assert [*notes(told((0, 350)))] != []


@pytest.mark.parametrize(("attempts", "more"), [(2, ""), (3, " and 0/0/2/0"), (4, " and 0/0/2/0 and 1 more")])
def test_three_attempts_of_a_shared_offset_are_named_and_the_others_are_counted(attempts: int, more: str) -> None:
    (detail,) = details(told((1, 50), attempts=attempts))
    assert f"to 0/0/0/0 and 0/0/1/0{more}; no change of leader" in detail


THREE = (Tenure(0, None, 60, ()), Tenure(1, 70, 80, ()), Tenure(2, 90, None, ()))


def test_what_the_leader_of_the_first_acknowledgement_said_of_its_own_log_is_no_truncation() -> None:
    answers = (Answer(75, {0: 0, 1: 10}), Answer(95, {0: 0, 1: 10, 2: 30}))
    history = Elections(THREE, ((1, 70), (2, 90)), answers)
    assert origin_of([ack(75), ack(100)], 50, history) is Origin.TRUNCATED


def test_an_acknowledgement_at_a_time_without_a_leader_leaves_the_other_one_unexplained() -> None:
    history = Elections((Tenure(0, 200, None, ()),), (), ())
    assert origin_of([ack(10), ack(250)], 50, history) is Origin.UNKNOWN
