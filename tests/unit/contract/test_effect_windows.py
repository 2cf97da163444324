"""Tests of the effect window of a disturbance: it is what a plain scan of all later observations finds, at a linear
effort."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, SupportsIndex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from delivery_verifier.contract.disturbances import disturbances
from delivery_verifier.contract.effect_windows import EffectWindow, effect_windows
from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.contract.power import power_back
from delivery_verifier.model.history import LEAD_US, Disturbance, Injection, Observation

BROKERS = [1, 2, 3]
PARTITION = st.builds(
    lambda at, leader, epoch, isr: Observation(
        at_us=0, kind="partition", topic="t", partition=at, leader=leader, leader_epoch=epoch, isr=sorted(isr)
    ),
    st.integers(0, 1),
    st.sampled_from([-1, *BROKERS]),
    st.integers(0, 2),
    st.sets(st.sampled_from(BROKERS), min_size=1),
)
PROCESS = st.builds(
    lambda broker, state: Observation(at_us=0, kind="process", broker=broker, state=state),
    st.sampled_from(BROKERS),
    st.sampled_from(["running", "frozen", "exited"]),
)
DEPOSED = st.builds(
    lambda broker, at, late: Observation(
        at_us=0, kind="deposed", topic="t", partition=at, broker=broker, leader_epoch=late
    ),
    st.sampled_from(BROKERS),
    st.integers(0, 1),
    st.integers(0, 2),
)


def in_order(seen: Iterable[Observation]) -> list[Observation]:
    """Gives the observations times and, by the steps that they name, leader epochs that never decrease.

    An answer of a former leader may be about an epoch that is over.
    """
    epochs: dict[int, int] = {}
    asked: dict[tuple[int, int], int] = {}
    ordered = []
    for number, now in enumerate(seen):
        fields = {name: getattr(now, name) for name in now.__struct_fields__} | {"at_us": 10 * number}
        if now.kind == "partition":
            epochs[now.partition] = epochs.get(now.partition, 0) + now.leader_epoch
            fields["leader_epoch"] = epochs[now.partition]
        elif now.kind == "deposed":
            who = now.partition, now.broker
            asked[who] = max(asked.get(who, 0), epochs.get(now.partition, 0) - now.leader_epoch)
            fields["leader_epoch"] = asked[who]
        ordered.append(Observation(**fields))
    return ordered


def plain_end(broker: int, number: int, seen: list[Observation]) -> int | None:
    """The definition: scans everything that was seen after the change at `number` (see `window._end`)."""
    change, back_us = seen[number], None
    states = [now.state for now in seen[:number] if now.kind == "process" and now.broker == broker]
    if states and states[-1] == "exited":
        return change.at_us
    out = change.leader >= 0 and broker not in change.isr
    for now in seen[number + 1 :]:
        if now.kind == "process" and now.broker == broker and now.state == "exited":
            return now.at_us if back_us is None else back_us
        is_answer = (now.kind, now.partition, now.broker) == ("deposed", change.partition, broker)
        if is_answer and now.leader_epoch >= change.leader_epoch:
            return now.at_us if back_us is None else back_us
        if (now.kind, now.partition) != ("partition", change.partition) or now.leader < 0:
            continue
        if now.leader == broker:
            return now.at_us if back_us is None else back_us
        if broker not in now.isr:
            out, back_us = True, None
        elif out:
            out, back_us = False, now.at_us
    return back_us


def plain_effect_windows(seen: list[Observation]) -> dict[tuple[int, int], int | None]:
    """Maps each change, as (partition, at_us), to the end of its effect window."""
    before: dict[int, tuple[int, int]] = {}
    replicas: dict[int, set[int]] = {}
    for now in seen:
        if now.kind == "partition":
            replicas.setdefault(now.partition, set()).update(broker for broker in (now.leader, *now.isr) if broker > 0)
    processes = {now.broker for now in seen if now.kind == "process"}
    ends = {}
    for number, now in enumerate(seen):
        if now.kind != "partition":
            continue
        leader, epoch = before.get(now.partition, (now.leader, now.leader_epoch))
        if now.partition in before and (now.leader, now.leader_epoch) != (leader, epoch):
            deposed = {leader} if now.leader_epoch <= epoch + 1 else replicas[now.partition] | processes
            found = [plain_end(broker, number, seen) for broker in deposed - {now.leader}]
            ends[now.partition, now.at_us] = max([now.at_us, *(it or 0 for it in found)]) if None not in found else None
        if now.leader >= 0 or now.partition in before:
            before[now.partition] = (now.leader if now.leader >= 0 else leader), now.leader_epoch
    return ends


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(st.lists(st.one_of(PARTITION, PARTITION, PROCESS, DEPOSED), max_size=25).map(in_order))
def test_the_reach_ends_where_a_plain_scan_says(seen: list[Observation]) -> None:
    ends = plain_effect_windows(seen)
    for window in effect_windows(disturbances(seen, []), seen, []):
        if window.disturbance.kind == "leader_change":
            assert window.until_us == ends[window.disturbance.partitions[0], window.disturbance.at_us]


class Counted(list[Observation]):
    """A list that counts how often one of its items is read."""

    reads = 0

    def __iter__(self) -> Iterator[Observation]:
        for item in super().__iter__():
            Counted.reads += 1
            yield item

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        item = super().__getitem__(index)
        Counted.reads += len(item) if isinstance(index, slice) else 1
        return item


def reads_of(cycles: int) -> int:
    """How many observations are read for `cycles` changes of a leader, each followed by 50 heartbeats."""
    seen = Counted()
    for cycle in range(cycles):
        leader, epoch = 1 + cycle % 2, 2 * cycle  # each epoch between two of them is skipped: any broker led it
        now: dict[str, Any] = {"leader": leader, "leader_epoch": epoch, "isr": [1, 2, 3]}
        seen.append(Observation(at_us=len(seen), kind="partition", topic="t", partition=0, **now))
        seen += [Observation(at_us=len(seen), kind="heartbeat") for _ in range(50)]
    found = disturbances(list(seen), [])
    Counted.reads = 0
    assert len(effect_windows(found, seen, [])) == cycles - 1
    return Counted.reads


def test_ten_times_the_observations_are_ten_times_the_work() -> None:
    assert reads_of(200) < 11 * reads_of(20)


def kill(effect_at_us: int, recovered_at_us: int | None, took_effect: bool = True) -> Injection:
    return Injection(
        id=1, cycle=0, action="kill", brokers=[1], hit={}, requested_at_us=0, effect_at_us=effect_at_us,
        recovered_at_us=recovered_at_us, took_effect=took_effect,
    )  # fmt: skip


def test_the_reach_of_a_change_begins_with_the_first_injection_in_whose_time_the_change_was_seen() -> None:
    first, change = (
        Observation(at_us=at, kind="partition", topic="t", partition=0, leader=of, leader_epoch=of, isr=[1, 2])
        for at, of in ((1, 1), (100 * LEAD_US, 2))
    )
    over = kill(10 * LEAD_US, 100 * LEAD_US - OBSERVER_LAG_US - 1)
    open_, late = kill(90 * LEAD_US, None), kill(95 * LEAD_US, None)
    for injections, since_us in (
        ([], None),
        ([over], None),
        ([kill(90 * LEAD_US, None, took_effect=False)], None),
        ([over, late, open_], 89 * LEAD_US),
        ([kill(102 * LEAD_US, None)], None),
    ):
        (window,) = effect_windows(disturbances([first, change], injections), [first, change], injections)
        assert window.since_us == since_us


# ---- At the edges: a broker with the id 0, partitions without a leader, and causes without an end.


SECOND = 1_000_000
CAUSE = Injection(
    id=1, cycle=0, action="kill", brokers=[1], hit={}, requested_at_us=0, effect_at_us=5 * SECOND, took_effect=True
)  # fmt: skip


def seen(s: int, leader: int, epoch: int, isr: list[int], partition: int = 0) -> Observation:
    return Observation(
        at_us=s * SECOND, kind="partition", topic="t", partition=partition, leader=leader, leader_epoch=epoch, isr=isr
    )


def ended(s: int, broker: int) -> Observation:
    return Observation(at_us=s * SECOND, kind="process", broker=broker, state="exited", exit_code=-9)


def ends(*observations: Observation) -> list[int | None]:
    """Returns the ends of the effect windows of all changes of leaders, in seconds."""
    found = effect_windows(disturbances(observations, []), observations, [])
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
    assert [window.until_us for window in effect_windows([change], both, [])] == [None]
    assert [window.until_us for window in effect_windows([replace(change, partitions=[1])], both, [])] == [3 * SECOND]


@pytest.mark.parametrize(
    ("recovered_s", "until_s"), [((), None), ((9,), 9), ((9, 8), 9), ((9, None), None), ((None,), None)]
)
def test_a_late_end_is_over_once_the_cluster_has_recovered_from_all_its_causes(
    recovered_s: tuple[int | None, ...], until_s: int | None
) -> None:
    hold = replace(CAUSE, action="hold", options={"api": "EndTxn", "direction": "request"})
    causes = [replace(hold, recovered_at_us=s and s * SECOND) for s in recovered_s]
    late = Disturbance(kind="late_end", at_us=CAUSE.effect_at_us, planned=True)
    (window,) = effect_windows([late], [], causes)
    assert (window.since_us, window.until_us) == (late.at_us - LEAD_US, until_s and until_s * SECOND)


@pytest.mark.parametrize(
    ("topic", "partitions", "touched"), [("t", [0], False), ("t", [1], True), ("t", [], True), ("", [0], True)]
)
def test_a_disturbance_without_a_topic_or_partitions_touches_every_partition(
    topic: str, partitions: list[int], touched: bool
) -> None:
    kind = Disturbance(kind="isr_shrink", at_us=0, planned=True, topic=topic, partitions=partitions)
    assert EffectWindow(kind, None, None, 0).touches(1) == touched


def test_power_that_one_of_two_cuts_never_gave_back_is_not_back() -> None:
    off = replace(CAUSE, action="power_off", healed_at_us=7 * SECOND)
    seen_before = [seen(1, 1, 0, [1])]
    assert power_back(seen_before, [off, off]) == {("t", 0, off.effect_at_us, 1): 7 * SECOND}
    assert power_back(seen_before, [off, replace(off, id=2, healed_at_us=None)]) == {
        ("t", 0, off.effect_at_us, 1): None
    }


@pytest.mark.parametrize(("healed_s", "until_s"), [(8, 8), (None, None)])
def test_members_of_an_application_are_back_when_their_own_injection_ordered_it(
    healed_s: int | None, until_s: int | None
) -> None:
    own = replace(CAUSE, action="kill-application", hit={"t": [0]}, healed_at_us=healed_s and healed_s * SECOND)
    others = [
        replace(own, id=2, hit={"u": [0]}, healed_at_us=20 * SECOND),
        replace(own, id=3, effect_at_us=CAUSE.effect_at_us + 1, healed_at_us=30 * SECOND),
    ]
    crash = Disturbance(kind="application_crash", at_us=CAUSE.effect_at_us, planned=True, topic="t")
    (window,) = effect_windows([crash], [], [own, *others])
    assert (window.since_us, window.until_us) == (None, until_s and until_s * SECOND)
