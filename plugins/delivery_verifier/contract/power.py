"""Losses of power: finds the partitions in which every in-sync replica lost the data that it had not flushed to disk.

The result depends on observations and injections alone. A broker that loses power loses the data that it had not
flushed. But if one replica that was in sync keeps its power, no record is lost: before a broker joins the ISR again, it
copies from the leader the data that it lacks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from delivery_verifier.contract.observer import OBSERVER_LAG_US, SIGTERM_EXITS
from delivery_verifier.contract.times import latest
from delivery_verifier.model.fault_actions import ACTS
from delivery_verifier.model.history import TRANSACTION_STATE, Disturbance, Injection, Observation

_Partition = tuple[str, int]
"""The topic and the number of a partition."""


def isr_power_losses(observations: Sequence[Observation], injections: Iterable[Injection]) -> Iterator[Disturbance]:
    """Yields the disturbances `isr_power_loss`: at most one for each partition and each injection that cut power.

    For a partition of `__transaction_state`, the kind is `coordinator_power_loss`, and the topic is empty.

    After a loss of power, a broker lacks the data that it had not flushed, until it has copied this data again. The
    disturbance lasts while every broker in the ISR lacks such data. In this time, the partition may pass through
    several states. A state belongs to the latest injection that cut power before this state. Of the states of one
    injection, the function yields only the worst. A planned state is worse than an unplanned state. Of two planned
    states, or two unplanned states, the one with more `replicas` is worse.

    The field `replicas` is a number m of brokers. In the latest ISR that had at least m members, all members ended
    uncleanly, by a loss of power or a crash. `replicas` is the greatest m for which this is true; 0 if there is none.

    The contract compares `replicas` with min.insync.replicas, because of eligible leader replicas (KIP-966). With
    min.insync.replicas=m, every member of the latest ISR with at least m members has every acknowledged record. Kafka
    can elect a member that ended in an orderly way, and does not elect a broker that crashed.
    """
    for (topic, partition), losses in _losses(observations, injections):
        of_coordinator = topic == TRANSACTION_STATE
        for worst in losses:
            yield Disturbance(
                kind="coordinator_power_loss" if of_coordinator else "isr_power_loss",
                at_us=worst.at_us,
                topic="" if of_coordinator else topic,
                partitions=[partition],
                planned=worst.planned,
                brokers=sorted(worst.isrs[-1]),
                replicas=worst.replicas,
                detail=f"{topic}/{partition}: all of the ISR {sorted(worst.isrs[-1])} lost power",
            )


def power_back(
    observations: Sequence[Observation], injections: Iterable[Injection]
) -> dict[tuple[str, int, int, int], int | None]:
    """Maps each loss of power of an ISR to the time (µs since the epoch) when the power was back.

    A key is the topic, the partition, and the fields `at_us` and `replicas` of the disturbance (see
    `isr_power_losses`). If two losses have the same key, the later time counts. The time is None if the power never
    came back.
    """
    back: dict[tuple[str, int, int, int], int | None] = {}
    for (topic, partition), losses in _losses(observations, injections):
        for worst in losses:
            key = topic, partition, worst.at_us, worst.replicas
            back[key] = latest([back.get(key, worst.at_us), *(cut.healed_at_us for cut in worst.cuts)])
    return back


def _losses(
    observations: Sequence[Observation], injections: Iterable[Injection]
) -> Iterator[tuple[_Partition, list[_State]]]:
    """Yields each partition with a list of states. For each injection that cut the power of the partition's ISR, the
    list has the worst state of this injection (see `isr_power_losses`)."""
    for partition, states in _states_by_partition(observations, injections):
        lost = [state for state in states if state.lost and not _contradicted_soon(state, states)]
        by_cut = groupby(lost, key=lambda state: state.cuts[-1])
        yield partition, [max(group, key=lambda state: (state.planned, state.replicas)) for _, group in by_cut]


def _states_by_partition(
    observations: Sequence[Observation], injections: Iterable[Injection]
) -> Iterator[tuple[_Partition, list[_State]]]:
    """Yields each partition with its states. There is one state after every loss of power, recovery, crash and change
    of the ISR.

    Yields nothing if no injection cut power.
    """
    cuts = [injection for injection in injections if cuts_power(injection)]
    if cuts:
        crashes, isrs_of = _events(observations)
        for partition, isrs in isrs_of.items():
            yield partition, list(_states([*isrs, *crashes], cuts))


def cuts_power(injection: Injection) -> bool:
    """Returns whether the injection cuts the power of brokers."""
    act = ACTS.get(injection.action)
    return act is not None and "power_loss" in act.counts_as


@dataclass(frozen=True, slots=True)
class _State:
    """The state of a partition from one moment on.

    * `cuts`: the injections that cut power and from which the cluster has not recovered yet.
    * `isrs`: every ISR so far.
    * `unpowered`: the brokers that lost unflushed data in a loss of power, and have not copied the data again.
    * `crashed`: the brokers whose process crashed, and that have not joined the ISR again.
    """

    at_us: int
    isrs: list[set[int]]
    cuts: list[Injection] = field(default_factory=list)
    unpowered: set[int] = field(default_factory=set)
    crashed: set[int] = field(default_factory=set)

    @property
    def lost(self) -> bool:
        """Whether every member of the ISR has lost the data that it had not flushed."""
        return bool(self.isrs) and self.isrs[-1] <= self.unpowered

    @property
    def planned(self) -> bool:
        """Whether the power of every member of the ISR was cut by an injection that took effect."""
        return self.isrs[-1] <= {broker for cut in self.cuts if cut.took_effect for broker in cut.brokers}

    @property
    def replicas(self) -> int:
        """The greatest number m for which this is true: in the latest ISR that had at least m members, all members
        ended uncleanly. 0 if there is no such m. This is the field `replicas` of the disturbance (see
        `isr_power_losses`)."""
        unclean = self.unpowered | self.crashed
        largest = max(len(isr) for isr in self.isrs)
        sizes = [size for size in range(1, largest + 1) if self._last_isr_of(size) <= unclean]
        return max(sizes, default=0)

    def _last_isr_of(self, size: int) -> set[int]:
        """Returns the latest of all ISRs so far that have at least `size` members."""
        return next(isr for isr in reversed(self.isrs) if len(isr) >= size)


def _contradicted_soon(state: _State, states: Iterable[_State]) -> bool:
    """Returns whether a broker that kept its power was seen in the ISR at most OBSERVER_LAG_US after the time of
    `state`.

    The observer polls, and so sees changes late. Such a broker may therefore have been in the ISR already at the time
    of `state`.
    """
    return any(
        state.at_us < later.at_us <= state.at_us + OBSERVER_LAG_US and later.isrs and later.isrs[-1] - state.unpowered
        for later in states
    )


class _Event(NamedTuple):
    """A change from one state of a partition to the next.

    `cause` is what caused the change: the observation of a new ISR or of a crash, or the injection that cut power. None
    means that the cluster recovered. Events are sorted by `at_us`. Events of the same time are sorted by `number`.
    """

    at_us: int
    number: int
    cause: Observation | Injection | None


_LAST = sys.maxsize
"""The `number` of an event that comes after every observation of the same time."""


def _states(observed: list[_Event], cuts: list[Injection]) -> Iterator[_State]:
    """Yields the states of a partition in order of time: one after every loss of power, recovery, crash and change of
    the ISR.

    `observed` holds the changes of the partition's ISR and all crashes. `cuts` are the injections that cut power.
    """
    lost = [_Event(cut.effect_at_us, _LAST, cut) for cut in cuts]
    recovered = [_Event(cut.recovered_at_us, _LAST, None) for cut in cuts if cut.recovered_at_us is not None]
    events = sorted([*observed, *lost, *recovered], key=lambda event: event[:2])
    state = _State(0, [])
    for at_us, _, event in events:
        if isinstance(event, Injection):
            unpowered = state.unpowered | set(event.brokers)
            state = _State(at_us, state.isrs, [*state.cuts, event], unpowered, state.crashed)
        elif event is None:  # the cluster has recovered: all replicas are in sync again
            state = _State(at_us, state.isrs)
        elif event.kind == "process":
            state = _State(at_us, state.isrs, state.cuts, state.unpowered, state.crashed | {event.broker})
        else:
            state = _with_isr(state, at_us, set(event.isr))
        yield state


def _events(observations: Iterable[Observation]) -> tuple[list[_Event], dict[tuple[str, int], list[_Event]]]:
    """Returns two values: all crashes, and a mapping from (topic, partition) to the changes of the partition's ISR.

    The time of an event is the greatest time of its observation and of all earlier observations. So events that are
    sorted by time keep the order in which the observations were made, even if the clock was set back.
    """
    crashes: list[_Event] = []
    isrs_of: dict[tuple[str, int], list[_Event]] = {}
    at_us = 0
    for number, observation in enumerate(observations):
        at_us = max(at_us, observation.at_us)
        event = _Event(at_us, number, observation)
        if _is_crash(observation):
            crashes.append(event)
        elif observation.isr:
            isrs_of.setdefault((observation.topic, observation.partition), []).append(event)
    return crashes, isrs_of


def _is_crash(observation: Observation) -> bool:
    return observation.state == "exited" and observation.exit_code not in SIGTERM_EXITS


def _with_isr(state: _State, at_us: int, isr: set[int]) -> _State:
    """Returns `state` with a new ISR. Brokers that joined the ISR have copied the data that they lacked."""
    joined = isr - state.isrs[-1] if state.isrs else isr
    return _State(at_us, [*state.isrs, isr], state.cuts, state.unpowered - joined, state.crashed - joined)
