"""The data of the lanes: the leader and the ISR of each partition over time. A lane is the row of one partition.

The module also counts the partitions without a leader, and the partitions with a shrunk ISR. All data is of one topic,
because the topics of all arms have the same replica assignment (see `subject_topic`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from msgspec.structs import replace

from delivery_verifier.model.history import Observation
from delivery_verifier.reporting.leadership import Clock, Leadership, subject_topic
from delivery_verifier.reporting.material import Material

LANES_SHOWN = 16
"""The greatest number of partitions that have a lane."""
SEGMENTS_DRAWN = 200
"""The greatest number of segments (see Segment) that are drawn per lane. If a lane has more, the segments with the
smallest ISR, or without a leader, are drawn."""
COUNTS_DRAWN = 2000
"""The greatest number of PartitionCounts that are drawn."""


@dataclass(frozen=True)
class Segment:
    """A piece of a lane of the chart: a span of time in which a partition had the same leader and the same ISR.

    A segment lasts from one observation of the partition to the next. `start`: the beginning of the segment, in s on
    the clock of the run. `end`: the end of the segment, in s. `observation`: the leader and the ISR in this time.
    """

    partition: int
    start: float
    end: float
    observation: Observation


def segments(material: Material, clock: Clock, end_s: float) -> list[Segment]:
    """Returns the segments of all lanes, lane by lane. They cover the time from 0 s to `end_s` on `clock`. There are at
    most SEGMENTS_DRAWN segments per lane."""
    topic, leadership = subject_topic(material), Leadership(material.observations)
    all_segments = []
    for partition in lanes(material, leadership, topic):
        observed = list(without_the_dead(leadership.observations(topic, partition), material.observations))
        lane = list(_lane(observed, clock, end_s))
        all_segments += _thin(lane, end_s)
    return all_segments


def without_the_dead(observations: Sequence[Observation], everything: Sequence[Observation]) -> Iterable[Observation]:
    """Yields the `observations` of one partition. If the process of a leader ended before the next observation, yields
    one more, without a leader, from that moment on: while all brokers are away, nobody says who leads.

    `everything`: the observations of the run. After the last observation of a partition, nothing is known of its end.
    """
    ends = [each for each in everything if each.kind == "process" and each.state == "exited"]
    for observation, after in zip(observations, [*observations[1:], None], strict=True):
        yield observation
        for end in ends:
            if after and end.broker == observation.leader and observation.at_us < end.at_us < after.at_us:
                yield replace(observation, at_us=end.at_us, leader=-1)
                break


def _lane(observations: Sequence[Observation], clock: Clock, end_s: float) -> Iterable[Segment]:
    """Yields the segments of one partition. An observation holds until the next observation. The last observation holds
    until `end_s`."""
    for observation, after in zip(observations, [*observations[1:], None], strict=True):
        start = max(0.0, clock.seconds(observation.at_us))
        end = end_s if after is None else min(end_s, clock.seconds(after.at_us))
        if end > start:
            yield Segment(observation.partition, start, end, observation)


def _thin(lane: list[Segment], end_s: float) -> list[Segment]:
    """Returns the segments of `lane`, but at most SEGMENTS_DRAWN of them, because a screen cannot show more.

    If there are more, the time until `end_s` is divided into SEGMENTS_DRAWN equal spans. Of the segments that begin in
    one span, one remains: a segment without a leader or, if there is none, the segment with the smallest ISR. Each
    remaining segment lasts until the next remaining segment begins.
    """
    if len(lane) <= SEGMENTS_DRAWN:
        return lane
    cells = groupby(lane, key=lambda segment: int(segment.start / end_s * SEGMENTS_DRAWN))
    worst = [
        min(cell, key=lambda segment: (segment.observation.leader >= 0, len(segment.observation.isr)))
        for _, cell in cells
    ]
    ends = [after.start for after in worst[1:]] + [end_s]
    return [
        Segment(segment.partition, segment.start, end, segment.observation)
        for segment, end in zip(worst, ends, strict=True)
    ]


def lanes(material: Material, leadership: Leadership, topic: str) -> list[int]:
    """Returns the partitions of `topic` that have a lane, in ascending order. There are at most LANES_SHOWN of them.

    If `topic` has more partitions, partitions that a fault hit are preferred. The partitions with the lowest numbers
    fill the remaining lanes.
    """
    hit = {partition for injection in material.injections for partition in injection.hit.get(topic, [])}
    by_interest = sorted(leadership.partitions(topic), key=lambda partition: (partition not in hit, partition))
    return sorted(by_interest[:LANES_SHOWN])


def in_sync(drawn: Iterable[Segment]) -> list[tuple[int, int, float, float]]:
    """Returns when each replica was in sync, as spans (partition, broker, from, until). The replica on `broker` was in
    sync from `from` until `until`, in s.

    `drawn`: the segments, sorted by partition. Adjacent spans are joined.
    """
    spans: list[tuple[int, int, float, float]] = []
    for partition, segments in groupby(drawn, key=lambda segment: segment.partition):
        lane = list(segments)
        for broker in sorted({broker for segment in lane for broker in segment.observation.isr}):
            inside = (segment for segment in lane if broker in segment.observation.isr)
            spans += [(partition, broker, start, end) for start, end in _joined_spans(inside)]
    return spans


def _joined_spans(lane: Iterable[Segment]) -> list[tuple[float, float]]:
    spans: list[tuple[float, float]] = []
    for segment in lane:
        if spans and spans[-1][1] == segment.start:
            spans[-1] = (spans[-1][0], segment.end)
        else:
            spans.append((segment.start, segment.end))
    return spans


@dataclass(frozen=True)
class PartitionCounts:
    """The number of partitions without a leader (`leaderless`), and the number of partitions with a shrunk ISR
    (`shrunk`), from the time `from_s` on.

    `from_s` is in s on the clock of the run. An ISR is shrunk if it has fewer replicas than the greatest ISR that any
    partition of the topic had during the run.
    """

    from_s: float
    leaderless: int
    shrunk: int


def partition_counts(material: Material, clock: Clock) -> list[PartitionCounts]:
    """Returns the PartitionCounts after each observed change of a partition, in order of time.

    If there are more than COUNTS_DRAWN PartitionCounts, neighbours are joined. A joined PartitionCounts has the
    greatest value of each count.
    """
    topic = subject_topic(material)
    observations = [
        observation
        for observation in material.observations
        if observation.kind == "partition" and observation.topic == topic
    ]
    full = max((len(observation.isr) for observation in observations), default=0)
    leaderless: set[int] = set()
    shrunk: set[int] = set()
    counts: list[PartitionCounts] = []
    for observation in observations:
        _set_membership(leaderless, observation.partition, present=observation.leader < 0)
        _set_membership(shrunk, observation.partition, present=len(observation.isr) < full)
        counts.append(PartitionCounts(max(0.0, clock.seconds(observation.at_us)), len(leaderless), len(shrunk)))
    changes = [
        count for count, after in pairwise([*counts, None]) if count and (not after or after.from_s > count.from_s)
    ]
    step = max(1, math.ceil(len(changes) / COUNTS_DRAWN))
    return [_worst(changes[index : index + step]) for index in range(0, len(changes), step)]


def _set_membership(members: set[int], partition: int, *, present: bool) -> None:
    if present:
        members.add(partition)
    else:
        members.discard(partition)


def _worst(counts: Sequence[PartitionCounts]) -> PartitionCounts:
    """Joins consecutive `counts`. The result has the greatest value of each count, and the `from_s` of the first of
    `counts`."""
    return PartitionCounts(
        counts[0].from_s, max(count.leaderless for count in counts), max(count.shrunk for count in counts)
    )
