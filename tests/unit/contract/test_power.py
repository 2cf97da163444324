"""Tests of losses of power: when all in-sync replicas of a partition count as having lost their power. Each test is
about a case in which the contract could permit too much."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from delivery_verifier.contract.disturbances import disturbances
from delivery_verifier.contract.effect_windows import effect_windows
from delivery_verifier.contract.power import isr_power_losses
from delivery_verifier.model import fault_actions
from delivery_verifier.model.act import Act
from delivery_verifier.model.history import Disturbance, Injection, Observation

SECOND = 1_000_000


@pytest.fixture(autouse=True)
def _power_off(monkeypatch: pytest.MonkeyPatch) -> None:
    act = Act(name="test_power_off", summary="", takes_effect=True, momentary=True, counts_as=("power_loss",))
    monkeypatch.setitem(fault_actions.ACTS, act.name, act)


def off(s: float, *brokers: int, **more: Any) -> Injection:
    cut = Injection(
        id=0,
        cycle=0,
        action="test_power_off",
        brokers=list(brokers),
        hit={"t": [0]},
        requested_at_us=int(s * SECOND),
        effect_at_us=int(s * SECOND),
        took_effect=True,
    )
    return replace(cut, **more)


def isr(s: float, *brokers: int, partition: int = 0, topic: str = "t") -> Observation:
    leader = brokers[0] if brokers else -1
    return Observation(
        at_us=int(s * SECOND),
        kind="partition",
        topic=topic,
        partition=partition,
        leader=leader,
        leader_epoch=1,
        isr=list(brokers),
    )


def crash(s: float, broker: int, code: int = -9) -> Observation:
    return Observation(at_us=int(s * SECOND), kind="process", broker=broker, state="exited", exit_code=code)


ALL = isr(1, 1, 2, 3)


def found(seen: list[Observation], *cuts: Injection) -> list[tuple[int, int, bool]]:
    """Returns (partition, replicas, planned) of every disturbance isr_power_loss that the observations and the losses
    of power give."""
    return [
        (it.partitions[0], it.replicas, it.planned) for it in disturbances(seen, cuts) if it.kind == "isr_power_loss"
    ]


def test_all_replicas_at_once_lose_what_they_had_not_flushed() -> None:
    assert found([ALL], off(10, 1, 2, 3)) == [(0, 3, True)]
    assert found([ALL], off(10, 1), off(10.2, 2), off(10.4, 3)) == [(0, 3, True)], "one after the other as well"


def test_while_one_in_sync_replica_keeps_its_power_nothing_is_granted() -> None:
    assert found([ALL], off(10, 1, 2)) == []
    assert found([ALL, isr(12, 3)], off(10, 1, 2)) == []


def test_only_the_partitions_whose_isr_went_are_named() -> None:
    assert found([isr(1, 1, 2), isr(1, 1, 2, 3, partition=1)], off(10, 1, 2)) == [(0, 2, True)]


def test_the_last_replica_standing_counts_for_itself_alone_where_the_others_left_in_order() -> None:
    assert found([ALL, isr(4, 1, 2), isr(6, 1)], off(10, 1)) == [(0, 1, True)]


def test_a_replica_that_crashed_before_is_not_eligible_for_what_the_last_one_loses() -> None:
    assert found([ALL, isr(4, 1, 2), crash(5, 2), isr(6, 1)], off(10, 1)) == [(0, 2, True)]
    assert found([ALL, isr(4, 1, 2), crash(5, 2, code=143), isr(6, 1)], off(10, 1)) == [(0, 1, True)]
    assert found([ALL, crash(3, 2), isr(4, 1, 3), isr(5, 1, 2), isr(6, 1)], off(10, 1)) == [(0, 1, True)], "it was back"


def test_a_broker_that_was_back_in_the_isr_has_copied_everything_again() -> None:
    rolling = [ALL, isr(12, 2, 3), isr(15, 1, 2, 3), isr(22, 1, 3), isr(25, 1, 2, 3)]
    assert found(rolling, off(10, 1), off(20, 2), off(30, 3)) == []


def test_a_broker_was_back_though_the_clock_was_set_back_meanwhile() -> None:
    clean = [ALL, isr(11, 2, 3), isr(16, 1, 2, 3)]
    assert found([*clean, isr(15, 1, 3)], off(10, 1), off(20, 1, 3, recovered_at_us=30 * SECOND)) == [(0, 2, True)]
    since = [ALL, isr(12, 2, 3), isr(9, 1, 2, 3)]  # the last one was seen last, and 1 has copied everything again
    assert found(since, off(10, 1), off(20, 2, 3)) == []


def test_a_broker_that_was_not_back_yet_counts_with_the_others() -> None:
    assert found([ALL, isr(12, 2, 3)], off(10, 1), off(20, 2, 3)) == [(0, 3, True)]


def test_after_recovery_an_old_loss_of_power_is_over() -> None:
    past = off(10, 1, recovered_at_us=15 * SECOND)
    assert found([ALL, isr(20, 1)], past) == []
    assert found([ALL, isr(20, 1)], off(10, 1)) == [(0, 1, True)], "it stood alone in the ISR without having been back"


def test_an_injection_without_proof_makes_it_a_doubt_and_so_does_one_of_several() -> None:
    assert found([ALL], off(10, 1, 2, 3, took_effect=False)) == [(0, 3, False)]
    assert found([ALL], off(10, 1, 2), off(11, 3, took_effect=False)) == [(0, 3, False)]


def test_a_replica_that_joined_just_before_and_was_seen_just_after_saves_the_partition() -> None:
    assert found([ALL, isr(6, 1), isr(10.3, 1, 2)], off(10, 1)) == []


def test_another_kind_of_death_of_all_replicas_is_no_loss_of_power() -> None:
    assert found([ALL, crash(5, 1), crash(5, 2), crash(5, 3)]) == []
    assert found([], off(10, 1, 2, 3)) == [], "a partition that nobody saw"


def test_an_eligible_leader_from_outside_the_isr_is_a_clean_election() -> None:
    seen = [replace(isr(1, 1), elr=[2]), replace(isr(11), elr=[2]), replace(isr(12, 2), leader_epoch=2)]
    kinds = [it.kind for it in disturbances(seen, [])]
    assert "unclean_election" not in kinds
    assert "unclean_election" in [it.kind for it in disturbances([replace(it, elr=[]) for it in seen], [])]


def test_a_loss_that_spares_the_records_prolongs_no_reach_of_one_that_takes_them() -> None:
    all_, last = off(20, 1, 2, 3, healed_at_us=25 * SECOND, recovered_at_us=27 * SECOND), off(90, 1)
    seen = [ALL, isr(26, 1, 2, 3), isr(86, 1)]
    cuts = [all_, replace(last, healed_at_us=95 * SECOND)]
    assert found(seen, *cuts) == [(0, 3, True), (0, 1, True)]
    windows = [
        it for it in effect_windows(disturbances(seen, cuts), seen, cuts) if it.disturbance.kind == "isr_power_loss"
    ]
    assert [(it.disturbance.replicas, it.until_us) for it in windows] == [(3, 25 * SECOND), (1, 95 * SECOND)]
    kept = [ALL, isr(86, 1)]
    assert found(kept, replace(all_, recovered_at_us=None), *cuts[1:])[0] == (0, 3, True), "without a recovery, too"


def test_a_cut_while_all_are_without_power_is_a_loss_of_its_own_and_waits_for_the_power_of_both() -> None:
    cuts = [off(20, 1, 2, 3, healed_at_us=40 * SECOND), off(30, 1, healed_at_us=35 * SECOND)]
    windows = [
        it for it in effect_windows(disturbances([ALL], cuts), [ALL], cuts) if it.disturbance.kind == "isr_power_loss"
    ]
    assert [(it.disturbance.at_us, it.until_us) for it in windows] == [(at * SECOND, 40 * SECOND) for at in (20, 30)]


# ---- At the edges: the last moment at which a broker that kept its power contradicts a loss.


CUT_US = 10 * SECOND


def isr_at_us(at_us: int, *brokers: int) -> Observation:
    return Observation(
        at_us=at_us, kind="partition", topic="t", partition=0, leader=brokers[0], leader_epoch=1, isr=list(brokers)
    )


def losses(observed: list[Observation], *brokers: int) -> list[Disturbance]:
    """The losses of power if `brokers` lose theirs at CUT_US."""
    cut = Injection(
        id=0,
        cycle=0,
        action="power_off",
        brokers=list(brokers),
        hit={"t": [0]},
        requested_at_us=CUT_US,
        effect_at_us=CUT_US,
        took_effect=True,
    )
    return list(isr_power_losses(observed, [cut]))


@pytest.mark.parametrize(("later_us", "count"), [(1, 0), (SECOND, 0), (SECOND + 1, 1)])
@pytest.mark.parametrize("later", [(1, 2, 3), (3,)])
def test_a_broker_that_kept_its_power_contradicts_for_a_second(
    later: tuple[int, ...], later_us: int, count: int
) -> None:
    assert len(losses([isr_at_us(SECOND, 1, 2), isr_at_us(CUT_US + later_us, *later)], 1, 2)) == count


def test_what_was_seen_in_the_same_microsecond_but_before_contradicts_nothing() -> None:
    (loss,) = losses([isr_at_us(CUT_US, 1, 2, 3), isr_at_us(CUT_US, 1, 2)], 1, 2)
    assert (loss.at_us, loss.brokers) == (CUT_US, [1, 2])


def test_a_loss_names_the_last_isr_and_its_own_moment() -> None:
    (loss,) = losses(
        [isr_at_us(SECOND, 1, 2, 3), isr_at_us(2 * SECOND, 2, 1), isr_at_us(CUT_US + SECOND // 2, 1)], 1, 2
    )
    assert (loss.at_us, loss.brokers, loss.partitions, loss.planned) == (CUT_US, [1, 2], [0], True)
    assert loss.detail == "t/0: all of the ISR [1, 2] lost power"


def test_a_broker_that_joins_in_the_microsecond_after_its_crash_did_not_crash_since() -> None:
    crash = Observation(at_us=3 * SECOND, kind="process", broker=2, state="exited", exit_code=-9)
    before = [isr_at_us(SECOND, 1, 2), isr_at_us(2 * SECOND, 1)]
    joined, alone = isr_at_us(3 * SECOND, 1, 2), isr_at_us(4 * SECOND, 1)
    assert [loss.replicas for loss in losses([*before, crash, joined, alone], 1)] == [1]
    assert [loss.replicas for loss in losses([*before, joined, crash, alone], 1)] == [2]
