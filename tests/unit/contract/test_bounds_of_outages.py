"""The bounds of what is derived from outside: how long a silence must last, and what counts at the very moment."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from unit.contract.test_outside import BEFORE, FROZEN, ISOLATED, KILLED, S, at, back, derived, leads, out, says

from delivery_verifier.contract.alterations import altered_by_others
from delivery_verifier.contract.disturbances import fell_silent
from delivery_verifier.contract.outages import outages, was_over, was_silent
from delivery_verifier.contract.outside import Outside, Silence, injections_from_outside
from delivery_verifier.model.history import Disturbance, Observation


def silence(until_us: int, *, refused: bool = False, seen_us: int = 10 * S) -> Silence:
    return Silence(10 * S, seen_us, until_us, refused, not refused)


def test_a_silence_counts_from_two_seconds_on_or_if_a_connection_was_refused() -> None:
    assert (silence(12 * S).counts, silence(12 * S - 1).counts) == (True, False)
    assert silence(10 * S + 1, refused=True).counts


def test_a_silence_is_a_sign_from_two_seconds_on_and_a_refusal_from_half_a_second_on() -> None:
    assert (silence(12 * S).is_sign, silence(12 * S - 1).is_sign) == (True, False)
    refused = [silence(until_us, refused=True).is_sign for until_us in (10 * S + 500_000, 10 * S + 499_999)]
    assert refused == [True, False]
    assert not silence(11 * S, refused=True, seen_us=11 * S - 1).is_sign, "it was refused for 1 µs"


def test_a_silence_reaches_what_was_seen_from_its_begin_until_a_second_after_its_end() -> None:
    seen = silence(20 * S)
    assert [seen.reaches(at_us) for at_us in (10 * S - 1, 10 * S, 21 * S, 21 * S + 1)] == [False, True, True, False]


def test_what_cannot_be_read_is_taken_for_long() -> None:
    assert Outside({}, (0, 1)) == Outside({}, (0, 1), session_us=60 * S, lag_us=30 * S)
    assert derived(KILLED)[0].proof["assumed"] == {
        "session_ms": 9_000,
        "lag_ms": 30_000,
        "leaders_return": True,
        "silence_counts": True,
    }


def test_a_broker_with_the_id_zero_leads_falls_and_recovers_as_any_other() -> None:
    known = Outside({("t", 0): frozenset({0, 1})}, (10 * S, 100 * S), 9 * S, 30 * S)
    whole = [says(1, 0, "answers", 0), says(1, 1, "answers", 0), at(1, 0, 0, 0, 0, 1)]
    fall = [says(20.4, 0, "refuses", 0.4), at(29, 0, 1, 1, 1), says(33, 0, "answers"), at(34, 0, 1, 1, 0, 1)]
    (injection,) = injections_from_outside([*whole, *fall, at(40, 0, 0, 2, 0, 1)], known)
    assert (injection.brokers, injection.led, injection.healed_at_us) == ([0], True, 34 * S)
    assert injection.recovered_at_us == 40 * S
    silent = [says(20.4, 1, "silent", 0.4), says(25, 1, "answers")]
    moved = [at(1, 0, 1, 0, 0, 1), silent[0], at(21, 0, 0, 1, 0, 1), silent[1]]
    assert injections_from_outside([*whole[:2], *moved], known) == [], "broker 1 left no ISR"


@pytest.mark.parametrize("leaders_return", [True, False])
def test_a_partition_without_a_leader_is_neither_back_nor_whole(leaders_return: bool) -> None:
    known = Outside({("t", 0): frozenset({0})}, (10 * S, 100 * S), 9 * S, 30 * S, leaders_return=leaders_return)
    seen = [says(20.4, 0, "refuses", 0.4), at(29, 0, -1, 1, 0), says(33, 0, "answers"), at(34, 0, 0, 2, 0)]
    (injection,) = injections_from_outside([says(1, 0, "answers", 0), at(1, 0, 0, 0, 0), *seen], known)
    assert (injection.healed_at_us, injection.recovered_at_us) == (34 * S, 34 * S)


def test_a_silence_that_begins_with_the_load_is_in_it_and_a_broker_that_was_out_then_was_out_before() -> None:
    (injection,) = derived([says(10.4, 1, "refuses", 0.4), *out(13), says(20, 1, "answers"), *back(22), *leads(30)])
    assert injection.effect_at_us == 10 * S
    assert derived([*out(10), says(10.5, 1, "refuses", 0.5), says(20, 1, "answers"), *back(22), *leads(30)]) == []


def test_what_is_first_seen_at_the_end_of_the_load_is_in_it() -> None:
    assert [len(derived(out(at_s))) for at_s in (100, 100.000001)] == [1, 0]


def test_a_leader_that_is_seen_at_the_begin_of_the_load_is_waited_for() -> None:
    seen = [at(10, 0, 2, 1, 1, 2, 3), says(20.4, 3, "refuses", 0.4), at(29, 0, 2, 1, 1, 2), at(29, 1, 2, 0, 1, 2)]
    seen += [at(29, 2, 1, 1, 1, 2), says(31, 3, "answers"), *(at(33, *it, 1, 2, 3) for it in ((0, 2, 1), (1, 2, 0)))]
    (injection,) = derived([*seen, at(33, 2, 1, 1, 1, 2, 3), at(40, 2, 3, 2, 1, 2, 3)])
    assert injection.recovered_at_us == 40 * S


@pytest.mark.parametrize(("late_us", "led"), [(0, True), (1, False)])
def test_a_leader_that_moves_a_second_before_the_broker_leaves_is_of_the_outage_and_before_it_is_not(
    late_us: int, led: bool
) -> None:
    gone = [replace(at(21, *it, 2, 3), at_us=21 * S + late_us) for it in ((0, 2, 1), (1, 2, 0), (2, 3, 0))]
    (injection,) = derived([at(20, 0, 2, 1, 1, 2, 3), *gone, says(21.9, 1, "refuses", 0.8)])
    assert (injection.led, injection.hit) == (led, {"t": [0]} if led else {"t": [0, 1, 2]})


@pytest.mark.parametrize(("late_us", "found"), [(0, 1), (1, 0)])
def test_a_broker_that_falls_silent_within_a_second_was_out_and_later_it_merely_lagged(
    late_us: int, found: int
) -> None:
    refuses = replace(says(21.5, 3, "refuses", 0.5), at_us=21_500_000 + late_us)
    assert len(derived([at(20, 0, 1, 0, 1, 2), refuses, says(25, 3, "answers"), at(26, 0, 1, 0, 1, 2, 3)])) == found


@pytest.mark.parametrize(("again_s", "recovered_s"), [(41, 40), (40.999999, 45)])
def test_an_outage_is_over_once_all_was_whole_for_a_second(again_s: float, recovered_s: float) -> None:
    lag = [at(again_s, 1, 2, 0, 2, 3), at(45, 1, 2, 0, 1, 2, 3)]
    assert derived([*KILLED, *lag])[0].recovered_at_us == recovered_s * S


def test_a_broker_is_back_when_it_is_in_its_last_isr() -> None:
    first, *others = back(33)
    later = [replace(it, at_us=35 * S) for it in others]
    (injection,) = derived([*KILLED[:5], first, *later, *leads(40)])
    assert injection.healed_at_us == 35 * S


def test_an_outage_that_begins_when_another_is_over_is_of_the_same_cycle() -> None:
    again = [
        replace(it, at_us=it.at_us + 20 * S, leader_epoch=it.leader_epoch + 2 * (it.leader_epoch > 0)) for it in KILLED
    ]
    assert [(it.cycle, it.effect_at_us) for it in derived([*KILLED, *again])] == [(0, 20 * S), (0, 40 * S)]


@pytest.mark.parametrize("first", [FROZEN, ISOLATED], ids=["frozen", "cut_off"])
def test_injections_are_in_the_order_in_which_they_began_and_not_in_which_they_were_seen(
    first: list[Observation],
) -> None:
    second = [says(25.4, 2, "refuses", 0.4), at(26, 1, 3, 1, 1, 3), at(26, 2, 3, 0, 1, 3), at(26, 0, 1, 0, 1, 3)]
    deposed = [replace(it, isr=[3], leader=3, leader_epoch=it.leader_epoch + 1) for it in out(29)]
    seen = sorted([*(it for it in first if it.kind == "answers"), *second, *deposed], key=lambda it: it.at_us)
    assert [(it.id, it.brokers) for it in derived(seen)] == [(0, [1]), (1, [2])]


def test_the_signs_of_a_proof_are_in_the_order_of_time() -> None:
    assert str(derived(KILLED)[0].proof["observed"]).startswith("{'refused connections'")


OUTAGE = Disturbance(kind="outage", at_us=10 * S, planned=False, topic="t", brokers=[1, 2])
DOWN = [says(9.6, 1, "refuses", 0.1), says(9.6, 2, "refuses", 0.1)]


@pytest.mark.parametrize(
    ("seen", "at_us", "over"),
    [
        ([*DOWN, says(20, 1, "answers")], 20 * S, False),
        ([*DOWN, says(20, 1, "answers")], 20 * S + 1, True),
        (DOWN, 90 * S, False),
        ([*DOWN, says(9.7, 3, "refuses"), says(20, 3, "answers")], 90 * S, False),
        ([says(5, 1, "refuses"), says(7, 1, "answers"), *DOWN], 90 * S, False),
        ([*DOWN, says(20, 1, "answers"), says(30, 1, "refuses")], 25 * S, True),
        ([DOWN[0], says(10.5, 2, "refuses", 0.5)], 90 * S, False),
        ([DOWN[0]], 1, True),
        ([DOWN[0]], 0, False),
    ],
    ids=[
        *("just_back", "back", "never", "another_broker", "an_earlier_silence", "down_again_later"),
        *("silent_since_that_moment", "one_was_never_silent", "nothing_before"),
    ],
)
def test_an_outage_was_over_once_one_of_its_brokers_has_answered_again(
    seen: list[Observation], at_us: int, over: bool
) -> None:
    assert was_over(OUTAGE, seen, at_us) is over


def test_an_outage_names_the_partition_and_whoever_was_silent_until_then_was_silent() -> None:
    down = [says(10, broker, "refuses") for broker in (1, 2, 3)]
    assert {it.detail.partition(":")[0] for it in outages([*BEFORE, *down])} == {"t/0", "t/1", "t/2"}
    assert was_silent([says(10, 1, "silent", 1), says(20, 1, "answers")], 20 * S) == [1]


def test_an_altered_topic_may_have_been_altered_two_seconds_before_it_was_seen() -> None:
    def setting(at_s: int, value: str) -> Observation:
        return Observation(at_us=at_s * S, kind="setting", topic="t", setting="min.insync.replicas", value=value)

    (altered,) = altered_by_others([setting(1, "2"), at(5, 0, 1, 0, 1), setting(10, "1")], [])
    assert altered.weakens_since_us == 8 * S


EARLY = [says(5, 1, "silent", 0.1), says(9, 1, "answers")]
"""Broker 1 is silent before it is broken."""
BRIEF = [says(21, 1, "silent", 0.1), says(21.1, 1, "answers")]
LONG = [says(22, 1, "silent", 0.1), says(26, 1, "answers")]


@pytest.mark.parametrize(("seen", "fell"), [(EARLY, False), (BRIEF, False), (LONG, True), ([*EARLY, *LONG], True)])
def test_a_broker_fell_silent_if_its_silence_is_long_and_begins_while_it_may_be_the_injections_doing(
    seen: list[Observation], fell: bool
) -> None:
    (injection,) = derived(KILLED)
    assert fell_silent(injection, seen) is fell
