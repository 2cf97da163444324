"""Deposed leaders: until when a broker that no longer leads a partition may still acknowledge records.

A deposed leader that is frozen, cut off or slow goes on acknowledging until it learns of its successor. All times are
computed from observations alone. A time may be too late, but is never too early. The computing time grows in proportion
to the number of observations.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from delivery_verifier.contract.refusals import Change, Seen
from delivery_verifier.contract.times import latest
from delivery_verifier.model.history import Observation

_Positions = list[int]
"""Positions in the list of all observations, in ascending order."""
_ByBroker = dict[int, _Positions]
_NEVER = sys.maxsize
"""A position after all observations."""


class _Track(NamedTuple):
    """The positions of the observations of one broker, by the state of the broker. `led`, `back`, `out` and `knew` are
    states in one partition.

    `led`: the broker led the partition. `back`: the broker was a follower in the ISR. `out`: the broker was not in the
    ISR. `knew`: the broker said that it did not lead, in the epochs `knew_of`. `exited`: the process of the broker had
    exited. `running`: the process had not exited.
    """

    led: _Positions
    back: _Positions
    out: _Positions
    knew: _Positions
    knew_of: list[int]
    exited: _Positions
    running: _Positions


def last_answers(
    observations: Sequence[Observation], partitions: Mapping[tuple[str, int], list[Seen]]
) -> dict[Change, int | None]:
    """Maps each change of a leader or leader epoch to the time from which on no deposed leader can acknowledge records.

    The time is None if it is unknown. `partitions` holds the observations of each partition, with their positions in
    `observations`.
    """
    (exited, running), knew = _processes(observations), _knew(observations)
    of_processes = {*exited, *running}
    answers: dict[Change, int | None] = {}
    for (topic, partition), states in partitions.items():
        brokers = {broker for _, now in states for broker in (now.leader, *now.isr, *now.elr) if broker >= 0}
        brokers |= of_processes
        tracks = {
            broker: _Track(*_sights(broker, states), *knew[topic, partition, broker], exited[broker], running[broker])
            for broker in brokers
        }
        for position, now, deposed in _changes(states, brokers):
            change = topic, partition, now.at_us
            ends = (_end(tracks[broker], position, observations) for broker in deposed)
            answers[change] = latest([answers.get(change, now.at_us), *ends])
    return answers


def _changes(states: list[Seen], brokers: set[int]) -> Iterator[tuple[int, Observation, set[int]]]:
    """Yields a tuple for each change of the leader or leader epoch: the position of the observation that shows the
    change, this observation, and the deposed leaders.

    `brokers`: every broker that may have led the partition: all of the cluster. If an epoch was skipped, nobody saw its
    leader. All `brokers` except the new leader then count as deposed.
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

    * It has said that it does not lead, in this epoch or a later one.
    * Its process has exited.
    * It leads again.
    * It was outside the ISR, and later a follower in the ISR: it has copied from its successor.

    A deposed leader that always stays in the ISR proves nothing, because its successor takes over the ISR with the
    deposed leader in it.
    """
    if _last(track.exited, change) > _last(track.running, change):
        return observations[change].at_us
    known = max(bisect_right(track.knew, change), bisect_left(track.knew_of, observations[change].leader_epoch))
    knows = track.knew[known] if known < len(track.knew) else _NEVER
    stop = min(_next(track.led, change), _next(track.exited, change), knows)
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


def seen_partitions(observations: Iterable[Observation]) -> dict[tuple[str, int], list[Seen]]:
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


def _knew(observations: Iterable[Observation]) -> dict[tuple[str, int, int], tuple[_Positions, list[int]]]:
    """Returns the positions at which a former leader said that it does not lead, and the epochs in which it said so, by
    topic, partition and broker. A broker is asked one epoch after the other, so both ascend."""
    knew: dict[tuple[str, int, int], tuple[_Positions, list[int]]] = defaultdict(lambda: ([], []))
    for position, now in enumerate(observations):
        if now.kind == "deposed":
            positions, epochs = knew[now.topic, now.partition, now.broker]
            positions.append(position)
            epochs.append(now.leader_epoch)
    return knew


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
