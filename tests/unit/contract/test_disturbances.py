"""Tests of disturbances: which observations count as a disturbance, and which disturbances an injection explains."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from support.observations import EFFECT_AT, KILL, RECOVERED, SECOND, at, process

from delivery_verifier.catalogue import FAULTS, PROFILES, scenario
from delivery_verifier.contract.disturbances import (
    coordinator_partitions,
    disturbances,
    disturbances_of_arm,
    disturbances_of_topic,
    must_be_observed,
    observed_during,
)
from delivery_verifier.model import fault_actions
from delivery_verifier.model.act import Act
from delivery_verifier.model.history import (
    INJECTED,
    TRANSACTION_STATE,
    Disturbance,
    DisturbanceKind,
    Injection,
    Observation,
)
from delivery_verifier.model.scenario import Load

START = at(1, 1, 0, [1, 2, 3])


def kinds(*seen: Observation, injections: tuple[Injection, ...] = (KILL,)) -> list[tuple[str, bool]]:
    return sorted((found.kind, found.planned) for found in disturbances(seen, injections))


def test_the_creation_of_a_topic_and_its_first_leader_are_no_disturbance() -> None:
    assert kinds(at(0, -1, 0, []), at(0.5, -1, 0, []), START, START) == []


def test_a_planned_kill_explains_the_crash_the_election_and_the_shrink_of_what_the_broker_led() -> None:
    seen = (START, process(1, 1, "running"), process(100, 1, "exited", -9), at(103, 2, 1, [2, 3]))
    assert kinds(*seen) == [("broker_crash", True), ("isr_shrink", True), ("leader_change", True)]


def test_a_planned_kill_explains_the_shrink_and_the_epoch_of_partitions_that_others_lead() -> None:
    other = at(1, 2, 0, [1, 2, 3], partition=1)
    assert kinds(other, at(103, 2, 1, [2, 3], partition=1)) == [("isr_shrink", True), ("leader_change", True)]


def test_a_planned_kill_explains_the_leader_moving_back_when_the_broker_is_restarted() -> None:
    assert kinds(START, at(103, 2, 1, [1, 2, 3]), at(109, 1, 2, [1, 2, 3])) == [("leader_change", True)] * 2


def test_a_clock_that_was_set_back_makes_no_unclean_election_of_a_clean_one() -> None:
    alone, joined = at(103, 2, 1, [2]), at(106, 2, 1, [2, 3])
    elected = at(104, 3, 2, [2, 3])  # seen after `joined`, on a clock that was set back meanwhile
    assert ("unclean_election", True) not in kinds(START, alone, joined, elected)
    assert ("unclean_election", False) in kinds(START, alone, elected, joined)


def test_a_broker_that_crashes_twice_is_seen_so_whatever_the_clock_says() -> None:
    again = (process(100, 1, "exited", -9), process(105, 1, "running"), process(101, 1, "exited", -9))
    assert kinds(*again).count(("broker_crash", True)) + kinds(*again).count(("broker_crash", False)) == 2


def test_an_unclean_election_of_a_coordinator_concerns_the_arms_that_write_transactions_and_explains_no_loss() -> None:
    topic = {"topic": TRANSACTION_STATE}
    seen = [msgspec.structs.replace(it, **topic) for it in (START, at(103, 2, 1, [2]), at(105, 3, 2, [3]))]
    found = disturbances(seen, [KILL])
    (election,) = [it for it in found if it.kind not in ("leader_change", "isr_shrink")]
    assert (election.kind, election.topic, election.partitions) == ("unclean_coordinator_election", "", [0])
    assert not election.planned, "nobody asked for one, so it may be a clean one that was seen late"
    run = scenario("run-1", profile=PROFILES["transactional"], fault=FAULTS["kill_leader"], load=Load(), records=1200)
    writes = {arm.name: disturbances_of_arm(arm, found, 1) for arm in run.arms}
    own = msgspec.structs.replace(election, producers=[0])
    assert writes.pop("transactional") == [own], "what else happened to that topic touches nobody's records"
    assert writes
    assert not any(writes.values())


def test_that_a_follower_was_hit_is_no_reason_for_another_leader() -> None:
    follower = msgspec.structs.replace(KILL, action="pause", brokers=[2], led=False)
    assert kinds(START, at(103, 2, 1, [1, 2, 3]), injections=[follower]) == [("leader_change", False)]


@pytest.mark.parametrize("when_s", [98.9, 111.1])
def test_what_happens_outside_the_window_of_the_injection_is_unplanned(when_s: float) -> None:
    assert kinds(START, at(when_s, 2, 1, [1, 2, 3])) == [("leader_change", False)]


@pytest.mark.parametrize("when_s", [99.1, 110.9])
def test_what_happens_at_the_edge_of_the_window_is_planned(when_s: float) -> None:
    assert kinds(START, at(when_s, 2, 1, [1, 2, 3])) == [("leader_change", True)]


def test_what_an_injection_of_the_plan_explains_is_planned_also_without_proof_that_it_took_effect() -> None:
    unproven = Injection(
        id=1,
        cycle=1,
        action="kill",
        brokers=[1],
        hit={"t": [0]},
        requested_at_us=EFFECT_AT,
        effect_at_us=EFFECT_AT,
        took_effect=False,
    )
    seen = (START, process(100, 1, "exited", -9), at(103, 2, 1, [2, 3]), process(104, 2, "exited", -9))
    assert kinds(*seen, injections=(unproven,)) == [
        ("broker_crash", False),
        ("broker_crash", True),
        ("isr_shrink", True),
        ("leader_change", True),
    ]


def test_an_injection_that_never_recovered_explains_until_the_end() -> None:
    open_ended = Injection(
        id=1,
        cycle=1,
        action="kill",
        brokers=[1],
        hit={"t": [0]},
        requested_at_us=EFFECT_AT,
        effect_at_us=EFFECT_AT,
        took_effect=True,
    )
    assert kinds(START, at(900, 2, 1, [1, 2, 3]), injections=(open_ended,)) == [("leader_change", True)]


def test_replicas_that_a_touched_leader_drops_are_planned() -> None:
    assert kinds(START, at(101, 1, 0, [1])) == [("isr_shrink", True)]


def test_a_hit_partition_that_moves_on_between_the_others_is_planned() -> None:
    assert kinds(START, at(103, 2, 1, [1, 2, 3]), at(104, 3, 2, [1, 2, 3])) == [("leader_change", True)] * 2


def test_another_broker_that_dies_during_the_injection_is_unplanned() -> None:
    assert kinds(process(100, 3, "running"), process(101, 3, "exited", -9)) == [("broker_crash", False)]


def test_a_leader_that_moves_between_brokers_nobody_touched_is_unplanned() -> None:
    assert kinds(at(1, 2, 0, [1, 2, 3], 1), at(103, 3, 1, [1, 2, 3], 1)) == [("leader_change", False)]


def test_a_replica_that_leaves_although_nobody_touched_it_or_its_leader_is_unplanned() -> None:
    assert kinds(at(1, 2, 0, [1, 2, 3], 1), at(103, 2, 0, [1, 2], 1)) == [("isr_shrink", False)]


def test_a_second_crash_of_the_broker_that_was_killed_is_unplanned_even_before_it_has_recovered() -> None:
    seen = (process(100, 1, "exited", -9), process(105, 1, "running"), process(107, 1, "exited", -9))
    assert kinds(*seen) == [("broker_crash", False), ("broker_crash", True)]


def test_each_cycle_explains_one_crash_also_where_its_window_touches_the_one_before() -> None:
    again = msgspec.structs.replace(KILL, id=2, cycle=2, effect_at_us=RECOVERED, recovered_at_us=RECOVERED + 9 * SECOND)
    seen = [process(100, 1, "exited", -9), process(105, 1, "running"), process(110.5, 1, "exited", -9)]
    assert kinds(*seen, injections=(KILL, again)) == [("broker_crash", True)] * 2
    seen += [process(112, 1, "running"), process(114, 1, "exited", -9)]
    assert kinds(*seen, injections=(KILL, again)) == [("broker_crash", False), *[("broker_crash", True)] * 2]


def test_a_broker_that_crashes_while_it_is_frozen_is_unplanned() -> None:
    pause = msgspec.structs.replace(KILL, action="pause")
    seen = (process(100, 1, "frozen"), process(103, 1, "exited", -9))
    assert kinds(*seen, injections=(pause,)) == [("broker_crash", False), ("broker_freeze", True)]


@pytest.mark.parametrize(
    ("code", "kind"), [(143, "broker_stop"), (0, "broker_stop"), (-9, "broker_crash"), (1, "broker_crash")]
)
def test_the_exit_code_tells_a_stop_from_a_crash(code: int, kind: str) -> None:
    assert kinds(process(100, 1, "exited", code)) == [(kind, True)]


def test_a_freeze_is_counted_once_however_often_it_is_seen() -> None:
    seen = (process(1, 1, "running"), process(101, 1, "frozen"), process(102, 1, "frozen"), process(103, 1, "running"))
    assert kinds(*seen, injections=(msgspec.structs.replace(KILL, action="pause"),)) == [("broker_freeze", True)]


def test_a_leader_from_outside_the_last_isr_is_an_unclean_election_even_after_a_leaderless_time() -> None:
    seen = (START, at(101, 1, 1, [1]), at(102, -1, 2, []), at(105, 3, 3, [3]))
    assert ("unclean_election", True) in kinds(*seen)


def test_an_election_from_outside_the_last_isr_seen_is_never_planned_where_an_old_member_is_still_in_the_isr() -> None:
    late = (START, at(100.1, 1, 0, [1, 2]), at(105, 3, 1, [2, 3]))
    elections = [it for it in disturbances(late, [KILL]) if it.kind == "unclean_election"]
    assert [it.planned for it in elections] == [False], "3 was back in the ISR, and nobody had said so yet"
    alone = (*late[:2], at(105, 3, 1, [3]))
    assert ("unclean_election", True) in kinds(*alone)
    eligible = msgspec.structs.replace(late[1], isr=[1], elr=[2])
    assert ("unclean_election", False) in kinds(START, eligible, late[2])


def test_a_leader_from_the_isr_is_a_clean_election_even_after_a_leaderless_time() -> None:
    seen = (START, at(102, -1, 1, []), at(105, 3, 2, [3]))
    assert "unclean_election" not in {kind for kind, _ in kinds(*seen)}


def test_a_disturbance_concerns_its_own_topic_and_a_process_concerns_all() -> None:
    found = disturbances([START, at(103, 2, 1, [2, 3]), process(100, 1, "exited", -9)], [KILL])
    assert {item.kind for item in disturbances_of_topic("another", found)} == {"broker_crash"}
    assert len(disturbances_of_topic("t", found)) == 3


def test_an_injection_without_any_disturbance_in_its_window_shows_a_blind_observer() -> None:
    assert observed_during(KILL, disturbances([START], [KILL])) == []
    assert observed_during(KILL, disturbances([process(100, 1, "exited", -9)], [KILL]))


def made(
    monkeypatch: pytest.MonkeyPatch,
    *itself: DisturbanceKind,
    observed_as: tuple[DisturbanceKind, ...] = (),
    **more: Any,
) -> Injection:
    act = Act(name="hurt", summary="", takes_effect=True, momentary=True, counts_as=itself, observed_as=observed_as)
    monkeypatch.setitem(fault_actions.ACTS, "hurt", act)
    return msgspec.structs.replace(KILL, action="hurt", **more)


@pytest.mark.parametrize("kind", sorted(INJECTED))
def test_what_no_observer_sees_is_known_from_the_injection_and_planned_but_an_alteration_only_if_it_is_proven(
    kind: DisturbanceKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    cause = made(monkeypatch, kind)
    unproven = msgspec.structs.replace(cause, took_effect=False)
    assert kinds(START, injections=(cause,)) == [(kind, True)]
    assert kinds(START, injections=(unproven,)) == [(kind, kind != "topic_altered")]


def test_a_loss_of_power_may_touch_any_topic_and_an_alteration_only_those_it_hit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options: dict[str, str | int | bool] = {"setting": "min.insync.replicas", "value": 1}
    found = disturbances([], [made(monkeypatch, "power_loss", "topic_altered", options=options)])
    assert {(item.kind, item.topic) for item in found} == {("power_loss", ""), ("topic_altered", "t")}
    assert [item.kind for item in disturbances_of_topic("another", found)] == ["power_loss"]
    altered = next(item for item in found if item.kind == "topic_altered")
    assert (altered.setting, altered.value, altered.partitions) == ("min.insync.replicas", "1", [0])
    assert altered.detail == "hurt of t: setting=min.insync.replicas, value=1"


def test_what_an_injection_says_of_itself_shows_no_observer_that_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = made(monkeypatch, "connection_loss")
    assert not observed_during(cut, disturbances([START], [cut]))
    assert not must_be_observed(cut), "nothing is to be seen of a connection that was cut"
    assert must_be_observed(made(monkeypatch, "isolation", observed_as=("leader_change",)))
    assert must_be_observed(KILL)


def test_a_loss_in_a_coordinator_of_unknown_place_is_never_planned() -> None:
    loss = Disturbance(kind="coordinator_power_loss", at_us=1, planned=True, partitions=[0])
    run = scenario("run-1", profile=PROFILES["transactional"], fault=FAULTS["kill_leader"], load=Load(), records=1200)
    arm = run.arm("transactional")
    for coordinators, planned in ((1, True), (0, False)):
        expected = msgspec.structs.replace(loss, producers=[0], planned=planned)
        assert disturbances_of_arm(arm, [loss], coordinators) == [expected]


ELECTION = msgspec.structs.replace(
    KILL,
    action="elect_preferred",
    brokers=[1, 2, 3],
    healed_at_us=EFFECT_AT,
    recovered_at_us=EFFECT_AT + SECOND,
    proof={"re_elected": {"t-0": {"leader": 2, "leader_epoch": 1, "isr": [1, 2, 3]}}},
)


def test_an_election_explains_the_one_leader_and_epoch_that_it_is_proven_by() -> None:
    assert kinds(START, at(100, 2, 1, [1, 2, 3]), injections=(ELECTION,)) == [("leader_change", True)]


@pytest.mark.parametrize(("leader", "epoch", "partition"), [(3, 1, 0), (2, 2, 0), (2, 1, 1)])
def test_another_leader_epoch_or_partition_is_not_what_was_elected(leader: int, epoch: int, partition: int) -> None:
    start = at(1, 1, 0, [1, 2, 3], partition)
    seen = (start, at(100, leader, epoch, [1, 2, 3], partition))
    assert kinds(*seen, injections=(ELECTION,)) == [("leader_change", False)]


def test_an_election_explains_no_replica_that_falls_out_of_sync() -> None:
    assert kinds(START, at(100, 2, 1, [1, 2]), injections=(ELECTION,)) == [
        ("isr_shrink", False),
        ("leader_change", True),
    ]


@pytest.mark.parametrize("action", ["kill_producer", "terminate_producer", "resend", "close", "hold", "alter_topic"])
def test_what_moves_no_leader_explains_no_election(action: str) -> None:
    other = msgspec.structs.replace(KILL, action=action, brokers=[1])
    found = [it for it in disturbances((START, at(103, 2, 1, [1, 2, 3])), (other,)) if it.kind == "leader_change"]
    assert [it.planned for it in found] == [False]


def test_an_unclean_election_was_asked_for_only_where_it_was() -> None:
    asked = msgspec.structs.replace(
        KILL,
        action="elect_unclean",
        brokers=[],
        hit={"t": [0], "control": [0]},
        proof={"elected": {"t-0": {"leader": 2}}},
    )
    assert {it.topic for it in disturbances((), (asked,)) if it.kind == "unclean_request"} == {"t"}


@pytest.mark.parametrize(("brokers", "named"), [([1], "broker 1"), ([1, 2], "brokers 1, 2"), ([], "the run")])
def test_the_detail_names_one_broker_several_or_none(
    brokers: list[int], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = disturbances([], [made(monkeypatch, "power_loss", brokers=brokers)])
    assert found.detail == f"hurt of {named}"


# ---- At the edges: which action explains which end of a process, and what the detail says.


def ended(state: str, exit_code: int | None, injection: Injection, s: int = 101) -> Disturbance:
    """Returns the disturbance of broker 1, whose process is seen in `state` at `s` seconds."""
    (found,) = disturbances([process(s, 1, state, exit_code)], [injection])
    return found


@pytest.mark.parametrize(
    ("action", "state", "exit_code", "planned"),
    [
        ("kill", "exited", -9, True),
        ("kill", "frozen", None, False),
        ("pause", "frozen", None, True),
        ("pause", "exited", -9, False),
        ("stop", "exited", 143, True),
        ("stop", "exited", -9, False),
        ("stop", "frozen", None, False),
        ("an action of another version", "exited", -9, False),
    ],
)
def test_an_action_explains_only_the_state_that_it_brings_about(
    action: str, state: str, exit_code: int | None, planned: bool
) -> None:
    assert ended(state, exit_code, replace(KILL, action=action)).planned == planned


@pytest.mark.parametrize("s", [50, 200])
def test_an_action_explains_no_end_outside_its_window(s: int) -> None:
    assert not ended("exited", -9, KILL, s).planned


def test_the_detail_says_the_exit_code_of_a_process_that_has_ended() -> None:
    assert ended("exited", -9, KILL).detail == "broker 1 exited with code -9"
    assert ended("frozen", None, KILL).detail == "broker 1 frozen"


@pytest.mark.parametrize(
    ("brokers", "detail"), [([1, 2], "delay of brokers 1, 2: api=Fetch"), ([], "delay of the run: api=Fetch")]
)
def test_the_detail_says_what_was_done_to_which_brokers(brokers: list[int], detail: str) -> None:
    (found,) = disturbances([], [replace(KILL, action="delay", brokers=brokers, hit={}, options={"api": "Fetch"})])
    assert (found.detail, found.weakens_since_us) == (detail, 0)


@pytest.mark.parametrize(("seen", "count"), [([], 0), ([0], 1), ([1, 0, 2, 1], 3), ([1, 2], 0), ([0, 2], 0)])
def test_the_partitions_of_transaction_state_are_known_only_if_all_were_seen(seen: list[int], count: int) -> None:
    observations = [
        Observation(at_us=SECOND, kind="partition", topic=TRANSACTION_STATE, partition=number) for number in seen
    ]
    assert coordinator_partitions(observations) == count
