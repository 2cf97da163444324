"""The lanes: who led each partition and who was in sync over time, and how many partitions lacked either."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from delivery_verifier.model.history import Observation
from delivery_verifier.pages.leadership import Clock, Leadership, subject_topic
from delivery_verifier.pages.material import Material

LANES_SHOWN = 16
STRETCHES_DRAWN = 200
"""Stretches per lane at most; a lane with more keeps the worst of each of so many equal cells of time."""
COUNTS_DRAWN = 2000


@dataclass(frozen=True)
class Segment:
    """A stretch of time in s in which one partition's leader and ISR stayed the same."""

    partition: int
    start: float
    end: float
    seen: Observation


def segments(material: Material, clock: Clock, end_s: float) -> list[Segment]:
    """Segments of the drawn partitions in [0, end_s]: the hit ones first, at most LANES_SHOWN lanes."""
    topic, leadership = subject_topic(material), Leadership(material.observations)
    found = []
    for partition in lanes(material, leadership, topic):
        mine = list(_lane(leadership.of(topic, partition), clock, end_s))
        found += _thinned(mine, end_s)
    return found


def _lane(seen: Sequence[Observation], clock: Clock, end_s: float) -> Iterable[Segment]:
    for now, after in zip(seen, [*seen[1:], None], strict=True):
        start = max(0.0, clock.seconds(now.at_us))
        end = end_s if after is None else min(end_s, clock.seconds(after.at_us))
        if end > start:
            yield Segment(now.partition, start, end, now)


def _thinned(mine: list[Segment], end_s: float) -> list[Segment]:
    """So few that they can be told apart on a screen, and no time without a leader is lost."""
    if len(mine) <= STRETCHES_DRAWN:
        return mine
    cells = groupby(mine, key=lambda one: int(one.start / end_s * STRETCHES_DRAWN))
    worst = [min(cell, key=lambda one: (one.seen.leader >= 0, len(one.seen.isr))) for _, cell in cells]
    ends = [after.start for after in worst[1:]] + [end_s]
    return [Segment(one.partition, one.start, end, one.seen) for one, end in zip(worst, ends, strict=True)]


def lanes(material: Material, leadership: Leadership, topic: str) -> list[int]:
    """The partitions that get a lane, in order of their numbers."""
    hit = {partition for one in material.injections for partition in one.hit.get(topic, [])}
    by_interest = sorted(leadership.partitions(topic), key=lambda partition: (partition not in hit, partition))
    return sorted(by_interest[:LANES_SHOWN])


def in_sync(drawn: Iterable[Segment]) -> list[tuple[int, int, float, float]]:
    """When each replica was in sync, as (partition, broker, from, until) in s; stretches that meet are one."""
    found: list[tuple[int, int, float, float]] = []
    for partition, mine in groupby(drawn, key=lambda one: one.partition):
        lane = list(mine)
        for broker in sorted({broker for one in lane for broker in one.seen.isr}):
            inside = (one for one in lane if broker in one.seen.isr)
            found += [(partition, broker, start, end) for start, end in _joined(inside)]
    return found


def _joined(lane: Iterable[Segment]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for one in lane:
        if found and found[-1][1] == one.start:
            found[-1] = (found[-1][0], one.end)
        else:
            found.append((one.start, one.end))
    return found


@dataclass(frozen=True)
class Lacking:
    """From `at` s on: how many partitions of the subject had no leader, and how many a smaller ISR than before."""

    at: float
    leaderless: int
    shrunk: int


def lacking(material: Material, clock: Clock) -> list[Lacking]:
    """Every change of those counts over all partitions, joined where there are more than COUNTS_DRAWN."""
    topic = subject_topic(material)
    seen = sorted(
        (one for one in material.observations if one.kind == "partition" and one.topic == topic),
        key=lambda one: one.at_us,
    )
    full = max((len(one.isr) for one in seen), default=0)
    leaderless: set[int] = set()
    shrunk: set[int] = set()
    found: list[Lacking] = []
    for one in seen:
        (leaderless.add if one.leader < 0 else leaderless.discard)(one.partition)
        (shrunk.add if len(one.isr) < full else shrunk.discard)(one.partition)
        found.append(Lacking(max(0.0, clock.seconds(one.at_us)), len(leaderless), len(shrunk)))
    last_at_once = [now for now, after in pairwise([*found, None]) if now and (not after or after.at > now.at)]
    step = -(-len(last_at_once) // COUNTS_DRAWN) or 1
    return [_worst(last_at_once[at : at + step]) for at in range(0, len(last_at_once), step)]


def _worst(some: Sequence[Lacking]) -> Lacking:
    return Lacking(some[0].at, max(one.leaderless for one in some), max(one.shrunk for one in some))
