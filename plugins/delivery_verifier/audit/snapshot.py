"""The snapshot of a topic without markers: two looks, some seconds apart, that agree."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from delivery_verifier.cluster.foreign_topic import Look
from delivery_verifier.host.waiting import pause

QUIET_S = 3.0
"""How long the ends of all partitions must stand still."""
LAG_S = 35.0
"""The same if acknowledgements lack offsets: longer than Kafka's default of `replica.lag.time.max.ms`. A high watermark
that trails behind the log moves within that time, or its follower is no longer in sync (docs/adr/0034)."""
DEADLINE_S = 60.0
"""How long to wait for two looks that agree, in-sync replicas, and high watermarks behind all acknowledged offsets."""
Looks = Mapping[int, Look]
"""What the partitions of a topic looked like, by number."""


@dataclass
class Snapshot:
    """The last look, and what was wrong with it until the deadline: `not_quiet`, `isr_not_full`, by name in words."""

    looks: Looks
    wrong: dict[str, str] = field(default_factory=dict)


def quiet_s(without_offset: int) -> float:
    """Returns how long the topic must stand still, in seconds, if so many acknowledgements lack their offset."""
    return LAG_S if without_offset else QUIET_S


def take(
    look: Callable[[], Looks],
    acked_ends: Mapping[int, int],
    quiet_s: float = QUIET_S,
    deadline_s: float = DEADLINE_S,
) -> Snapshot:
    """Looks until two looks, `quiet_s` apart, have equal ends, leaders and leader epochs, all replicas are in sync, and
    each high watermark is at least as far as `acked_ends`. Returns the last look.

    After `deadline_s` it returns what it has. What was wrong then forbids a verdict; offsets behind the end are found
    later, one by one.
    """
    end_s = time.monotonic() + deadline_s
    first = look()
    while True:
        pause(quiet_s)
        second = look()
        wrong = _wrong(first, second)
        behind = any(second[number].end < end for number, end in acked_ends.items() if number in second)
        if (not wrong and not behind) or time.monotonic() >= end_s:
            return Snapshot(second, wrong)
        first = second


def _wrong(first: Looks, second: Looks) -> dict[str, str]:
    wrong: dict[str, str] = {}
    for number in sorted(second):
        before, after = first[number], second[number]
        if (before.end, before.leader, before.leader_epoch) != (after.end, after.leader, after.leader_epoch):
            wrong.setdefault(
                "not_quiet",
                f"partition {number} did not stand still: end {before.end}, then {after.end}; leader "
                f"{before.leader} in epoch {before.leader_epoch}, then {after.leader} in {after.leader_epoch}; audit "
                "it when nothing writes",
            )
        if not after.in_sync or after.leader < 0:
            detail = f"partition {number} has a replica that is not in sync, so acknowledged records may not be visible"
            wrong.setdefault("isr_not_full", detail)
    return wrong
