"""The list of events: what happened to the cluster, one sentence per event, oldest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from delivery_verifier.model.history import Injection
from delivery_verifier.reporting.leadership import Clock, Leadership, injection_name, subject_topic
from delivery_verifier.reporting.material import Material

EVENTS_SHOWN = 60
"""The greatest number of lines in the list."""
AT_ONCE_US = 250_000
"""If several partitions get the same leader within this time (µs) after the first of them, they share one line."""
PARTITIONS_NAMED = 5
"""The greatest number of partitions that a line names by their numbers. The line counts the others."""


@dataclass(frozen=True)
class Event:
    """One line of the list of events.

    `at_us`: the time in µs since the epoch. `time`: the same time as text. `text`: the sentence on the event. `fault`:
    whether the line is about an injection of a fault.
    """

    at_us: int
    time: str
    text: str
    fault: bool


def events(material: Material, clock: Clock) -> list[Event]:
    """Returns the list of events, oldest first, with at most EVENTS_SHOWN lines. `clock`: the clock of the run.

    The events are the effect (the start of the effect), the healing and the recovery of each injection, the changes of
    leadership, and the changes of the broker processes. If there are too many events, the latest events that are not
    about injections are left out first.
    """
    lines = [(at_us, text, True) for injection in material.injections for at_us, text in _injection_events(injection)]
    lines += [(at_us, text, False) for at_us, text in (*_leader_changes(material), *_process_events(material))]
    shown = sorted(lines, key=lambda line: (not line[2], line[0]))[:EVENTS_SHOWN]
    return [Event(at_us, clock.text(at_us), text, fault) for at_us, text, fault in sorted(shown)]


def _injection_events(injection: Injection) -> Iterator[tuple[int, str]]:
    """Yields the time (µs since the epoch) and the sentence of each event of `injection`.

    The events are the effect (the start of the effect), the healing and the recovery.
    """
    yield (
        injection.effect_at_us,
        f"{injection_name(injection)}: takes effect" + ("" if injection.took_effect else " (no proof that it did)"),
    )
    if injection.healed_at_us is not None:
        yield injection.healed_at_us, f"{injection_name(injection)}: healed"
    if injection.recovered_at_us is not None:
        yield injection.recovered_at_us, f"{injection_name(injection)}: recovered, all replicas in sync"


def _leader_changes(material: Material) -> Iterator[tuple[int, str]]:
    """Yields the time (µs since the epoch) and the sentence of each change of leadership.

    If several partitions get the same leader within AT_ONCE_US, they share one event.
    """
    groups: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    started: dict[int, int] = {}
    for change in Leadership(material.observations).changes(subject_topic(material)):
        group_us = started.get(change.leader)
        if group_us is None or change.at_us - group_us > AT_ONCE_US:
            group_us = started[change.leader] = change.at_us
        groups.setdefault((group_us, change.leader), []).append((change.partition, change.leader_epoch, change.at_us))
    for (at_us, leader), changes in groups.items():
        leader_name = "nobody" if leader < 0 else f"broker {leader}"
        epochs = sorted({epoch for _, epoch, _ in changes})
        epoch = f"epoch {epochs[0]}" if len(epochs) == 1 else f"epochs {epochs[0]} to {epochs[-1]}"
        partitions = [partition for partition, _, _ in changes]
        yield (
            at_us,
            f"{partitions_text(partitions)} {'is' if len(changes) == 1 else 'are'} now led by {leader_name} ({epoch})",
        )


def partitions_text(partitions: Sequence[int]) -> str:
    """Returns the partitions as text, e.g. `partitions 0, 3, 6, 9, 12 and 29 more`. The text names at most
    PARTITIONS_NAMED partitions."""
    numbers = sorted(set(partitions))
    first = ", ".join(map(str, numbers[:PARTITIONS_NAMED]))
    more = f" and {len(numbers) - PARTITIONS_NAMED} more" if len(numbers) > PARTITIONS_NAMED else ""
    return f"partition{'s' if len(numbers) != 1 else ''} {first or 'none'}{more}"


def _process_events(material: Material) -> Iterator[tuple[int, str]]:
    """Yields the time (µs since the epoch) and the sentence of each change in the state of a broker process."""
    for observation in material.observations:
        if observation.kind == "process":
            code = "" if observation.exit_code is None else f" (exit code {observation.exit_code})"
            yield observation.at_us, f"broker {observation.broker} is {observation.state}{code}"
