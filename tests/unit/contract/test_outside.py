"""The injections of `observe`: who was taken out, when, and for how long, from observations alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from delivery_verifier.contract.disturbances import disturbances, observed_during
from delivery_verifier.contract.outside import OBSERVE, Outside, injections_from_outside, silences
from delivery_verifier.model.history import Injection, Observation

S = 1_000_000
EVERY = frozenset({1, 2, 3})
LEADERS = {0: 1, 1: 2, 2: 3}
SESSION_S, LAG_S = 9, 30
LOAD_S = (10, 100)


def outside(*, leaders_return: bool = True, silence_counts: bool = True, partitions: int = 3) -> Outside:
    return Outside(
        replicas={("t", number): EVERY for number in range(partitions)},
        load_us=(LOAD_S[0] * S, LOAD_S[1] * S),
        session_us=SESSION_S * S,
        lag_us=LAG_S * S,
        leaders_return=leaders_return,
        silence_counts=silence_counts,
    )


def at(at_s: float, partition: int, leader: int, epoch: int, *isr: int) -> Observation:
    return Observation(
        at_us=int(at_s * S),
        kind="partition",
        topic="t",
        partition=partition,
        leader=leader,
        leader_epoch=epoch,
        isr=[*isr],
    )


def says(at_s: float, broker: int, state: str, since_s: float = 0.1) -> Observation:
    return Observation(at_us=int(at_s * S), kind="answers", broker=broker, state=state, pause_us=int(since_s * S))


BEFORE = [
    *(says(1, broker, "answers", 0) for broker in (1, 2, 3)),
    *(at(1, number, leader, 0, 1, 2, 3) for number, leader in LEADERS.items()),
]
"""All is whole before the load."""


def out(at_s: float, broker: int = 1) -> list[Observation]:
    """The broker loses the partition that it led, and leaves all ISRs."""
    others = sorted(EVERY - {broker})
    return [
        at(at_s, number, others[0] if leader == broker else leader, 1 if leader == broker else 0, *others)
        for number, leader in LEADERS.items()
    ]


def back(at_s: float, broker: int = 1) -> list[Observation]:
    """The broker is in all ISRs again, and does not lead yet."""
    others = sorted(EVERY - {broker})
    return [
        at(at_s, number, others[0] if leader == broker else leader, 1 if leader == broker else 0, 1, 2, 3)
        for number, leader in LEADERS.items()
    ]


def leads(at_s: float, broker: int = 1) -> list[Observation]:
    return [at(at_s, number, leader, 2, 1, 2, 3) for number, leader in LEADERS.items() if leader == broker]


def derived(later: Iterable[Observation], known: Outside | None = None) -> list[Injection]:
    return injections_from_outside([*BEFORE, *later], known or outside())


KILLED = [says(20.4, 1, "refuses", 0.4), *out(22.9), says(31, 1, "answers", 0.1), *back(33), *leads(40)]
STOPPED = [*out(20.1), says(20.9, 1, "refuses"), says(29, 1, "answers"), *back(30), *leads(40)]
FROZEN = [says(20.8, 1, "silent", 0.8), *out(29), says(31, 1, "answers"), *back(32), *leads(40)]
ISOLATED = [*out(29), *back(35), *leads(40)]


@pytest.mark.parametrize(
    ("seen", "begin_s", "healed_s"),
    [(KILLED, 20, 33), (STOPPED, 20.1, 30), (FROZEN, 20, 32), (ISOLATED, 29 - SESSION_S - 1, 35)],
    ids=["killed", "stopped", "frozen", "cut_off_from_others"],
)
def test_a_leader_that_was_taken_out_gives_one_injection_from_the_first_sign_until_it_leads_again(
    seen: list[Observation], begin_s: float, healed_s: float
) -> None:
    (injection,) = derived(seen)
    assert (injection.action, injection.brokers, injection.took_effect) == (OBSERVE, [1], True)
    assert (injection.hit, injection.led) == ({"t": [0]}, True)
    assert injection.effect_at_us == begin_s * S
    assert (injection.healed_at_us, injection.recovered_at_us) == (healed_s * S, 40 * S)
    assert injection.proof["before"] == {"t-0": {"leader": 1, "leader_epoch": 0}}


def test_the_proof_has_each_sign_with_the_time_since_the_begin() -> None:
    (killed,), (frozen,) = derived(KILLED), derived(FROZEN)
    assert killed.proof["observed"] == {
        "refused connections": {"after_ms": 400},
        "left the ISR of t-0": {"after_ms": 2900},
        "leads t-0 no more": {"after_ms": 2900},
        "left the ISR of t-1": {"after_ms": 2900},
        "left the ISR of t-2": {"after_ms": 2900},
        "answered again": {"after_ms": 11000},
    }
    assert "did not answer" in str(frozen.proof["observed"])


@pytest.mark.parametrize("seen", [KILLED, STOPPED, FROZEN, ISOLATED])
def test_all_that_the_outage_caused_is_planned_and_nothing_else(seen: list[Observation]) -> None:
    every = [*BEFORE, *seen]
    injections = injections_from_outside(every, outside())
    assert all(it.planned for it in disturbances(every, injections))
    assert observed_during(injections[0], disturbances(every, injections))
    lags = [at(25, 1, 2, 0, 2)] if seen is not ISOLATED else [at(32, 1, 2, 0, 2)]
    other = sorted([*every, *lags], key=lambda it: it.at_us)
    again = injections_from_outside(other, outside())
    assert [it.brokers for it in again] == [[1]], "that another broker lags is not this outage"
    unplanned = [it.detail for it in disturbances(other, again) if not it.planned]
    assert len(unplanned) == 1 and unplanned[0].startswith("t/1: ISR"), unplanned


def test_leaders_that_do_not_return_by_themselves_are_not_waited_for() -> None:
    known = outside(leaders_return=False)
    assert [it.recovered_at_us for it in derived([*KILLED[:-1]], known)] == [33 * S]
    assert [it.recovered_at_us for it in derived([*KILLED[:-1]])] == [None], "not recovered: its leaders are elsewhere"


def test_a_leader_that_moves_back_much_later_is_of_the_same_injection() -> None:
    seen = [*KILLED[:-1], *leads(95)]
    (injection,) = derived(seen)
    assert injection.recovered_at_us == 95 * S
    assert all(it.planned for it in disturbances([*BEFORE, *seen], [injection]))


def test_a_follower_that_ended_is_out_without_having_led() -> None:
    replicas = [at(1, 0, 1, 0, 1, 2, 3)]
    seen = [says(20.4, 3, "refuses", 0.3), at(29, 0, 1, 0, 1, 2), says(33, 3, "answers"), at(35, 0, 1, 0, 1, 2, 3)]
    (injection,) = injections_from_outside([*BEFORE[:3], *replicas, *seen], outside(partitions=1))
    assert (injection.brokers, injection.led, injection.hit) == ([3], False, {"t": [0]})
    assert injection.proof["before"] == {"t-0": {"leader": 1, "leader_epoch": 0}}
    assert (injection.effect_at_us, injection.recovered_at_us) == (20.1 * S, 35 * S)


LAGS = [at(30, 0, 1, 0, 1, 2), at(60, 0, 1, 0, 1, 2, 3)]
"""Broker 3 lags in one of its partitions."""


@pytest.mark.parametrize(
    "seen",
    [
        [],
        [says(20.8, 1, "silent", 0.8), says(28, 1, "answers", 0.1)],
        [at(20, 0, 1, 0, 1, 2), at(22, 0, 1, 0, 1, 2, 3)],
        [says(20.8, 3, "silent", 0.8), says(20.9, 3, "answers"), at(21, 0, 1, 0, 1, 2), at(22, 0, 1, 0, 1, 2, 3)],
        [says(20.8, 3, "silent", 0.8), says(25, 3, "answers"), at(31, 0, 1, 0, 1, 2), at(32, 0, 1, 0, 1, 2, 3)],
        [at(20, 0, 2, 1, 1, 2, 3), at(30, 0, 1, 2, 1, 2, 3)],
        [at(20, 0, 2, 1, 1, 2, 3), at(30, 0, 2, 1, 2, 3), at(31, 0, 2, 1, 1, 2, 3), at(32, 0, 1, 2, 1, 2, 3)],
        [*LAGS, says(50, 3, "refuses"), says(50.1, 3, "answers")],
        [*LAGS, says(30.5, 3, "refuses"), says(30.6, 3, "answers")],
        [*LAGS, says(55, 3, "silent", 1), says(56.2, 3, "answers")],
        [at(30, 0, 2, 1, 2, 3), at(50, 0, 2, 1, 1, 2, 3), at(55, 0, 1, 2, 1, 2, 3)],
    ],
    ids=[
        *("nothing", "silence", "lag", "a_late_answer", "silence_long_before", "election", "election_and_later_lag"),
        *("lag_and_a_closed_connection", "lag_and_one_at_once", "lag_and_a_silence_while_it_lags"),
        "reassigned_away_and_back",
    ],
)
def test_what_takes_no_broker_out_gives_no_injection_and_stays_unplanned(seen: list[Observation]) -> None:
    assert derived(seen) == []
    of_partitions = any(it.kind == "partition" for it in seen)
    assert any(not it.planned for it in disturbances([*BEFORE, *seen], [])) == of_partitions


@pytest.mark.parametrize("shift_s", [-15, -10.2, 80.5], ids=["before", "begun_before", "after"])
def test_what_began_before_the_load_or_after_it_gives_no_injection(shift_s: float) -> None:
    shifted = [replace(it, at_us=it.at_us + int(shift_s * S)) for it in KILLED]
    assert derived(shifted) == []


def test_brokers_that_restart_one_after_the_other_give_an_injection_each_and_one_cycle_until_all_lead_again() -> None:
    seen: list[Observation] = []
    epochs, leaders = dict.fromkeys(LEADERS, 0), dict(LEADERS)
    for broker in (1, 2, 3):
        begin_s, others = 20 + 10 * broker, sorted(EVERY - {broker})
        for number in LEADERS:
            if leaders[number] == broker:
                leaders[number], epochs[number] = others[0], epochs[number] + 1
            seen.append(at(begin_s, number, leaders[number], epochs[number], *others))
        seen += [says(begin_s + 1, broker, "refuses"), says(begin_s + 4, broker, "answers")]
        seen += [at(begin_s + 6, number, leaders[number], epochs[number], 1, 2, 3) for number in LEADERS]
    seen += [at(80, number, leader, epochs[number] + 1, 1, 2, 3) for number, leader in LEADERS.items()]
    injections = derived(seen)
    assert [(it.brokers, it.effect_at_us, it.cycle) for it in injections] == [
        ([1], 30 * S, 0),
        ([2], 40 * S, 0),
        ([3], 50 * S, 0),
    ]
    assert {it.recovered_at_us for it in injections} == {80 * S}
    assert all(it.planned for it in disturbances([*BEFORE, *seen], injections))
    assert [it.cycle for it in derived(seen, outside(leaders_return=False))] == [0, 1, 2]


def test_a_broker_that_is_taken_out_twice_gives_two_injections() -> None:
    again = [
        replace(it, at_us=it.at_us + 30 * S, leader_epoch=it.leader_epoch + 2 * (it.leader_epoch > 0)) for it in KILLED
    ]
    assert [(it.id, it.cycle, it.effect_at_us) for it in derived([*KILLED, *again])] == [(0, 0, 20 * S), (1, 1, 50 * S)]


def test_a_leader_that_an_operator_moves_between_others_is_no_part_of_a_long_injection() -> None:
    moved = [at(50, 0, 3, 2, 1, 2, 3), at(60, 0, 1, 3, 1, 2, 3)]
    seen = [*KILLED[:-1], *moved]
    (injection,) = derived(seen)
    assert injection.recovered_at_us == 60 * S
    unplanned = [it.detail for it in disturbances([*BEFORE, *seen], [injection]) if not it.planned]
    assert unplanned == ["t/0: leader 2 -> 3, epoch 1 -> 2"]


def test_two_brokers_that_end_at_once_give_two_injections_that_name_one_broker_each() -> None:
    seen = [
        says(20.4, 1, "refuses", 0.4),
        says(20.4, 2, "refuses", 0.4),
        at(23, 0, 3, 1, 3),
        at(23, 1, 3, 1, 3),
        at(23, 2, 3, 0, 3),
    ]
    first, second = derived(seen)
    assert (first.brokers, first.hit, second.brokers, second.hit) == ([1], {"t": [0]}, [2], {"t": [1]})
    assert (first.cycle, second.cycle, first.recovered_at_us) == (0, 0, None)
    assert all(it.planned for it in disturbances([*BEFORE, *seen], [first, second]) if it.kind != "outage")


def test_a_partition_of_one_replica_is_out_while_nobody_leads_it() -> None:
    known = replace_replicas(outside(partitions=1), frozenset({1}))
    seen = [says(20.4, 1, "refuses", 0.4), at(29, 0, -1, 1, 1), says(33, 1, "answers"), at(34, 0, 1, 2, 1)]
    (injection,) = injections_from_outside([*BEFORE[:3], at(1, 0, 1, 0, 1), *seen], known)
    assert (injection.brokers, injection.hit, injection.led) == ([1], {"t": [0]}, True)
    assert (injection.effect_at_us, injection.recovered_at_us) == (20 * S, 34 * S)


def replace_replicas(known: Outside, brokers: frozenset[int]) -> Outside:
    return Outside(dict.fromkeys(known.replicas, brokers), known.load_us, known.session_us, known.lag_us)


def test_behind_one_address_silence_says_nothing_and_only_who_leads_and_who_is_in_sync_counts() -> None:
    known = outside(silence_counts=False)
    (injection,) = derived(KILLED, known)
    assert (injection.brokers, injection.effect_at_us) == ([1], 12_900_000)
    lags = [at(20, 0, 1, 0, 1, 2), at(22, 0, 1, 0, 1, 2, 3)]
    assert derived([says(19, 3, "refuses"), *lags], known) == []
    follower = [at(20, number, 1, 0, 1, 2) for number in LEADERS]
    whole = [at(1, number, 1, 0, 1, 2, 3) for number in LEADERS]
    (injection,) = injections_from_outside([*whole, *follower], known)
    assert (injection.brokers, injection.led) == ([3], False), "it has left every ISR"


def test_a_broker_that_was_silent_for_long_before_is_not_the_begin_of_what_came_later() -> None:
    long_silent = [says(12, 1, "silent", 0.5), *out(60), says(70, 1, "answers"), *back(72), *leads(80)]
    (injection,) = derived(long_silent)
    assert injection.effect_at_us == (60 - SESSION_S - 1) * S


@pytest.mark.parametrize(("session_s", "killed_s"), [(9, 16), (60, 40)])
def test_a_connection_that_was_closed_before_the_load_hides_no_kill(session_s: int, killed_s: int) -> None:
    closed = [says(9.5, 1, "refuses"), says(9.6, 1, "answers")]
    killed = [replace(it, at_us=it.at_us + (killed_s - 20) * S) for it in KILLED]
    (injection,) = derived([*closed, *killed], dataclasses.replace(outside(), session_us=session_s * S))
    assert injection.effect_at_us == killed_s * S


def test_what_may_have_begun_before_the_load_is_exposed_from_its_first_sign_on() -> None:
    (injection,) = derived([*out(12), *back(20), *leads(30)])
    assert (injection.effect_at_us, injection.seen_at_us, injection.exposed_at_us) == (2 * S, 12 * S, 12 * S)
    (killed,) = derived(KILLED)
    assert (killed.effect_at_us, killed.exposed_at_us) == (20 * S, 20 * S)
    assert replace(killed, seen_at_us=None).exposed_at_us == killed.effect_at_us


def test_a_broker_that_answered_for_a_moment_only_was_out_since_before() -> None:
    twice = [says(12, 1, "silent", 0.5), says(19.9, 1, "answers"), *KILLED]
    (injection,) = derived(twice)
    assert injection.effect_at_us == 12_900_000, "no longer ago than the cluster waits"


@pytest.mark.parametrize("known", [outside(partitions=1), outside(partitions=1, silence_counts=False)])
def test_a_partition_whose_replica_is_assigned_elsewhere_is_no_outage_even_if_the_broker_had_no_other(
    known: Outside,
) -> None:
    moved = replace(at(30, 0, 2, 1, 2, 3), replicas=[2, 3])
    seen = [*BEFORE[:4], moved, at(50, 0, 2, 1, 1, 2, 3), at(55, 0, 1, 2, 1, 2, 3)]
    assert injections_from_outside(seen, known) == []
    still = [replace(it, replicas=[1, 2, 3]) if it is moved else it for it in seen]
    assert [it.brokers for it in injections_from_outside(still, known)] == [[1]], "cut off"
    assert any(not it.planned for it in disturbances(seen, []))


def test_silences_join_refusals_and_begin_with_the_last_question_that_was_answered() -> None:
    seen = [says(1, 1, "answers", 0), says(5, 1, "silent", 1), says(8, 1, "refuses", 4), says(9, 1, "answers", 5)]
    ((silence,),) = silences([*seen, says(9, 2, "answers", 0)]).values()
    assert (silence.since_us, silence.seen_us, silence.until_us, silence.refused) == (4 * S, 5 * S, 9 * S, True)
    assert silences(seen[:2])[1][0].until_us is None
