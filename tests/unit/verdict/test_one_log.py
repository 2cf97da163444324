"""Whether the log of a partition was ever written anew, and what can have become of a record by its offset."""

from __future__ import annotations

from typing import Any

import pytest

from delivery_verifier.contract.effect_windows import EffectWindow
from delivery_verifier.contract.elections import Answer, Elections, Tenure
from delivery_verifier.model.history import Disturbance, DisturbanceKind
from delivery_verifier.verdict.cases import Case
from delivery_verifier.verdict.truncations import Causes, Fate, fate_of, has_one_log

ONE_LEADER = Elections((Tenure(0, None, None, ()),), (), ())
ELECTED = Elections((Tenure(0, None, 60, ()), Tenure(1, 40, None, ())), ((1, 40),), ())


def case(**changes: Any) -> Case:
    fields: dict[str, Any] = {"partition": 0, "sent_us": 10, "settled_us": 11, "acked_offset": 5} | changes
    return Case("a", ("LOST",), 0, **fields)


@pytest.mark.parametrize(
    ("partition", "is_one"),
    [(0, True), (1, False), (7, False), (None, False)],
    ids=["one", "elected", "unseen", "none"],
)
def test_a_partition_has_one_log_only_if_it_was_seen_and_no_leader_was_elected(
    partition: int | None, is_one: bool
) -> None:
    assert has_one_log(case(partition=partition), {0: ONE_LEADER, 1: ELECTED}) is is_one


@pytest.mark.parametrize("unknown", ["partition", "acked_offset", "sent_us", "settled_us"])
def test_what_became_of_a_record_is_unknown_if_its_place_or_its_times_are(unknown: str) -> None:
    assert fate_of(case(**{unknown: None}), Causes(()), {0: ONE_LEADER}) is Fate.UNKNOWN
    assert fate_of(case(), Causes(()), {0: ONE_LEADER}) is Fate.KEPT


LAST = Answer(45, {0: 0, 1: 3})
"""The new leader of epoch 1 begins at offset 3, and lacks the record at offset 5."""


def window(kind: DisturbanceKind, at_us: int, begun_us: int = 0) -> EffectWindow:
    return EffectWindow(Disturbance(kind=kind, at_us=at_us, planned=True), None, 200, begun_us)


def test_the_election_of_the_leader_that_acknowledged_a_record_took_nothing_from_it() -> None:
    acked_by_it = case(sent_us=70, settled_us=71)
    assert fate_of(acked_by_it, Causes((window("leader_change", 40),)), {0: ELECTED}) is Fate.KEPT
    assert fate_of(case(), Causes((window("leader_change", 40),)), {0: ELECTED}) is Fate.UNSEEN, "nobody answered"


def test_one_disturbance_without_an_answer_behind_it_leaves_what_it_took_unseen() -> None:
    answered = Elections(ELECTED.tenures, ELECTED.seen, (LAST,))
    election, loss = window("leader_change", 40), window("isr_power_loss", 50, begun_us=50)
    assert fate_of(case(), Causes((election,)), {0: answered}) == 0
    assert fate_of(case(), Causes((election, loss)), {0: answered}) is Fate.UNSEEN


def test_an_election_that_may_have_been_unclean_and_took_the_record_is_enough_to_leave_it_open() -> None:
    tenures = (Tenure(0, None, 60, ()), Tenure(1, 40, 90, ()), Tenure(2, 80, None, ()))
    twice = Elections(tenures, ((1, 40), (2, 80)), (LAST, Answer(85, {0: 0, 1: 3, 2: 30})))
    possible = (window("leader_change", 40), window("leader_change", 80))
    assert fate_of(case(), Causes((), possible), {0: twice}) is Fate.UNKNOWN
    assert fate_of(case(), Causes((), possible[1:]), {0: twice}) is Fate.KEPT, "the second one took nothing of it"
