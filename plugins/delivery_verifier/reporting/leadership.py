"""Leadership: which broker led which partition at which time.

The module also has the clock of a run, which shows a time as seconds since the start of the load, and the names of
injections.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from delivery_verifier.model.history import Injection, Observation
from delivery_verifier.reporting.material import Material


@dataclass(frozen=True)
class Clock:
    """A clock that shows times in seconds since `start_us` (µs since the epoch).

    `from_load_start`: whether `start_us` is the start of the load. If it is false, `start_us` is the earliest known
    time of the run.
    """

    start_us: int
    from_load_start: bool

    def seconds(self, at_us: int) -> float:
        """Returns the seconds from `start_us` to `at_us` (µs since the epoch)."""
        return (at_us - self.start_us) / 1e6

    def text(self, at_us: int | None) -> str:
        """Returns the time `at_us` (µs since the epoch) as text, e.g. `+3.142 s`. Returns an en dash if `at_us` is
        None."""
        return "–" if at_us is None else f"{self.seconds(at_us):+,.3f} s"


class Leadership:
    """The leader and the ISR of each partition over time.

    `observations`: the changes of the cluster that the observer recorded, in the order in which the observer saw them.
    """

    def __init__(self, observations: Iterable[Observation]) -> None:
        self._by_partition: dict[tuple[str, int], list[Observation]] = defaultdict(list)
        for observation in observations:
            if observation.kind == "partition":
                self._by_partition[observation.topic, observation.partition].append(observation)

    def observations(self, topic: str, partition: int) -> list[Observation]:
        """Returns all observations of one partition, oldest first.

        Returns an empty list if the partition was never observed.
        """
        return self._by_partition.get((topic, partition), [])

    def partitions(self, topic: str) -> list[int]:
        """Returns the numbers of the observed partitions of `topic`, in ascending order."""
        return sorted(partition for name, partition in self._by_partition if name == topic)

    def last_observation(self, topic: str, partition: int, at_us: int | None) -> Observation | None:
        """Returns the last observation of a partition at or before `at_us` (µs since the epoch).

        Returns None if there is no such observation, or if `at_us` is None.
        """
        observations = reversed(self.observations(topic, partition))
        return next((known for known in observations if at_us is not None and known.at_us <= at_us), None)

    def changes(self, topic: str) -> list[Observation]:
        """Returns the observations in which a partition of `topic` has another leader than before, oldest first.

        This includes observations in which a partition has lost its leader.
        """
        changes = []
        for partition in self.partitions(topic):
            observations = self.observations(topic, partition)
            changes += [now for before, now in pairwise(observations) if now.leader != before.leader]
        return sorted(changes, key=lambda change: change.at_us)


def clock(material: Material) -> Clock:
    """Returns the clock of the run. The clock counts from the earliest time in the table timeline/load.

    If this table is missing or empty, the clock counts from the earliest of these times: an observation, the request of
    an injection, the sending of a record that shows an anomaly. If there is no such time, the clock counts from the
    epoch.
    """
    load = _times(material, "timeline/load", "at_us")
    if load:
        return Clock(min(load), True)
    times_us = [event.at_us for event in material.observations] + [
        event.requested_at_us for event in material.injections
    ]
    return Clock(min([*times_us, *_times(material, "anomalies", "sent_at")], default=0), False)


def _times(material: Material, table: str, column: str) -> list[int]:
    """Returns the times in the column `column` of the table `table`, without nulls, in µs since the epoch.

    Returns an empty list if the table is missing.
    """
    rows = material.tables.get(table)
    return [] if rows is None else [time_us for time_us in rows.column(column).to_pylist() if time_us is not None]


def subject_topic(material: Material) -> str:
    """Returns the topic whose partitions the charts show: the topic of the first subject.

    One topic is enough, because the topics of all arms have the same replica assignment. If the scenario is missing or
    has no subject, returns the first topic that was observed. If no topic was observed either, returns an empty text.
    """
    if material.scenario is not None and material.scenario.subjects:
        return material.scenario.subjects[0].topic_name
    return next((observation.topic for observation in material.observations if observation.topic), "")


def topic_of(material: Material, arm: str) -> str:
    """Returns the topic of an arm. Returns an empty text if the scenario is missing or does not contain the arm."""
    if material.scenario is None or arm not in material.scenario.arm_names:
        return ""
    return material.scenario.arm(arm).topic_name


def injection_name(injection: Injection) -> str:
    """Returns the name of an injection, for example `#1 kill broker 2`."""
    brokers = ", ".join(str(broker) for broker in injection.brokers)
    return f"#{injection.id} {injection.action}" + (f" broker {brokers}" if brokers else "")
