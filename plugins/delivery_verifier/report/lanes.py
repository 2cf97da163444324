"""The lanes: who led each partition and who was in sync over time, and the events told in words."""

from __future__ import annotations

from dataclasses import dataclass

from delivery_verifier.injection import Observation
from delivery_verifier.report.history import Clock, Leadership, name_of, subject_topic
from delivery_verifier.report.material import Material

LANES_SHOWN = 16
EVENTS_TOLD = 60


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
        seen = leadership.of(topic, partition)
        for now, after in zip(seen, [*seen[1:], None], strict=True):
            start = max(0.0, clock.seconds(now.at_us))
            end = end_s if after is None else min(end_s, clock.seconds(after.at_us))
            if end > start:
                found.append(Segment(partition, start, end, now))
    return found


def lanes(material: Material, leadership: Leadership, topic: str) -> list[int]:
    """The partitions that get a lane, in order of their numbers."""
    hit = {partition for one in material.injections for partition in one.hit.get(topic, [])}
    by_interest = sorted(
        leadership.partitions(topic), key=lambda partition: (partition not in hit, partition)
    )
    return sorted(by_interest[:LANES_SHOWN])


@dataclass(frozen=True)
class Event:
    """One line of the timeline told in words."""

    at_us: int
    at: str
    what: str
    fault: bool


def events(material: Material, clock: Clock) -> list[Event]:
    """What happened, oldest first, at most EVENTS_TOLD lines."""
    told: list[tuple[int, str, bool]] = []
    for one in material.injections:
        told.append(
            (one.bite_at_us, f"{name_of(one)}: bites" + ("" if one.bit else " (no proof that it did)"), True)
        )
        if one.healed_at_us is not None:
            told.append((one.healed_at_us, f"{name_of(one)}: healed", True))
        if one.recovered_at_us is not None:
            told.append((one.recovered_at_us, f"{name_of(one)}: recovered, all replicas in sync", True))
    for seen in Leadership(material.observations).changes(subject_topic(material)):
        who = "nobody" if seen.leader < 0 else f"broker {seen.leader}"
        told.append(
            (seen.at_us, f"partition {seen.partition} is now led by {who} (epoch {seen.leader_epoch})", False)
        )
    for seen in material.observations:
        if seen.kind == "process":
            code = "" if seen.exit_code is None else f" (exit code {seen.exit_code})"
            told.append((seen.at_us, f"broker {seen.broker} is {seen.state}{code}", False))
    return [Event(at, clock.tell(at), what, fault) for at, what, fault in sorted(told)[:EVENTS_TOLD]]
