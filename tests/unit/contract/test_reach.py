"""Tests of the reach of a disturbance: it is what a plain scan of all later observations finds, at a linear effort."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, SupportsIndex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delivery_verifier.contract.disturbances import disturbances
from delivery_verifier.contract.observer import OBSERVER_LAG_US
from delivery_verifier.contract.reach import reaches
from delivery_verifier.model.history import LEAD_US, Injection, Observation

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
    """The definition: scans everything that was seen after the change at `number` (see `reach._end`)."""
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


def plain_reaches(seen: list[Observation]) -> dict[tuple[int, int], int | None]:
    """Maps each change, as (partition, at_us), to the end of its reach."""
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
    ends = plain_reaches(seen)
    for reach in reaches(disturbances(seen, []), seen, []):
        if reach.disturbance.kind == "leader_change":
            assert reach.until_us == ends[reach.disturbance.partitions[0], reach.disturbance.at_us]


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
    assert len(reaches(found, seen, [])) == cycles - 1
    return Counted.reads


def test_ten_times_the_observations_are_ten_times_the_work() -> None:
    assert reads_of(200) < 11 * reads_of(20)


def kill(bite_at_us: int, recovered_at_us: int | None, bit: bool = True) -> Injection:
    return Injection(
        id=1, cycle=0, action="kill", brokers=[1], hit={}, requested_at_us=0, bite_at_us=bite_at_us,
        recovered_at_us=recovered_at_us, bit=bit,
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
        ([kill(90 * LEAD_US, None, bit=False)], None),
        ([over, late, open_], 89 * LEAD_US),
        ([kill(102 * LEAD_US, None)], None),
    ):
        (reach,) = reaches(disturbances([first, change], injections), [first, change], injections)
        assert reach.since_us == since_us
