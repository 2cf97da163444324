"""Tests of explains: a permission has a time and a place. What nothing can explain convicts, and nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.evidence import (
    EFFECT_AT,
    HEALED,
    LAST,
    RECOVERED,
    SECOND,
    Change,
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
    setting,
    the_injections,
    the_observations,
    with_arm,
)

from delivery_verifier.catalogue import PROFILES
from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.model.history import LEAD_US, Injection, Observation
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.verdict import ArmVerdict, Finding
from delivery_verifier.verdict.windows import CLIENT_LAG_US

RUN, NAME = a_scenario("acks_1"), "acks_1"
CHANGED = EFFECT_AT + 3 * SECOND
"""When another broker leads partition 0, in the hand-made run: its leader, broker 1, was killed before."""
UNTIL = CHANGED + OBSERVER_LAG_US
UNEXPLAINED = {("coverage", "unexplained")}


def judged_with(*rows: dict[str, object], change: Change = lost(7, NAME), **more: Any) -> ArmVerdict:
    return arm(judged(evidence_of(RUN, change, cases=cases(*rows), **more)), NAME)


def a_loss(sent_us: int, settled_us: int | None, at: int = 0, kind: str = "LOST") -> dict[str, object]:
    return case(sent_us, settled_us, kind, arm=NAME, at=at)


def lost_on(at: int) -> Change:
    where: dict[str, Any] = {"arm": NAME, "producer": 0, "partition": at}
    return both(
        setting("counts/producers.parquet", "lost", 1, **where),
        setting("counts/producers.parquet", "found", 399, **where),
    )


def seen(*changes: tuple[int, int, int, Sequence[int]], alive: bool = True) -> dict[str, Any]:
    """Returns observations in which partition 0 goes through `changes`: (at_us, leader, epoch, ISR). If broker 1, which
    leads it first, is `alive`, its process is not seen to exit."""
    first = [it for it in the_observations(RUN) if it.at_us < EFFECT_AT]
    ended = Observation(at_us=EFFECT_AT, kind="process", broker=1, state="exited", exit_code=-9)
    rest = [partition(RUN, at, NAME, 0, leader, epoch, list(isr)) for at, leader, epoch, isr in changes]
    return {"observations": [*first, *([] if alive else [ended]), *rest]}


def test_what_the_new_leader_acknowledged_after_the_last_change_is_not_explained_by_the_change() -> None:
    verdict = judged_with(a_loss(EFFECT_AT + 4_500_000, EFFECT_AT + 4_600_000))
    assert verdict.verdict == "VIOLATED"
    assert [(it.rule, it.ruling, it.count) for it in verdict.findings if it.anomaly == "LOST"] == [
        ("lost.acks_1", "PERMITTED", 6),
        ("lost.unexplained", "FORBIDDEN", 1),
    ]
    assert "1 lost, which the contract forbids" in verdict.sentence


@settings(max_examples=25, deadline=None)
@given(sent_us=st.integers(EFFECT_AT - SECOND, EFFECT_AT), delay_us=st.integers(0, 10 * SECOND))
def test_what_was_acknowledged_before_the_change_is_explained(sent_us: int, delay_us: int) -> None:
    settled_us = min(sent_us + delay_us, UNTIL + CLIENT_LAG_US)
    assert judged_with(a_loss(sent_us, settled_us)).verdict == "HELD"


@settings(max_examples=25, deadline=None)
@given(late_us=st.integers(1, 60 * SECOND), delay_us=st.integers(0, 10 * SECOND), kind=st.sampled_from(["LOST"]))
def test_what_was_sent_after_the_change_convicts(late_us: int, delay_us: int, kind: str) -> None:
    assert judged_with(a_loss(UNTIL + late_us, UNTIL + late_us + delay_us, kind=kind)).verdict == "VIOLATED"


@settings(max_examples=25, deadline=None)
@given(sent_us=st.integers(EFFECT_AT - SECOND, EFFECT_AT), late_us=st.none() | st.integers(1, 60 * SECOND))
def test_what_was_sent_before_the_change_and_acknowledged_nobody_knows_by_whom_is_a_doubt(
    sent_us: int, late_us: int | None
) -> None:
    settled_us = late_us and UNTIL + CLIENT_LAG_US + late_us
    verdict = judged_with(a_loss(sent_us, settled_us) | {"overwritten": False})
    assert (verdict.verdict, {(it.kind, it.name) for it in verdict.doubts}) == ("INCONCLUSIVE", UNEXPLAINED)


@settings(max_examples=25, deadline=None)
@given(sent_us=st.integers(2, RECOVERED), at=st.integers(1, 2))
def test_a_loss_on_a_partition_whose_leader_never_changed_convicts(sent_us: int, at: int) -> None:
    assert judged_with(a_loss(sent_us, sent_us + 1, at), change=lost_on(at)).verdict == "VIOLATED"


def test_a_loss_before_the_first_observation_of_its_partition_is_a_doubt() -> None:
    assert judged_with(a_loss(0, EFFECT_AT, at=1), change=lost_on(1)).verdict == "INCONCLUSIVE"


def test_a_loss_on_a_partition_whose_leader_is_not_proven_convicts_nobody() -> None:
    evidence = evidence_of(RUN, lost_on(1), cases=cases(a_loss(EFFECT_AT, EFFECT_AT + 1, at=1)))
    unknown = [
        msgspec.structs.replace(part, leader_epoch=-1) if part.partition == 1 else part
        for part in evidence.offsets.partitions
    ]
    offsets = msgspec.structs.replace(evidence.offsets, partitions=unknown)
    verdict = judged(evidence_of(RUN, lost_on(1), cases=evidence.cases, offsets=offsets))
    assert (arm(verdict, NAME).verdict, doubts(verdict, NAME)) == ("INCONCLUSIVE", UNEXPLAINED)


LATER = a_loss(CHANGED + 2 * SECOND, CHANGED + 2 * SECOND + 1)
BACK, OUT = CHANGED + 3 * SECOND, [2, 3]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        (seen((CHANGED, 2, 1, OUT)), "HELD"),  # never seen to have learned of its successor
        (seen((CHANGED, 2, 1, [1, 2, 3])), "HELD"),  # staying in the ISR proves nothing
        (seen((CHANGED, 2, 1, OUT), (BACK, 2, 1, [1, 2, 3])), "HELD"),
        (seen((CHANGED, 2, 1, OUT), (CHANGED + 1, 2, 1, [1, 2, 3])), "VIOLATED"),
        (seen((CHANGED, 2, 1, OUT), (CHANGED + 1, 2, 1, [1, 2, 3]), (CHANGED + 2, 2, 1, OUT)), "HELD"),  # an old ISR
        # broker 2 is deposed now, and incarnations
        (seen((CHANGED, 2, 1, OUT), (CHANGED + 1, 1, 2, [1, 2, 3])), "HELD"),
        (seen((CHANGED, -1, 1, []), (CHANGED + 1, 2, 2, OUT), alive=False), "VIOLATED"),
        (seen((CHANGED, 2, 3, OUT), alive=False), "HELD"),  # a leader that nobody saw: broker 3 may have been it
        (seen((CHANGED, 2, 1, OUT), (BACK, 3, 2, OUT), alive=False), "HELD"),  # the change after it may explain it
    ],
)
def test_a_deposed_leader_acknowledges_until_it_learns_of_its_successor(changes: dict[str, Any], verdict: str) -> None:
    assert judged_with(LATER, **changes).verdict == verdict


def test_a_conviction_by_cases_never_exceeds_the_tally() -> None:
    verdict = judged_with(LATER, a_loss(UNTIL + SECOND, UNTIL + 2 * SECOND), change=lost(1, NAME))
    assert [it.count for it in verdict.findings if it.anomaly == "LOST"] == [0, 1]


def test_a_hidden_case_convicts_too() -> None:
    hidden = both(
        setting("counts/producers.parquet", "duplicated", 1, arm=NAME, producer=0),
        setting("counts/producers.parquet", "also_misplaced", 1, arm=NAME, producer=0),
    )
    row = case(UNTIL + SECOND, UNTIL + 2 * SECOND, "DUPLICATED", "MISPLACED", arm=NAME)
    verdict = judged_with(row, change=hidden)
    assert [(it.rule, it.also) for it in verdict.findings if it.also] == [("misplaced.unexplained", 1)]


def test_what_a_client_sends_again_once_it_learns_of_a_leader_late_is_a_doubt_and_no_violation() -> None:
    run = a_scenario("retries_off")
    twice = setting("counts/producers.parquet", "duplicated", 1, arm="retries_off", producer=0)
    for sent_us, expected in (
        (CHANGED, "HELD"),
        (UNTIL + CLIENT_LAG_US, "HELD"),
        (UNTIL + CLIENT_LAG_US + 1, "INCONCLUSIVE"),
    ):
        row = case(sent_us, sent_us + 1, "DUPLICATED", arm="retries_off")
        assert arm(judged(evidence_of(run, twice, cases=cases(row))), "retries_off").verdict == expected


_PROFILE = PROFILES["acks_all"]
UNCLEAN = with_arm(
    a_scenario("acks_all"),
    "acks_all",
    profile=msgspec.structs.replace(_PROFILE, topic={**_PROFILE.topic, "unclean.leader.election.enable": True}),
)
"""A run in which a broker from outside the ISR may become leader of the subject's partitions."""


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
            for it in rows["counts/producers.parquet"]
            if (it["arm"], it["producer"], it["partition"]) == (name, 0, at)
        )
        row["lost"], row["found"] = count, 400 - count

    return change


def exposed(run: Scenario, injections: list[Injection]) -> Any:
    def change(rows: Rows) -> None:
        rows["counts/exposure.parquet"] = [
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
        "effect_at_us": EFFECT_AT - 60 * SECOND,
        "healed_at_us": EFFECT_AT - 52 * SECOND,
        "recovered_at_us": EFFECT_AT - 50 * SECOND,
    }
    return msgspec.structs.replace(kill, **{"id": 2, **times, **more})


# ---- A healthy client must not be convicted.


@pytest.mark.parametrize("look_us", [0, 100_000, OBSERVER_LAG_US])
def test_a_change_that_was_seen_a_look_late_explains_what_was_acknowledged_before_the_look(look_us: int) -> None:
    seen = seen_by(RUN, (CHANGED + look_us, 2, 1, [2, 3]), exits={1: CHANGED + look_us + OBSERVER_LAG_US})
    for acked_us in (CHANGED - 1, CHANGED, CHANGED + look_us, CHANGED + look_us + OBSERVER_LAG_US):
        assert verdict_on(RUN, (acked_us - 1, acked_us), **seen).verdict == "HELD"


@pytest.mark.parametrize("delay_us", [1, CLIENT_LAG_US, 30 * SECOND, 120 * SECOND, None])
def test_a_batch_that_was_sent_before_the_change_and_acknowledged_whenever_convicts_nobody(
    delay_us: int | None,
) -> None:
    seen = seen_by(RUN, (CHANGED, 2, 1, [2, 3]), exits={1: CHANGED + OBSERVER_LAG_US})
    for sent_us in (EFFECT_AT - SECOND, CHANGED - 1, CHANGED + OBSERVER_LAG_US):
        verdict = verdict_on(RUN, (sent_us, delay_us and sent_us + delay_us), **seen)
        assert verdict.verdict in ("HELD", "INCONCLUSIVE")


def seen_by(run: Scenario, *changes: tuple[int, int, int, list[int]], exits: dict[int, int] | None = None) -> Any:
    """Returns observations: partition 0 goes through `changes` (at_us, leader, epoch, ISR), and brokers exit at times
    by `exits`."""
    first = [it for it in the_observations(run) if it.at_us < EFFECT_AT]
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
    assert (verdict.verdict == "VIOLATED", finding(verdict).explained) == (convicts, int(not convicts))


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


# ---- A guilty one must not be explained.


def test_a_change_explains_nothing_that_was_acknowledged_before_the_injection_that_caused_it() -> None:
    """An earlier injection hit another partition, so that the record was under way during some injection."""
    injections = [early(RUN, hit={it.topic_name: [1] for it in RUN.arms}), *the_injections(RUN)]
    at_us = EFFECT_AT - 60 * SECOND
    restart = [Observation(at_us=at_us, kind="process", broker=1, state="exited", exit_code=-9)]
    restart += [Observation(at_us=at_us + 1, kind="process", broker=1, state="running")]
    seen = sorted([*the_observations(RUN), *restart], key=lambda it: it.at_us)
    acked_us = EFFECT_AT - 55 * SECOND
    verdict = verdict_on(RUN, (acked_us - 1, acked_us), injections=injections, observations=seen)
    assert {name for _, name in doubts_of(verdict)} == {"unexplained"}
    assert verdict.verdict == "INCONCLUSIVE"
    assert (finding(verdict).explained_by, finding(verdict).doubtful) == ([], 1)


@pytest.mark.parametrize(("acked_us", "explained"), [(EFFECT_AT - LEAD_US, 1), (EFFECT_AT - LEAD_US - 1, 0)])
def test_the_explain_begins_with_the_window_of_the_injection(acked_us: int, explained: int) -> None:
    assert finding(verdict_on(RUN, (acked_us, acked_us))).explained == explained


def test_a_loss_of_power_of_one_replica_does_not_prolong_an_earlier_one_of_all() -> None:
    run = a_scenario("idempotent")
    all_of_them = early(run, action="power_off", brokers=[1, 2, 3])
    of_one = msgspec.structs.replace(all_of_them, id=3, brokers=[3], effect_at_us=EFFECT_AT + 1, healed_at_us=HEALED)
    injections = [all_of_them, *the_injections(run), msgspec.structs.replace(of_one, recovered_at_us=RECOVERED)]
    cut = [(EFFECT_AT - 60 * SECOND, broker) for broker in (1, 2, 3)] + [(EFFECT_AT + 1, 3)]
    died = [Observation(at_us=at, kind="process", broker=it, state="exited", exit_code=-9) for at, it in cut]
    died += [Observation(at_us=EFFECT_AT - 52 * SECOND, kind="process", broker=it, state="running") for it in (1, 2, 3)]
    names = run.arm_names
    elected = [partition(run, EFFECT_AT - 51 * SECOND, name, 0, 1, 1, [1, 2, 3]) for name in names]
    elected += [partition(run, CHANGED, name, 0, 2, 2, [2, 3]) for name in names]
    before = [it for it in the_observations(run) if it.at_us <= EFFECT_AT]
    seen = sorted([*before, *died, *elected], key=lambda it: it.at_us)
    for acked_us, verdict in ((EFFECT_AT - 70 * SECOND, "HELD"), (EFFECT_AT - 30 * SECOND, "VIOLATED")):
        assert verdict_on(run, (acked_us, acked_us), injections=injections, observations=seen).verdict == verdict


# ---- Each case is counted for one disturbance.


def test_a_case_counts_for_the_nearest_of_the_changes_of_its_own_partition() -> None:
    ends = {1: EFFECT_AT, 2: CHANGED + 2 * SECOND}
    seen = seen_by(RUN, (CHANGED, 2, 1, [2, 3]), (CHANGED + 3 * SECOND, 3, 2, [3]), exits=ends)
    times = [(at, at) for at in (EFFECT_AT - 1, EFFECT_AT, CHANGED + 2 * SECOND)]
    held = verdict_on(RUN, *times, (CHANGED + 9 * SECOND, CHANGED + 9 * SECOND), **seen)
    found = finding(held)
    assert [(it.disturbance.at_us, it.disturbance.partitions, it.count) for it in found.explained_by] == [
        (CHANGED, [0], 2),
        (CHANGED + 3 * SECOND, [0], 1),
    ]
    assert (found.count, found.doubtful, held.verdict) == (3, 0, "VIOLATED")


def test_what_needs_no_disturbance_or_has_no_written_cases_names_none() -> None:
    weak = a_scenario("acks_0")
    assert finding(verdict_on(weak, (EFFECT_AT, EFFECT_AT))).explained_by == []
    assert finding(arm(judged(evidence_of(RUN, lost(7, NAME))), NAME)).explained_by == []
    assert ("coverage", "unexplained") not in doubts(judged(evidence_of(RUN, lost(7, NAME))), NAME)
