"""The events: what happened to the cluster, as sentences, oldest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from delivery_verifier.model.history import Injection
from delivery_verifier.pages.leadership import Clock, Leadership, name_of, subject_topic
from delivery_verifier.pages.material import Material

EVENTS_TOLD = 60
AT_ONCE_US = 250_000
"""Partitions that get the same leader within this time are told in one line."""
NAMED = 5


@dataclass(frozen=True)
class Event:
    """One line of the list of events."""

    at_us: int
    at: str
    what: str
    fault: bool


def events(material: Material, clock: Clock) -> list[Event]:
    """What happened, oldest first, at most EVENTS_TOLD lines: of more, the faults before all others."""
    told = [(at, what, True) for one in material.injections for at, what in _injected(one)]
    told += [(at, what, False) for at, what in (*_led(material), *_processes(material))]
    kept = sorted(told, key=lambda one: (not one[2], one[0]))[:EVENTS_TOLD]
    return [Event(at, clock.tell(at), what, fault) for at, what, fault in sorted(kept)]


def _injected(injection: Injection) -> Iterator[tuple[int, str]]:
    yield injection.bite_at_us, f"{name_of(injection)}: bites" + ("" if injection.bit else " (no proof that it did)")
    if injection.healed_at_us is not None:
        yield injection.healed_at_us, f"{name_of(injection)}: healed"
    if injection.recovered_at_us is not None:
        yield injection.recovered_at_us, f"{name_of(injection)}: recovered, all replicas in sync"


def _led(material: Material) -> Iterator[tuple[int, str]]:
    """Changes of leadership, those of one moment and leader together."""
    groups: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    started: dict[int, int] = {}
    for change in Leadership(material.observations).changes(subject_topic(material)):
        begun_us = started.get(change.leader)
        if begun_us is None or change.at_us - begun_us > AT_ONCE_US:
            begun_us = started[change.leader] = change.at_us
        groups.setdefault((begun_us, change.leader), []).append((change.partition, change.leader_epoch, change.at_us))
    for (at_us, leader), moved in groups.items():
        leader_name = "nobody" if leader < 0 else f"broker {leader}"
        epochs = sorted({epoch for _, epoch, _ in moved})
        epoch = f"epoch {epochs[0]}" if len(epochs) == 1 else f"epochs {epochs[0]} to {epochs[-1]}"
        partitions = [partition for partition, _, _ in moved]
        yield at_us, f"{some(partitions)} {'is' if len(moved) == 1 else 'are'} now led by {leader_name} ({epoch})"


def some(partitions: Sequence[int]) -> str:
    """Partitions by their numbers, the first few, e.g. `partitions 0, 3, 6, 9, 12 and 29 more`."""
    numbers = sorted(set(partitions))
    first = ", ".join(map(str, numbers[:NAMED]))
    more = f" and {len(numbers) - NAMED} more" if len(numbers) > NAMED else ""
    return f"partition{'s' if len(numbers) != 1 else ''} {first or 'none'}{more}"


def _processes(material: Material) -> Iterator[tuple[int, str]]:
    for observation in material.observations:
        if observation.kind == "process":
            code = "" if observation.exit_code is None else f" (exit code {observation.exit_code})"
            yield observation.at_us, f"broker {observation.broker} is {observation.state}{code}"
