"""The elections of a partition: who can have acknowledged a record, and what the log of each new leader had."""

from __future__ import annotations

from typing import Any

import pytest

from delivery_verifier.contract.elections import Answer, Elections, elections
from delivery_verifier.contract.observer import OBSERVER_LAG_US as LAG
from delivery_verifier.model.history import Injection, Observation

SECOND = 1_000_000
KEY = ("t", 0)


def seen(at_s: float, leader: int, epoch: int, isr: list[int] | None = None, **more: Any) -> Observation:
    fields = {"kind": "partition", "topic": "t", "partition": 0} | more
    return Observation(
        at_us=int(at_s * SECOND), leader=leader, leader_epoch=epoch, isr=isr if isr is not None else [1, 2, 3], **fields
    )


def process(at_s: float, broker: int, state: str) -> Observation:
    return Observation(at_us=int(at_s * SECOND), kind="process", broker=broker, state=state)


def said(at_s: float, *starts: tuple[int, int], partition: int = 0) -> Observation:
    epochs, offsets = zip(*starts, strict=True) if starts else ((), ())
    return Observation(
        at_us=int(at_s * SECOND),
        kind="epochs",
        topic="t",
        partition=partition,
        leader_epoch=max(epochs, default=-1),
        epochs=list(epochs),
        epoch_starts=list(offsets),
    )


def of(*observations: Observation, healed_s: tuple[float, ...] = ()) -> Elections:
    """Returns the elections of partition 0. `healed_s`: when injections on broker 1 were healed."""
    fields: dict[str, Any] = {
        "cycle": 0,
        "action": "pause",
        "brokers": [1],
        "hit": {},
        "requested_at_us": 0,
        "took_effect": True,
    }
    healed = [
        Injection(id=number, effect_at_us=0, healed_at_us=int(at_s * SECOND), **fields)
        for number, at_s in enumerate(healed_s)
    ]
    return elections(observations, healed)[KEY]


def epochs_of(place: Elections, sent_s: float, settled_s: float, offset: int = 1000) -> list[int]:
    return place.epochs_of(offset, int(sent_s * SECOND), int(settled_s * SECOND))


# ---- What a new leader had.


@pytest.mark.parametrize(("offset", "lacks"), [(0, False), (951, False), (952, True), (5000, True)])
def test_a_new_leader_lacks_what_stands_at_or_above_the_end_of_its_log(offset: int, lacks: bool) -> None:
    assert Answer(1, {0: 0, 1: 952}).lacks(offset, 0) is lacks


@pytest.mark.parametrize(
    ("epoch", "offset", "lacks"),
    [(0, 899, False), (0, 900, True), (2, 949, False), (2, 950, True), (3, 0, True)],
)
def test_an_epoch_ends_where_the_next_one_in_the_same_log_starts(epoch: int, offset: int, lacks: bool) -> None:
    assert Answer(1, {0: 0, 2: 900, 4: 950}).lacks(offset, epoch) is lacks


def test_a_log_that_has_nothing_of_an_epoch_lacks_all_of_it() -> None:
    """A replica in the ISR that had not fetched from the leader of epoch 1 yet is elected, with a longer log."""
    assert Answer(1, {0: 0, 2: 900}).lacks(3, 1) and Answer(1, {0: 0, 2: 900}).epoch == 2


def test_the_next_leader_that_answers_speaks_for_those_before_it() -> None:
    place = of(seen(1, 1, 0), seen(2, 2, 1), seen(3, 3, 2), seen(4, 2, 3), said(3.5, (0, 0), (2, 7)))
    found = [place.answer_of(epoch) for epoch in (1, 2, 3)]
    assert [None if answer is None else answer.epoch for answer in found] == [2, 2, None]
    assert not place.is_answered


def test_answers_are_in_the_order_of_their_epochs_and_one_without_epochs_is_none() -> None:
    place = of(seen(1, 1, 0), said(4, (0, 0), (3, 9)), said(2.5, (0, 0)), said(3.5, (0, 0), (2, 7)), said(5))
    assert [answer.epoch for answer in place.answers] == [0, 2, 3]


def test_everything_is_answered_where_nobody_was_elected_or_the_last_leader_answered() -> None:
    assert of(seen(1, 1, 0)).is_answered
    assert of(seen(1, 1, 0), seen(2, 2, 1), said(2, (0, 0), (1, 5))).is_answered
    assert not of(seen(1, 1, 0), seen(2, 2, 1)).is_answered
    assert not of(seen(1, 1, 0), seen(2, 2, 1), said(2, (0, 0), (1, 5), partition=1), said(2)).is_answered


@pytest.mark.parametrize(
    ("offset", "epoch", "taker"),
    [(3, 0, None), (4, 0, None), (5, 0, 2), (7, 0, 1), (9, 1, 2), (5, 2, 3), (9, 3, None), (9, 4, None)],
)
def test_a_record_is_taken_by_the_first_of_those_that_lack_it_up_to_the_last(
    offset: int, epoch: int, taker: int | None
) -> None:
    answers = [said(2, (0, 0), (1, 7)), said(3, (0, 0), (2, 5)), said(4, (0, 0), (3, 5))]
    place = of(seen(1, 1, 0), seen(2, 2, 1), seen(3, 3, 2), seen(4, 1, 3), *answers)
    found = place.taken_by(offset, epoch)
    assert (None if found is None else found.epoch) == taker


def test_a_record_that_a_later_leader_has_still_was_not_taken() -> None:
    answers = [said(2, (0, 0), (1, 9)), said(3, (0, 0), (2, 4)), said(4, (0, 0), (3, 8))]
    place = of(seen(1, 1, 0), seen(2, 2, 1), seen(3, 3, 2), seen(4, 1, 3), *answers)
    assert place.taken_by(7, 0) is None
    taker = place.taken_by(8, 0)
    assert taker is not None and taker.epoch == 2, "the last one lacks it, and the one before it"


# ---- Who led when.


def test_two_elections_that_were_seen_at_the_same_time_are_two() -> None:
    place = of(seen(1, 1, 0), seen(2, 2, 1), seen(2, 3, 2))
    assert [place.elected_at(at_us) for at_us in (SECOND, 2 * SECOND)] == [[], [1, 2]]


def test_without_elections_one_leader_acknowledged_everything() -> None:
    place = of(seen(1, 1, 4))
    assert epochs_of(place, 0, 100) == [4] and not place.seen


def test_a_leader_acknowledges_from_its_election_until_it_learns_of_its_successor() -> None:
    place = of(seen(1, 1, 0), seen(10, 2, 1, [2, 3]), seen(20, 2, 1))  # 1 follows 2 from 20 s on
    lag = LAG / SECOND
    assert epochs_of(place, 1, 10 - lag - 0.001) == [0]
    assert epochs_of(place, 1, 10 - lag) == [0, 1]
    assert epochs_of(place, 20 + lag, 30) == [0, 1]
    assert epochs_of(place, 20 + lag + 0.001, 30) == [1]
    assert place.seen == ((1, 10 * SECOND),)


def test_a_deposed_leader_that_is_never_seen_to_learn_of_it_may_acknowledge_until_the_end() -> None:
    assert epochs_of(of(seen(1, 1, 0), seen(10, 2, 1)), 1000, 1001) == [0, 1]


@pytest.mark.parametrize("state", ["frozen", "exited"])
@pytest.mark.parametrize(
    ("sent_s", "settled_s", "epochs"),
    [(4, 12, [0, 1]), (5, 12, [0, 1]), (5.001, 12, [1]), (12, 13.999, [1]), (12, 14.001, [0, 1]), (6, 9.5, [1])],
)
def test_a_process_that_stands_still_or_is_gone_acknowledges_nothing_that_is_sent_and_settled_meanwhile(
    state: str, sent_s: float, settled_s: float, epochs: list[int]
) -> None:
    states = [process(5, 1, state), seen(10, 2, 1), process(15, 1, "running")]
    place = of(seen(1, 1, 0), *states, healed_s=(4, 15))
    if state == "exited":  # then it has stopped for good: it leads again only in a later epoch
        epochs = [epoch for epoch in epochs if epoch or sent_s <= 5]
    assert epochs_of(place, sent_s, settled_s) == epochs


def test_who_was_seen_late_to_run_again_may_acknowledge_from_the_time_at_which_it_was_woken() -> None:
    states = [process(5, 1, "frozen"), seen(10, 2, 1), process(30, 1, "running")]
    woken_at_15, nobody_knows_when = (
        of(seen(1, 1, 0), *states, healed_s=(15,)),
        of(seen(1, 1, 0), *states, healed_s=(4,)),
    )
    assert [epochs_of(woken_at_15, 12, settled_s) for settled_s in (13.9, 14.1)] == [[1], [0, 1]]
    assert epochs_of(nobody_knows_when, 12, 13) == [0, 1]


def test_a_broker_that_never_runs_again_is_silent_until_the_end() -> None:
    place = of(seen(1, 1, 0), seen(2, 2, 1), process(5, 1, "frozen"))
    assert epochs_of(place, 6, 100) == [1]


def test_a_second_freeze_is_a_period_of_its_own() -> None:
    states = [process(5, 1, "frozen"), process(8, 1, "running"), process(20, 1, "frozen"), process(30, 1, "running")]
    place = of(seen(1, 1, 0), seen(2, 2, 1), *states, healed_s=(8, 30))
    found = [epochs_of(place, sent_s, sent_s + 1) for sent_s in (5.5, 7.5, 19, 21, 28.5)]
    assert found == [[1], [0, 1], [0, 1], [1], [0, 1]]


def test_the_leader_of_an_epoch_that_nobody_saw_may_be_any_broker() -> None:
    place = of(seen(1, 1, 0), process(2, 1, "exited"), seen(10, 3, 3, [3]))
    assert epochs_of(place, 5, 6) == [1, 2]
    assert epochs_of(place, 5, 9) == [1, 2, 3]
    assert epochs_of(place, 100, 101) == [1, 2, 3], "nobody knows that broker 2 has learned of it"


def test_an_epoch_without_a_leader_counts_as_one_that_nobody_saw() -> None:
    place = of(seen(1, 1, 0), process(2, 1, "exited"), seen(3, -1, 1, []), seen(10, 2, 2, [2]))
    assert epochs_of(place, 4, 6) == [1]
    assert epochs_of(place, 100, 101) == [2]
    assert place.seen == ((1, 3 * SECOND), (2, 10 * SECOND))


def test_a_leader_that_was_seen_late_in_its_epoch_is_its_leader() -> None:
    place = of(seen(1, 1, 0), seen(2, -1, 1, []), seen(3, 2, 1, [2]), process(4, 2, "frozen"), seen(9, 3, 2))
    assert epochs_of(place, 5, 6) == [0]
    assert place.seen == ((1, 2 * SECOND), (2, 9 * SECOND))


def test_a_partition_that_is_being_created_has_no_election() -> None:
    place = of(seen(1, -1, 0, []), seen(2, 1, 1))
    assert (epochs_of(place, 0, 9), place.seen) == ([1], ())


def test_a_leader_that_is_elected_again_goes_on_in_another_epoch() -> None:
    place = of(seen(1, 1, 0), seen(10, 1, 1))
    assert epochs_of(place, 10 + LAG / SECOND + 0.001, 20) == [1]


def test_a_leader_that_exits_and_starts_again_leads_no_longer_in_the_same_epoch() -> None:
    place = of(seen(1, 1, 0), process(5, 1, "exited"), process(6, 1, "running"), seen(10, 2, 1))
    assert epochs_of(place, 5, 6) == [0] and epochs_of(place, 5.1, 8) == []


def test_a_former_leader_that_knows_of_it_acknowledges_nothing_any_more() -> None:
    knows = Observation(at_us=12 * SECOND, kind="deposed", topic="t", partition=0, broker=1, leader_epoch=1)
    place = of(seen(1, 1, 0), seen(10, 2, 1), knows)
    assert epochs_of(place, 13, 14) == [0, 1] and epochs_of(place, 13.1, 14) == [1]


def test_no_epoch_that_starts_behind_the_offset_acknowledged_it() -> None:
    place = of(seen(1, 1, 0), seen(10, 2, 1), said(10, (0, 0), (1, 952)))
    assert epochs_of(place, 9, 12, 951) == [0] and epochs_of(place, 9, 12, 952) == [0, 1]


def test_each_partition_has_elections_of_its_own() -> None:
    found = elections([seen(1, 1, 0), seen(1, 1, 0, partition=1), seen(2, 2, 1), said(2, (0, 0), (1, 5))], [])
    assert [len(found["t", number].answers) for number in (0, 1)] == [1, 0]
    assert [len(found["t", number].seen) for number in (0, 1)] == [1, 0]
