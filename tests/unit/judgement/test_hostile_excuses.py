"""Tests that try to get a healthy client convicted by its cases, and a guilty one excused by a disturbance that is too
wide: at the edges of the reach of a disturbance, and where the observer saw too little."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.evidence import (
    BITE,
    HEALED,
    LAST,
    RECOVERED,
    SECOND,
    Rows,
    a_scenario,
    arm,
    both,
    case,
    cases,
    doubts,
    evidence_of,
    judged,
    lost,
    partition,
    the_injections,
    the_observations,
    with_arm,
)

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.judgement.windows import CLIENT_LAG_US
from delivery_verifier.model.history import LEAD_US, Injection, Observation
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.verdict import ArmVerdict, Finding

RUN, NAME = a_scenario("acks_1"), "acks_1"
_PROFILE = PROFILES["acks_all"]
UNCLEAN = with_arm(
    a_scenario("acks_all"),
    "acks_all",
    profile=msgspec.structs.replace(_PROFILE, topic={**_PROFILE.topic, "unclean.leader.election.enable": True}),
)
"""A run in which a broker from outside the ISR may become leader of the subject's partitions."""
CHANGED = BITE + 3 * SECOND


def verdict_on(run: Scenario, *times: tuple[int, int | None], at: int = 0, **more: Any) -> ArmVerdict:
    """Returns the verdict on the run's subject, which lost a record on partition `at` for each of `times`: when the
    record was sent, and when it was acknowledged."""
    name = next(it.name for it in run.arms if it.role == "subject")
    rows = [case(sent_us, settled_us, "LOST", arm=name, at=at) for sent_us, settled_us in times]
    injections = more.get("injections", the_injections(run))
    change = both(lost_at(name, at, len(times)), exposed(run, injections))
    return arm(judged(evidence_of(run, change, cases=cases(*rows), **more)), name)


def lost_at(name: str, at: int, count: int) -> Any:
    def change(rows: Rows) -> None:
        row = next(
            it
            for it in rows["books/producers.parquet"]
            if (it["arm"], it["producer"], it["partition"]) == (name, 0, at)
        )
        row["lost"], row["found"] = count, 400 - count

    return change


def exposed(run: Scenario, injections: list[Injection]) -> Any:
    def change(rows: Rows) -> None:
        rows["books/exposure.parquet"] = [
            {"arm": it.name, "injection": injection.id, "reported": 150, "outstanding": 20}
            for it in run.loaded
            for injection in injections
        ]

    return change


def finding(verdict: ArmVerdict) -> Finding:
    return next(it for it in verdict.findings if it.anomaly == "LOST")


def doubts_of(verdict: ArmVerdict) -> set[tuple[str, str]]:
    return {(doubt.kind, doubt.name) for doubt in verdict.doubts}


def early(run: Scenario, **more: Any) -> Injection:
    """Returns an injection that was over long before the kill of the hand-made run."""
    (kill,) = the_injections(run)
    times = {
        "bite_at_us": BITE - 60 * SECOND,
        "healed_at_us": BITE - 52 * SECOND,
        "recovered_at_us": BITE - 50 * SECOND,
    }
    return msgspec.structs.replace(kill, **{"id": 2, **times, **more})


# ---- A healthy client must not be convicted.


@pytest.mark.parametrize("look_us", [0, 100_000, OBSERVER_LAG_US])
def test_a_change_that_was_seen_a_look_late_excuses_what_was_acknowledged_before_the_look(look_us: int) -> None:
    seen = seen_by(RUN, (CHANGED + look_us, 2, 1, [2, 3]), exits={1: CHANGED + look_us + OBSERVER_LAG_US})
    for acked_us in (CHANGED - 1, CHANGED, CHANGED + look_us, CHANGED + look_us + OBSERVER_LAG_US):
        assert verdict_on(RUN, (acked_us - 1, acked_us), **seen).verdict == "HELD"


@pytest.mark.parametrize("delay_us", [1, CLIENT_LAG_US, 30 * SECOND, 120 * SECOND, None])
def test_a_batch_that_was_sent_before_the_change_and_acknowledged_whenever_convicts_nobody(
    delay_us: int | None,
) -> None:
    seen = seen_by(RUN, (CHANGED, 2, 1, [2, 3]), exits={1: CHANGED + OBSERVER_LAG_US})
    for sent_us in (BITE - SECOND, CHANGED - 1, CHANGED + OBSERVER_LAG_US):
        verdict = verdict_on(RUN, (sent_us, delay_us and sent_us + delay_us), **seen)
        assert verdict.verdict in ("HELD", "INCONCLUSIVE")


def seen_by(run: Scenario, *changes: tuple[int, int, int, list[int]], exits: dict[int, int] | None = None) -> Any:
    """Returns observations: partition 0 goes through `changes` (at_us, leader, epoch, ISR), and brokers exit at times
    by `exits`."""
    first = [it for it in the_observations(run) if it.at_us < BITE]
    name = next(it.name for it in run.arms if it.role == "subject")
    rest = [partition(run, at, name, 0, leader, epoch, isr) for at, leader, epoch, isr in changes]
    rest += [
        Observation(at_us=at, kind="process", broker=broker, state="exited", exit_code=-9)
        for broker, at in (exits or {}).items()
    ]
    return {"observations": [*first, *sorted(rest, key=lambda it: it.at_us)]}


ROLLING = seen_by(
    RUN,
    (CHANGED, 2, 1, [2, 3]),  # controlled shutdown of broker 1: it goes on answering until it exits
    (CHANGED + 3 * SECOND, 2, 1, [1, 2, 3]),
    (CHANGED + 4 * SECOND, 3, 2, [1, 3]),  # and of broker 2
    exits={1: CHANGED + SECOND, 2: CHANGED + 5 * SECOND},
)


@pytest.mark.parametrize(
    ("acked_us", "convicts"),
    [
        (CHANGED + SECOND, False),
        (CHANGED + 5 * SECOND, False),
        (CHANGED + 5 * SECOND + 2, True),
    ],
)
def test_a_leader_in_a_rolling_restart_answers_until_it_exits(acked_us: int, convicts: bool) -> None:
    verdict = verdict_on(RUN, (acked_us - 1, acked_us), **ROLLING)
    assert (verdict.verdict == "VIOLATED", finding(verdict).excused) == (convicts, int(not convicts))


def test_a_leader_that_was_preferred_to_a_living_one_reaches_to_the_end() -> None:
    seen = seen_by(RUN, (CHANGED, 2, 1, [1, 2, 3]))
    assert verdict_on(RUN, (RECOVERED, RECOVERED + 1), **seen).verdict == "HELD"


def test_a_leader_that_is_cut_off_answers_until_it_is_back_in_sync() -> None:
    back = CHANGED + 4 * SECOND
    seen = seen_by(RUN, (CHANGED, 2, 1, [2, 3]), (back, 2, 1, [1, 2, 3]))
    for acked_us, verdict in ((back - 1, "HELD"), (back + OBSERVER_LAG_US, "HELD"), (back + 2 * SECOND, "VIOLATED")):
        assert verdict_on(RUN, (acked_us, acked_us), **seen).verdict == verdict


def test_an_old_epoch_that_a_sleeping_broker_tells_does_not_end_the_reach_of_the_change() -> None:
    stale = (CHANGED + 1, 1, 0, [1, 2, 3])  # as if broker 1 led again
    seen = seen_by(RUN, (CHANGED, 2, 1, [2, 3]), stale, (CHANGED + 2, 2, 1, [2, 3]))
    assert verdict_on(RUN, (RECOVERED, RECOVERED), **seen).verdict != "VIOLATED"


@pytest.mark.parametrize(
    ("isr", "verdict"),
    [([1, 2, 3], "INCONCLUSIVE"), ([1], "INCONCLUSIVE")],
)
def test_an_election_that_looks_clean_is_a_doubt_where_unclean_ones_are_permitted(isr: list[int], verdict: str) -> None:
    """On partition 1 an unclean election was seen. On partition 0 the observer may have missed that the ISR shrank."""
    name = next(it.name for it in UNCLEAN.arms if it.role == "subject")
    shrunk, unclean = (
        partition(UNCLEAN, CHANGED, name, 1, 2, 0, [2]),
        partition(UNCLEAN, CHANGED + 1, name, 1, 3, 1, [3]),
    )
    seen = seen_by(UNCLEAN, (CHANGED, 2, 1, isr))
    seen["observations"] += [shrunk, unclean]
    (kill,) = the_injections(UNCLEAN)
    hit = {it.topic_name: [0, 1] for it in UNCLEAN.arms}
    killed = msgspec.structs.replace(kill, brokers=[1, 2], hit=hit)
    verdict_ = verdict_on(UNCLEAN, (CHANGED - 2, CHANGED - 1), injections=[killed], **seen)
    assert finding(verdict_).ruling == "PERMITTED"
    assert verdict_.verdict == verdict


def test_without_heartbeats_nobody_knows_the_clock_and_nobody_is_convicted() -> None:
    verdict = verdict_on(RUN, (LAST, LAST), observations=the_observations(RUN), raw=True)
    assert verdict.verdict == "INCONCLUSIVE"
    assert finding(verdict).doubtful == 1


# ---- A guilty one must not be excused.


def test_a_change_excuses_nothing_that_was_acknowledged_before_the_injection_that_caused_it() -> None:
    """An earlier injection hit another partition, so that the record was under way during some injection."""
    injections = [early(RUN, hit={it.topic_name: [1] for it in RUN.arms}), *the_injections(RUN)]
    at_us = BITE - 60 * SECOND
    restart = [Observation(at_us=at_us, kind="process", broker=1, state="exited", exit_code=-9)]
    restart += [Observation(at_us=at_us + 1, kind="process", broker=1, state="running")]
    seen = sorted([*the_observations(RUN), *restart], key=lambda it: it.at_us)
    acked_us = BITE - 55 * SECOND
    verdict = verdict_on(RUN, (acked_us - 1, acked_us), injections=injections, observations=seen)
    assert {name for _, name in doubts_of(verdict)} == {"unexplained"}
    assert verdict.verdict == "INCONCLUSIVE"
    assert (finding(verdict).excuses, finding(verdict).doubtful) == ([], 1)


@pytest.mark.parametrize(("acked_us", "excused"), [(BITE - LEAD_US, 1), (BITE - LEAD_US - 1, 0)])
def test_the_excuse_begins_with_the_window_of_the_injection(acked_us: int, excused: int) -> None:
    assert finding(verdict_on(RUN, (acked_us, acked_us))).excused == excused


def test_a_loss_of_power_of_one_replica_does_not_prolong_an_earlier_one_of_all() -> None:
    run = a_scenario("idempotent")
    all_of_them = early(run, action="power_off", brokers=[1, 2, 3])
    of_one = msgspec.structs.replace(all_of_them, id=3, brokers=[3], bite_at_us=BITE + 1, healed_at_us=HEALED)
    injections = [all_of_them, *the_injections(run), msgspec.structs.replace(of_one, recovered_at_us=RECOVERED)]
    cut = [(BITE - 60 * SECOND, broker) for broker in (1, 2, 3)] + [(BITE + 1, 3)]
    died = [Observation(at_us=at, kind="process", broker=it, state="exited", exit_code=-9) for at, it in cut]
    died += [Observation(at_us=BITE - 52 * SECOND, kind="process", broker=it, state="running") for it in (1, 2, 3)]
    names = run.arm_names
    elected = [partition(run, BITE - 51 * SECOND, name, 0, 1, 1, [1, 2, 3]) for name in names]
    elected += [partition(run, CHANGED, name, 0, 2, 2, [2, 3]) for name in names]
    before = [it for it in the_observations(run) if it.at_us <= BITE]
    seen = sorted([*before, *died, *elected], key=lambda it: it.at_us)
    for acked_us, verdict in ((BITE - 70 * SECOND, "HELD"), (BITE - 30 * SECOND, "VIOLATED")):
        assert verdict_on(run, (acked_us, acked_us), injections=injections, observations=seen).verdict == verdict


# ---- Each case is counted for one disturbance.


def test_a_case_counts_for_the_nearest_of_the_changes_of_its_own_partition() -> None:
    ends = {1: BITE, 2: CHANGED + 2 * SECOND}
    seen = seen_by(RUN, (CHANGED, 2, 1, [2, 3]), (CHANGED + 3 * SECOND, 3, 2, [3]), exits=ends)
    times = [(at, at) for at in (BITE - 1, BITE, CHANGED + 2 * SECOND)]
    held = verdict_on(RUN, *times, (CHANGED + 9 * SECOND, CHANGED + 9 * SECOND), **seen)
    found = finding(held)
    assert [(it.disturbance.at_us, it.disturbance.partitions, it.count) for it in found.excuses] == [
        (CHANGED, [0], 2),
        (CHANGED + 3 * SECOND, [0], 1),
    ]
    assert (found.count, found.doubtful, held.verdict) == (3, 0, "VIOLATED")


def test_what_needs_no_disturbance_or_has_no_written_cases_names_none() -> None:
    weak = a_scenario("acks_0")
    assert finding(verdict_on(weak, (BITE, BITE))).excuses == []
    assert finding(arm(judged(evidence_of(RUN, lost(7, NAME))), NAME)).excuses == []
    assert ("coverage", "unexplained") not in doubts(judged(evidence_of(RUN, lost(7, NAME))), NAME)
