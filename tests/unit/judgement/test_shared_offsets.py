"""Tests of what two acknowledgements of one offset are due to, and of what the verdict says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support.evidence import RUN, SUBJECT, arm, doubts, evidence_of, judged, lost

from delivery_verifier.canary import FORGOTTEN
from delivery_verifier.contract.elections import Answer, Elections, Tenure
from delivery_verifier.judgement.evidence import Evidence
from delivery_verifier.judgement.shared_offsets import DOUBT, Origin, origin_of
from delivery_verifier.pages.doubts import ADVICE
from delivery_verifier.store.shared_offsets import SharedOffsets

OFFSET, BEFORE, AFTER = 50, 10, 100
"""An offset, and a time before and a time after the election of the leader of the epoch 1."""


def ack(at: int | None, sequence: int = 0) -> dict[str, Any]:
    sent_at = 0 if at is None else at - 1
    return {"producer": 0, "session": 0, "sequence": sequence, "attempt": 0, "sent_at": sent_at, "settled_at": at}


def elected(starts: dict[int, int] | None, until_us: int | None = 60) -> Elections:
    """Returns the history of two epochs. The leader of epoch 1 says where each epoch of its log starts; None: it says
    nothing."""
    answers = () if starts is None else (Answer(70, starts),)
    return Elections((Tenure(0, None, until_us, ()), Tenure(1, 40, None, ())), ((1, 40),), answers)


ONE_LOG = Elections((Tenure(0, None, None, ()),), (), ())


@pytest.mark.parametrize(
    ("acks", "history", "origin"),
    [
        ([BEFORE, AFTER], elected({0: 0, 1: 30}), Origin.TRUNCATED),
        ([BEFORE, AFTER], elected({1: 30}), Origin.TRUNCATED),
        ([BEFORE, AFTER], elected({0: 0, 1: 51}), Origin.WRONG),  # the new leader had the record
        ([BEFORE, BEFORE], elected({0: 0, 1: 30}), Origin.WRONG),  # both of one leader
        ([AFTER, AFTER], elected({0: 0, 1: 30}), Origin.WRONG),
        ([50, 50], elected({0: 0, 1: 30}), Origin.TRUNCATED),  # each leader may have told one of them
        ([BEFORE, AFTER], ONE_LOG, Origin.WRONG),
        ([BEFORE, AFTER], elected(None), Origin.UNKNOWN),
        ([BEFORE, AFTER], None, Origin.UNKNOWN),
        ([BEFORE, None], elected({0: 0, 1: 30}), Origin.UNKNOWN),
        ([BEFORE, BEFORE, AFTER], elected({0: 0, 1: 30}), Origin.WRONG),  # one pair of three is enough
        ([BEFORE, AFTER], Elections((Tenure(0, 200, None, ()),), (), ()), Origin.UNKNOWN),  # no epoch at these times
    ],
)
def test_only_a_new_leader_that_lacked_the_first_record_explains_two_acknowledgements(
    acks: Sequence[int | None], history: Elections | None, origin: Origin
) -> None:
    assert origin_of([ack(at) for at in acks], OFFSET, history) is origin


def test_a_leader_that_was_deposed_while_it_stood_still_may_acknowledge_after_its_successor() -> None:
    frozen = Tenure(0, None, 120, ((20, 90),))  # it stood still from 20 to 90, and was deposed meanwhile
    history = Elections((frozen, Tenure(1, 40, None, ())), ((1, 40),), (Answer(70, {0: 0, 1: 30}),))
    by_successor, by_old_leader = ack(80), ack(AFTER)
    assert history.epochs_of(OFFSET, 79, 80) == [1]
    assert origin_of([by_successor, by_old_leader], OFFSET, history) is Origin.TRUNCATED
    assert origin_of([by_successor, ack(85)], OFFSET, history) is Origin.WRONG  # both of the successor


def test_an_epoch_without_an_answer_is_not_known_though_an_earlier_one_had_the_record() -> None:
    tenures = (Tenure(0, None, 60, ()), Tenure(1, 70, 80, ()), Tenure(2, 90, None, ()))
    history = Elections(tenures, ((1, 70), (2, 90)), (Answer(75, {0: 0, 1: 51}),))
    assert origin_of([ack(BEFORE), ack(AFTER)], OFFSET, history) is Origin.UNKNOWN


def shared(*times: int, partition: int = 1, count: int = 1, **more: Any) -> Evidence:
    """Returns a run in which attempts of the subject were told one offset, at these times. A leader of partition 0 was
    killed."""
    listed = {(partition, OFFSET): [ack(at, sequence) for sequence, at in enumerate(times)]}
    found = {SUBJECT: SharedOffsets(count, listed), RUN.canary.name: SharedOffsets(FORGOTTEN, {})}
    return evidence_of(RUN, shared_offsets=found, **more)


def test_two_acknowledgements_of_one_offset_without_a_truncation_forbid_held_and_are_told() -> None:
    verdict = judged(shared(BEFORE, AFTER))
    assert (verdict.verdict, doubts(verdict)) == ("INCONCLUSIVE", {("coverage", DOUBT)})
    (doubt,) = arm(verdict).doubts
    assert "1 x, first partition 1, offset 50, to 0/0/0/0 and 0/0/1/0" in doubt.detail
    assert "a finding against the client or the broker" in doubt.detail
    assert any(doubt.detail in note for note in verdict.notes)
    assert DOUBT in ADVICE


def test_two_acknowledgements_of_one_offset_withhold_no_violation() -> None:
    found = shared(BEFORE, AFTER).shared_offsets
    verdict = judged(evidence_of(RUN, lost(3), shared_offsets=found))
    assert verdict.verdict == "VIOLATED" and ("coverage", DOUBT) in doubts(verdict)


def test_more_shared_offsets_than_were_listed_are_a_doubt() -> None:
    verdict = judged(shared(BEFORE, AFTER, count=4))
    assert any("3 more acknowledged offsets" in doubt.detail for doubt in arm(verdict).doubts)


def test_a_run_without_shared_offsets_and_one_that_did_not_count_them_have_no_such_note() -> None:
    none = {SUBJECT: SharedOffsets(0, {}), RUN.canary.name: SharedOffsets(FORGOTTEN, {})}
    for evidence in (evidence_of(RUN, shared_offsets=none), evidence_of(RUN)):
        verdict = judged(evidence)
        assert (verdict.verdict, verdict.notes) == ("HELD", [])


@pytest.mark.parametrize("count", [0, FORGOTTEN - 1, FORGOTTEN + 1])
def test_a_count_that_misses_the_shared_offsets_of_the_canary_is_not_believed(count: int) -> None:
    verdict = judged(evidence_of(RUN, shared_offsets={RUN.canary.name: SharedOffsets(count, {})}))
    assert verdict.verdict == "INCONCLUSIVE" and ("checker", "canary_wrong") in doubts(verdict)
