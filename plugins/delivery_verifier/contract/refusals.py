"""Refusals: until when brokers may refuse requests because an ISR shrank, or because min.insync.replicas was altered.

The times are computed from disturbances and observations alone. A time may be too late, but is never too early, because
an observation may be late, but is never early. The computing time grows in proportion to the number of observations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from delivery_verifier.contract.times import latest
from delivery_verifier.model.history import Disturbance, Observation

Seen = tuple[int, Observation]
"""An observation of a partition, with its position in the list of all observations."""
Change = tuple[str, int, int]
"""A change of the ISR or of the leader of a partition: the topic, the partition, and the time `at_us` at which the
change was observed."""


def regained(partitions: Mapping[tuple[str, int], Sequence[Seen]]) -> dict[Change, int | None]:
    """Maps each change in which brokers left an ISR to the time (µs since the epoch) when the ISR was complete again.

    The ISR is complete again when it holds all its earlier members, and the partition has a leader. The time is None if
    this was not seen. If two changes of a partition were observed at the same time, the later result counts.
    `partitions`: the observations of each (topic, partition). Observations with an outdated leader epoch must be left
    out.
    """
    ends: dict[Change, int | None] = {}
    for (topic, partition), states in partitions.items():
        waiting: dict[frozenset[int], list[Change]] = defaultdict(list)
        isr: frozenset[int] = frozenset()
        for _, now in states:
            if isr - set(now.isr):
                change = topic, partition, now.at_us
                waiting[isr].append(change)
                ends[change] = None
            if now.leader >= 0:
                for whole in [each for each in waiting if each <= set(now.isr)]:
                    ends |= dict.fromkeys(waiting.pop(whole), now.at_us)
            isr = frozenset(now.isr) or isr
        ends |= {change: None for changes in waiting.values() for change in changes}
    return ends


def satisfied(altered: Disturbance, partitions: Mapping[tuple[str, int], Sequence[Seen]]) -> int | None:
    """Returns when (µs since the epoch) every ISR of the altered topic had as many members as min.insync.replicas
    demands.

    If the ISRs were large enough before the alteration, this is the time of the alteration. Returns None if a partition
    was not seen with such an ISR. `altered`: a disturbance of the kind `topic_altered` that changed
    min.insync.replicas. `partitions`: the observations of each (topic, partition).
    """
    return latest(
        _large_since(altered.at_us, int(altered.value), partitions.get((altered.topic, partition), ()))
        for partition in altered.partitions
    )


def _large_since(at_us: int, size: int, states: Sequence[Seen]) -> int | None:
    """Returns the first time from `at_us` on at which the partition had a leader and an ISR of at least `size`
    members; None if there is none. `states`: the observations of the partition."""
    before = [now for _, now in states if now.at_us <= at_us][-1:]
    later = [now for _, now in states if now.at_us > at_us]
    large = (max(at_us, now.at_us) for now in [*before, *later] if now.leader >= 0 and len(now.isr) >= size)
    return next(large, None)
