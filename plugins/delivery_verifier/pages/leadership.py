"""The history: who led which partition when, under which injection, in seconds of the load."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from delivery_verifier.model.history import Injection, Observation
from delivery_verifier.pages.material import Material

EXPOSED_BEFORE_US = 1_000_000
"""An injection's window opens this long before the bite (injection.Injection)."""


@dataclass(frozen=True)
class Clock:
    """Tells times in seconds since the load's start; `of_load` False: since the first thing that is known."""

    start_us: int
    of_load: bool

    def seconds(self, at_us: int) -> float:
        """`at_us` (µs since the epoch) as seconds since the load's start."""
        return (at_us - self.start_us) / 1e6

    def tell(self, at_us: int | None) -> str:
        """`at_us` as e.g. `+3.142 s`; an en dash for none."""
        return "–" if at_us is None else f"{self.seconds(at_us):+,.3f} s"


class Leadership:
    """Leader and ISR per topic and partition over time, from the observations."""

    def __init__(self, observations: Iterable[Observation]) -> None:
        self._seen: dict[tuple[str, int], list[Observation]] = defaultdict(list)
        for seen in sorted(observations, key=lambda one: one.at_us):
            if seen.kind == "partition":
                self._seen[seen.topic, seen.partition].append(seen)

    def of(self, topic: str, partition: int) -> list[Observation]:
        """All observations of one partition, oldest first."""
        return self._seen.get((topic, partition), [])

    def partitions(self, topic: str) -> list[int]:
        """The partitions of `topic` that were observed."""
        return sorted(partition for name, partition in self._seen if name == topic)

    def at(self, topic: str, partition: int, at_us: int | None) -> Observation | None:
        """What was last seen of a partition at `at_us`, or None if it had not been seen yet."""
        seen = self.of(topic, partition)
        place = 0 if at_us is None else bisect_right([one.at_us for one in seen], at_us)
        return seen[place - 1] if place else None

    def changes(self, topic: str) -> list[Observation]:
        """Observations at which a partition of `topic` had another leader than before, oldest first."""
        found = []
        for partition in self.partitions(topic):
            seen = self.of(topic, partition)
            found += [now for before, now in pairwise(seen) if now.leader != before.leader]
        return sorted(found, key=lambda one: one.at_us)


def clock(material: Material) -> Clock:
    """The clock of the run: zero is the first interval of the load, else the first thing that is known."""
    load = _times(material, "timeline/load", "at_us")
    if load:
        return Clock(min(load), True)
    known = [one.at_us for one in material.observations] + [one.requested_at_us for one in material.injections]
    return Clock(min([*known, *_times(material, "anomalies", "sent_at")], default=0), False)


def _times(material: Material, table: str, column: str) -> list[int]:
    found = material.tables.get(table)
    return [] if found is None else [at for at in found.column(column).to_pylist() if at is not None]


def subject_topic(material: Material) -> str:
    """The topic whose partitions are drawn: the first subject's (all arms share the replica assignment)."""
    if material.scenario is not None and material.scenario.subjects:
        return material.scenario.subjects[0].topic_name
    return next((one.topic for one in material.observations if one.topic), "")


def topic_of(material: Material, arm: str) -> str:
    """The topic of an arm; empty if it is not known."""
    if material.scenario is None or arm not in material.scenario.arm_names:
        return ""
    return material.scenario.arm(arm).topic_name


def name_of(injection: Injection) -> str:
    """An injection in short, e.g. `#1 kill broker 2`."""
    brokers = ", ".join(str(broker) for broker in injection.brokers)
    return f"#{injection.id} {injection.action}" + (f" broker {brokers}" if brokers else "")


def during(injections: Iterable[Injection], from_us: int | None, to_us: int | None) -> Injection | None:
    """The first injection whose window overlaps [from_us, to_us]; an open end means that it never settled."""
    if from_us is None:
        return None
    for one in injections:
        before_end = one.recovered_at_us is None or from_us <= one.recovered_at_us
        if before_end and (to_us is None or to_us >= one.bite_at_us - EXPOSED_BEFORE_US):
            return one
    return None
