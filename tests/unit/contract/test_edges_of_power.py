"""Tests of losses of power at their edges: the last moment at which a broker that kept its power contradicts one."""

from __future__ import annotations

import pytest

from delivery_verifier.contract.power import isr_power_losses
from delivery_verifier.model.history import Disturbance, Injection, Observation

SECOND = 1_000_000
CUT_US = 10 * SECOND


def isr(at_us: int, *brokers: int) -> Observation:
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
        bite_at_us=CUT_US,
        bit=True,
    )
    return list(isr_power_losses(observed, [cut]))


@pytest.mark.parametrize(("later_us", "count"), [(1, 0), (SECOND, 0), (SECOND + 1, 1)])
@pytest.mark.parametrize("later", [(1, 2, 3), (3,)])
def test_a_broker_that_kept_its_power_contradicts_for_a_second(
    later: tuple[int, ...], later_us: int, count: int
) -> None:
    assert len(losses([isr(SECOND, 1, 2), isr(CUT_US + later_us, *later)], 1, 2)) == count


def test_what_was_seen_in_the_same_microsecond_but_before_contradicts_nothing() -> None:
    (loss,) = losses([isr(CUT_US, 1, 2, 3), isr(CUT_US, 1, 2)], 1, 2)
    assert (loss.at_us, loss.brokers) == (CUT_US, [1, 2])


def test_a_loss_names_the_last_isr_and_its_own_moment() -> None:
    (loss,) = losses([isr(SECOND, 1, 2, 3), isr(2 * SECOND, 2, 1), isr(CUT_US + SECOND // 2, 1)], 1, 2)
    assert (loss.at_us, loss.brokers, loss.partitions, loss.planned) == (CUT_US, [1, 2], [0], True)
    assert loss.detail == "t/0: all of the ISR [1, 2] lost power"


def test_a_broker_that_joins_in_the_microsecond_after_its_crash_did_not_crash_since() -> None:
    crash = Observation(at_us=3 * SECOND, kind="process", broker=2, state="exited", exit_code=-9)
    before = [isr(SECOND, 1, 2), isr(2 * SECOND, 1)]
    joined, alone = isr(3 * SECOND, 1, 2), isr(4 * SECOND, 1)
    assert [loss.replicas for loss in losses([*before, crash, joined, alone], 1)] == [1]
    assert [loss.replicas for loss in losses([*before, joined, crash, alone], 1)] == [2]
