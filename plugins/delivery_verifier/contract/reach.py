"""The reach of a disturbance: a period of time. A record that the disturbance hurt was acknowledged in this period.

The reaches are computed from observations and injections alone. An observation may be late, but is never early. So a
reach never ends too early. It may end too late, and then excuses too much. The computing time grows in proportion to
the number of observations.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from delivery_verifier.contract.observer import in_window
from delivery_verifier.contract.power import power_back
from delivery_verifier.contract.refusals import Change, Seen, regained, satisfied
from delivery_verifier.contract.rules.rule import ELECTIONS
from delivery_verifier.contract.times import latest
from delivery_verifier.model.coordinators import OF_COORDINATORS
from delivery_verifier.model.history import (
    LEAD_US,
    OF_APPLICATIONS,
    TRANSACTION_STATE,
    Disturbance,
    Injection,
    Observation,
)
from delivery_verifier.model.late_ends import has_late_end


@dataclass(frozen=True, slots=True)
class Reach:
    """A disturbance and its reach. Only records that were acknowledged between `since_us` and `until_us` can be lost by
    the disturbance. Both times are in µs since the epoch. `since_us` is None if the beginning of the reach is unknown.
    `until_us` is None if its end is unknown."""

    disturbance: Disturbance
    since_us: int | None
    until_us: int | None

    def touches(self, partition: int) -> bool:
        """Returns whether the disturbance may have touched `partition` of the arm's topic."""
        disturbance = self.disturbance
        return not disturbance.topic or not disturbance.partitions or partition in disturbance.partitions

    def concerns(self, producer: int | None) -> bool:
        """Returns whether the disturbance may have touched transactions of `producer`. None stands for an unknown
        producer."""
        return not self.disturbance.producers or producer in self.disturbance.producers


def reaches(
    disturbances: Iterable[Disturbance], observations: Sequence[Observation], injections: Iterable[Injection]
) -> list[Reach]:
    """Returns each disturbance with its reach. `observations` must be in the order in which they were made.

    The beginning of a reach is known only for these disturbances:

    * Another leader or leader epoch, or a disturbance of a transaction coordinator: LEAD_US before the bite of the
      first injection that took effect and may have caused the disturbance (see `in_window`). If there is no such
      injection, the beginning is unknown.
    * A late end of a transaction: LEAD_US before the bite of the injection that caused the late end.

    The end of a reach is known only for these disturbances:

    * Another leader or leader epoch: when no deposed leader can acknowledge anything any more, i.e. each has exited,
      leads again, or was seen to follow its successor.
    * A loss of power of the whole ISR: when the power was back (see `power_back`).
    * A late end of a transaction: when the cluster had recovered from the injection.
    * An ISR that shrank: when all its earlier members were seen in it again. From then on, brokers refuse no requests.
    * Another min.insync.replicas: when every ISR of the topic had that many members.
    * A disturbance of an application: when the restart of its members was ordered. Later records were not yet in hand.
    """
    injected = list(injections)
    biting = [injection for injection in injected if injection.bit]
    partitions = _partitions(observations)
    answers, powered = _last_answers(observations, partitions), power_back(observations, injected)
    whole = regained(partitions)
    result = []
    for disturbance in disturbances:
        since_us = until_us = None
        partition = disturbance.partitions[0] if len(disturbance.partitions) == 1 else -1
        if disturbance.kind in ELECTIONS or disturbance.kind in OF_COORDINATORS:
            since_us = _since_us(disturbance, biting)
        if disturbance.kind in ELECTIONS:
            until_us = answers.get((disturbance.topic, partition, disturbance.at_us))
        elif disturbance.kind in ("isr_power_loss", "coordinator_power_loss"):
            topic = disturbance.topic or TRANSACTION_STATE
            until_us = powered.get((topic, partition, disturbance.at_us, disturbance.replicas))
        elif disturbance.kind == "late_end":
            since_us = disturbance.at_us - LEAD_US
            until_us = latest(cause.recovered_at_us for cause in injected if has_late_end(cause, disturbance))
        elif disturbance.kind in OF_APPLICATIONS:
            until_us = _restarted_us(disturbance, injected)
        elif disturbance.kind == "isr_shrink":
            until_us = whole.get((disturbance.topic, partition, disturbance.at_us))
        elif disturbance.kind == "topic_altered" and disturbance.setting == "min.insync.replicas":
            until_us = satisfied(disturbance, partitions)
        result.append(Reach(disturbance, since_us, until_us))
    return result


def _restarted_us(disturbance: Disturbance, injected: Iterable[Injection]) -> int | None:
    """Returns when the restart of the members that `disturbance` hit was ordered; None if this time is unknown."""
    causes = [cause for cause in injected if cause.bite_at_us == disturbance.at_us and disturbance.topic in cause.hit]
    return latest(cause.healed_at_us for cause in causes)


def _since_us(disturbance: Disturbance, biting: Iterable[Injection]) -> int | None:
    begins = [injection.bite_at_us - LEAD_US for injection in biting if in_window(injection, disturbance.at_us)]
    return min(begins, default=None)


_Positions = list[int]
"""Positions in the list of all observations, in ascending order."""
_ByBroker = dict[int, _Positions]
_NEVER = sys.maxsize
"""A position after all observations."""


class _Track(NamedTuple):
    """The positions of the observations of one broker, by the state of the broker. `led`, `back` and `out` are states
    in one partition.

    `led`: the broker led the partition. `back`: the broker was a follower in the ISR. `out`: the broker was not in the
    ISR. `exited`: the process of the broker had exited. `running`: the process had not exited.
    """

    led: _Positions
    back: _Positions
    out: _Positions
    exited: _Positions
    running: _Positions


def _last_answers(
    observations: Sequence[Observation], partitions: Mapping[tuple[str, int], list[Seen]]
) -> dict[Change, int | None]:
    """Maps each change of a leader or leader epoch to the time from which on no deposed leader can acknowledge records.

    The time is None if it is unknown. `partitions` holds the observations of each partition, with their positions in
    `observations`.
    """
    exited, running = _processes(observations)
    answers: dict[Change, int | None] = {}
    for (topic, partition), states in partitions.items():
        brokers = {broker for _, now in states for broker in (now.leader, *now.isr, *now.elr) if broker >= 0}
        tracks = {broker: _Track(*_sights(broker, states), exited[broker], running[broker]) for broker in brokers}
        for position, now, deposed in _changes(states, brokers):
            change = topic, partition, now.at_us
            ends = (_end(tracks[broker], position, observations) for broker in deposed)
            answers[change] = latest([answers.get(change, now.at_us), *ends])
    return answers


def _changes(states: list[Seen], brokers: set[int]) -> Iterator[tuple[int, Observation, set[int]]]:
    """Yields a tuple for each change of the leader or leader epoch: the position of the observation that shows the
    change, this observation, and the deposed leaders.

    `brokers`: every broker that may have led the partition. If an epoch was skipped, nobody saw its leader. All
    `brokers` except the new leader then count as deposed.
    """
    before: tuple[int, int] | None = None
    for position, now in states:
        leader, epoch = before or (now.leader, now.leader_epoch)
        if (now.leader, now.leader_epoch) != (leader, epoch):
            yield position, now, ({leader} if now.leader_epoch <= epoch + 1 else brokers) - {now.leader}
        if before or now.leader >= 0:
            before = (now.leader if now.leader >= 0 else leader), now.leader_epoch


def _end(track: _Track, change: int, observations: Sequence[Observation]) -> int | None:
    """Returns the time (µs since the epoch) from which on a deposed leader acknowledges nothing, or None if this time
    is unknown.

    `track`: what was seen of the deposed leader. `change`: the position of the change that deposed it. A deposed leader
    that is frozen, cut off or slow goes on acknowledging until it learns of its successor. Each of these observations
    proves that it has stopped:

    * Its process has exited.
    * It leads again.
    * It was outside the ISR, and later a follower in the ISR: it has copied from its successor.

    A deposed leader that always stays in the ISR proves nothing, because its successor takes over the ISR with the
    deposed leader in it.
    """
    if _last(track.exited, change) > _last(track.running, change):
        return observations[change].at_us
    stop = min(_next(track.led, change), _next(track.exited, change))
    out = _last(track.out, stop)
    back = _next(track.back, out) if out >= change else _NEVER
    end = min(back, stop)
    return None if end == _NEVER else observations[end].at_us


def _next(positions: _Positions, position: int) -> int:
    """Returns the first of `positions` after `position`. If there is none, returns _NEVER."""
    index = bisect_right(positions, position)
    return positions[index] if index < len(positions) else _NEVER


def _last(positions: _Positions, position: int) -> int:
    """Returns the last of `positions` before `position`. If there is none, returns -1."""
    index = bisect_left(positions, position)
    return positions[index - 1] if index else -1


def _partitions(observations: Iterable[Observation]) -> dict[tuple[str, int], list[Seen]]:
    """Returns the observations of each partition with their positions.

    Leaves out an observation whose leader epoch is lower than that of an earlier observation, because a broker then
    reported an old state.
    """
    partitions: dict[tuple[str, int], list[Seen]] = {}
    for position, now in enumerate(observations):
        if now.kind == "partition":
            states = partitions.setdefault((now.topic, now.partition), [])
            if not states or now.leader_epoch >= states[-1][1].leader_epoch:
                states.append((position, now))
    return partitions


def _processes(observations: Iterable[Observation]) -> tuple[_ByBroker, _ByBroker]:
    """Returns two mappings from a broker to positions of observations of its process. The first has the observations in
    which the process had exited. The second has all others."""
    exited: _ByBroker = defaultdict(list)
    running: _ByBroker = defaultdict(list)
    for position, now in enumerate(observations):
        if now.kind == "process":
            (exited if now.state == "exited" else running)[now.broker].append(position)
    return exited, running


def _sights(broker: int, states: Iterable[Seen]) -> tuple[_Positions, _Positions, _Positions]:
    """Returns the positions of the observations, in one partition, in which the broker led, was a follower in the ISR,
    and was not in the ISR.

    An observation without a leader is left out.
    """
    led: _Positions = []
    back: _Positions = []
    out: _Positions = []
    for position, now in states:
        if now.leader >= 0:
            (led if now.leader == broker else back if broker in now.isr else out).append(position)
    return led, back, out
