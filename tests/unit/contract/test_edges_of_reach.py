"""Tests of reaches at the edges: a broker with the id 0, partitions without a leader, and causes without an end."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from delivery_verifier.contract.disturbances import disturbances
from delivery_verifier.contract.power import power_back
from delivery_verifier.contract.reach import Reach, reaches
from delivery_verifier.model.history import LEAD_US, Disturbance, Injection, Observation

SECOND = 1_000_000
CAUSE = Injection(
    id=1, cycle=0, action="kill", brokers=[1], hit={}, requested_at_us=0, bite_at_us=5 * SECOND, bit=True
)  # fmt: skip


def seen(s: int, leader: int, epoch: int, isr: list[int], partition: int = 0) -> Observation:
    return Observation(
        at_us=s * SECOND, kind="partition", topic="t", partition=partition, leader=leader, leader_epoch=epoch, isr=isr
    )


def ended(s: int, broker: int) -> Observation:
    return Observation(at_us=s * SECOND, kind="process", broker=broker, state="exited", exit_code=-9)


def ends(*observations: Observation) -> list[int | None]:
    """Returns the ends of the reaches of all changes of leaders, in seconds."""
    found = reaches(disturbances(observations, []), observations, [])
    changes = (each for each in found if each.disturbance.kind == "leader_change")
    return [each.until_us and each.until_us // SECOND for each in changes]


def test_broker_0_is_deposed_and_succeeds_like_any_other() -> None:
    assert ends(seen(1, 0, 0, [0, 1]), ended(2, 0), seen(3, 1, 1, [1])) == [3]
    assert ends(seen(1, 1, 0, [1, 0]), seen(3, 0, 1, [0]), seen(4, 0, 1, [0, 1])) == [4], "broker 1 follows broker 0"
    twice = ends(seen(1, 1, 0, [0, 1, 2]), seen(2, 0, 1, [0, 1, 2]), ended(3, 0), seen(4, 2, 2, [1, 2]))
    assert twice == [None, 4], "broker 2 deposes broker 0, not broker 1"


def test_an_epoch_without_a_leader_is_not_skipped() -> None:
    unled = seen(1, 0, 0, [0, 2]), ended(2, 0), seen(3, -1, 1, [0, 2]), seen(4, 1, 2, [1, 2])
    assert ends(*unled) == [3, 4], "no other broker can have led"


def test_a_leaderless_partition_that_is_just_created_deposes_nobody() -> None:
    assert ends(seen(1, -1, 0, []), seen(2, 0, 3, [0, 1]), ended(3, 0), seen(4, 1, 4, [1])) == [4]


def test_a_broker_that_reports_an_old_epoch_late_does_not_lead_again() -> None:
    assert ends(seen(1, 1, 1, [1, 2]), seen(2, 2, 3, [1, 2]), seen(3, 1, 2, [1, 2]))[0] is None


@pytest.mark.parametrize("partitions", [[], [0, 1], [1, 0]])
def test_a_change_of_no_one_partition_has_no_known_end(partitions: list[int]) -> None:
    both = [seen(1, 1, 0, [1, 2], number) for number in (0, 1)]
    both += [ended(2, 1), *(seen(3, 2, 1, [2], number) for number in (0, 1))]
    change = Disturbance(kind="leader_change", at_us=3 * SECOND, planned=False, topic="t", partitions=partitions)
    assert [reach.until_us for reach in reaches([change], both, [])] == [None]
    assert [reach.until_us for reach in reaches([replace(change, partitions=[1])], both, [])] == [3 * SECOND]


@pytest.mark.parametrize(
    ("recovered_s", "until_s"), [((), None), ((9,), 9), ((9, 8), 9), ((9, None), None), ((None,), None)]
)
def test_a_late_end_is_over_once_the_cluster_has_recovered_from_all_its_causes(
    recovered_s: tuple[int | None, ...], until_s: int | None
) -> None:
    hold = replace(CAUSE, action="hold", options={"api": "EndTxn", "direction": "request"})
    causes = [replace(hold, recovered_at_us=s and s * SECOND) for s in recovered_s]
    late = Disturbance(kind="late_end", at_us=CAUSE.bite_at_us, planned=True)
    (reach,) = reaches([late], [], causes)
    assert (reach.since_us, reach.until_us) == (late.at_us - LEAD_US, until_s and until_s * SECOND)


@pytest.mark.parametrize(
    ("topic", "partitions", "touched"), [("t", [0], False), ("t", [1], True), ("t", [], True), ("", [0], True)]
)
def test_a_disturbance_without_a_topic_or_partitions_touches_every_partition(
    topic: str, partitions: list[int], touched: bool
) -> None:
    kind = Disturbance(kind="isr_shrink", at_us=0, planned=True, topic=topic, partitions=partitions)
    assert Reach(kind, None, None, 0).touches(1) == touched


def test_power_that_one_of_two_cuts_never_gave_back_is_not_back() -> None:
    off = replace(CAUSE, action="power_off", healed_at_us=7 * SECOND)
    seen_before = [seen(1, 1, 0, [1])]
    assert power_back(seen_before, [off, off]) == {("t", 0, off.bite_at_us, 1): 7 * SECOND}
    assert power_back(seen_before, [off, replace(off, id=2, healed_at_us=None)]) == {("t", 0, off.bite_at_us, 1): None}


@pytest.mark.parametrize(("healed_s", "until_s"), [(8, 8), (None, None)])
def test_members_of_an_application_are_back_when_their_own_injection_ordered_it(
    healed_s: int | None, until_s: int | None
) -> None:
    own = replace(CAUSE, action="kill-application", hit={"t": [0]}, healed_at_us=healed_s and healed_s * SECOND)
    others = [
        replace(own, id=2, hit={"u": [0]}, healed_at_us=20 * SECOND),
        replace(own, id=3, bite_at_us=CAUSE.bite_at_us + 1, healed_at_us=30 * SECOND),
    ]
    crash = Disturbance(kind="application_crash", at_us=CAUSE.bite_at_us, planned=True, topic="t")
    (reach,) = reaches([crash], [], [own, *others])
    assert (reach.since_us, reach.until_us) == (None, until_s and until_s * SECOND)
