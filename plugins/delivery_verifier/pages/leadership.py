"""Leadership: which broker led which partition at which time.

The module also holds the clock of a run, from which all pages take the seconds of an event, and the functions with
which pages find and name injections.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from delivery_verifier.model.history import LEAD_US, Injection, Observation
from delivery_verifier.pages.material import Material


@dataclass(frozen=True)
class Clock:
    """A clock that shows times in seconds since `start_us` (µs since the epoch).

    `from_load_start`: whether `start_us` is the start of the load. If not, `start_us` is the first time that is known.
    """

    start_us: int
    from_load_start: bool

    def seconds(self, at_us: int) -> float:
        """The seconds from `start_us` to `at_us` (µs since the epoch)."""
        return (at_us - self.start_us) / 1e6

    def text(self, at_us: int | None) -> str:
        """`at_us` (µs since the epoch) as text, for example `+3.142 s`. An en dash for None."""
        return "–" if at_us is None else f"{self.seconds(at_us):+,.3f} s"


class Leadership:
    """The leader and the ISR of each partition over time.

    The source is the observations: changes that the observer of the cluster saw, in the order in which it saw them.
    """

    def __init__(self, observations: Iterable[Observation]) -> None:
        self._by_partition: dict[tuple[str, int], list[Observation]] = defaultdict(list)
        for observation in observations:
            if observation.kind == "partition":
                self._by_partition[observation.topic, observation.partition].append(observation)

    def observations(self, topic: str, partition: int) -> list[Observation]:
        """All observations of one partition, oldest first. Empty if the partition was never observed."""
        return self._by_partition.get((topic, partition), [])

    def partitions(self, topic: str) -> list[int]:
        """The numbers of the observed partitions of `topic`, in ascending order."""
        return sorted(partition for name, partition in self._by_partition if name == topic)

    def last_observation(self, topic: str, partition: int, at_us: int | None) -> Observation | None:
        """The last observation of a partition at or before `at_us` (µs since the epoch).

        None if there is no such observation, or if `at_us` is None.
        """
        observations = reversed(self.observations(topic, partition))
        return next((known for known in observations if at_us is not None and known.at_us <= at_us), None)

    def changes(self, topic: str) -> list[Observation]:
        """The observations in which the leader of a partition of `topic` differs from the one before, oldest first.

        They include the observations of a partition that lost its leader.
        """
        changes = []
        for partition in self.partitions(topic):
            observations = self.observations(topic, partition)
            changes += [now for before, now in pairwise(observations) if now.leader != before.leader]
        return sorted(changes, key=lambda change: change.at_us)


def clock(material: Material) -> Clock:
    """The clock of the run. Its zero is the start of the load's first interval.

    If no load is known, its zero is the first known time: of an observation, of the request of an injection, or of the
    sending of a record that has an anomaly. If no time is known at all, its zero is the epoch.
    """
    load = _times(material, "timeline/load", "at_us")
    if load:
        return Clock(min(load), True)
    times_us = [event.at_us for event in material.observations] + [
        event.requested_at_us for event in material.injections
    ]
    return Clock(min([*times_us, *_times(material, "anomalies", "sent_at")], default=0), False)


def _times(material: Material, table: str, column: str) -> list[int]:
    """The times in a column of a table, without nulls, in µs since the epoch. Empty if the table is missing."""
    rows = material.tables.get(table)
    return [] if rows is None else [time_us for time_us in rows.column(column).to_pylist() if time_us is not None]


def subject_topic(material: Material) -> str:
    """The topic whose partitions the charts show: the topic of the first subject.

    The charts need only one topic, because the topics of all arms have the same replica assignment. If the scenario is
    missing or has no subject, the result is the first topic that was observed. Empty if no topic was observed either.
    """
    if material.scenario is not None and material.scenario.subjects:
        return material.scenario.subjects[0].topic_name
    return next((observation.topic for observation in material.observations if observation.topic), "")


def topic_of(material: Material, arm: str) -> str:
    """The topic of an arm. Empty if the scenario is missing or does not contain the arm."""
    if material.scenario is None or arm not in material.scenario.arm_names:
        return ""
    return material.scenario.arm(arm).topic_name


def injection_name(injection: Injection) -> str:
    """The name of an injection, for example `#1 kill broker 2`."""
    brokers = ", ".join(str(broker) for broker in injection.brokers)
    return f"#{injection.id} {injection.action}" + (f" broker {brokers}" if brokers else "")


def injection_during(injections: Iterable[Injection], from_us: int | None, to_us: int | None) -> Injection | None:
    """Returns the first injection that could have hurt something that was under way from `from_us` to `to_us`.

    The two times are in µs since the epoch. An injection counts from LEAD_US before its bite until its recovery, and
    without an end if it never recovered. `to_us` None: the time has no end either. Returns None if no injection falls
    into the time, or if `from_us` is None.
    """
    if from_us is None:
        return None
    for injection in injections:
        before_end = injection.recovered_at_us is None or from_us <= injection.recovered_at_us
        if before_end and (to_us is None or to_us >= injection.bite_at_us - LEAD_US):
            return injection
    return None
