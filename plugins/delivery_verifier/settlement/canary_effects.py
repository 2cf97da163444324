"""The canary's effects: writes the effects that are planned for the canary's records to the same kinds of places as
members do, and reads them back. The class for such a place is a *sink*."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from delivery_verifier import canary
from delivery_verifier.applications.pool import applications_of
from delivery_verifier.applications.sink import LifeEffects, PlannedEffect, Sink, SinkInputs, uncounted
from delivery_verifier.applications.sinks import sinks_of_canary
from delivery_verifier.canary.effects import DRAINED
from delivery_verifier.canary.layout import NOWHERE, CanaryEffect
from delivery_verifier.model import record
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.settlement.applications import seal_life
from delivery_verifier.store.run_directory import StepOutput

_OF_THE_SINK = ("order", "applied_at")
"""The columns of an effect that differ between sinks."""


def apply_canary(
    scenario: Scenario,
    layout: canary.CanaryLayout,
    offsets: list[int],
    snapshot: Offsets,
    folder: Path,
    connection: Mapping[str, str],
    output: StepOutput,
    count_visible: Callable[[str], int] = uncounted,
) -> None:
    """Writes effects/canary-0-0.parquet: the planned effects, and the effect of the marker behind the canary's records.
    Does nothing if no arm has an application.

    `offsets[i]` is the offset of `layout.values[i]`. `folder` is where the effects land. `connection` has the client
    properties of members. `count_visible`: see SinkInputs. The function adds counts of the canary to `output`, under
    the same names as `settlement.applications` does for other arms.

    Each sink of `sinks_of_canary` plants the effects itself. Raises StepFailed if two sinks give back different
    effects. So it is enough to reconcile the effects of one sink.
    """
    if not scenario.applied:
        return
    arm, read = scenario.canary, dict[str, LifeEffects]()
    effects = [_planned(effect, offsets) for effect in canary.applied(scenario, layout)]
    end = next(part.end for part in snapshot.partitions if (part.arm, part.partition) == (arm.name, DRAINED))
    size = scenario.load.payload_bytes
    marker = record.encode(scenario.run_token, arm.ordinal, record.MARKER_PRODUCER, 0, 0, 0, 0, size)
    effects.append(PlannedEffect(DRAINED, end, marker))
    sinks = sinks_of_canary([application for _, application in applications_of(scenario)])
    for name, sink in sinks.items():
        inputs = SinkInputs(arm, folder / name, len(effects), scenario.run_token, connection, count_visible, size)
        sink.plant(inputs, effects)
        (read[name],) = sink.read(inputs)
    (first, life), *others = read.items()
    for name, other in others:
        if not _agree(life, other, sinks[name]):
            raise StepFailed(f"the canary's effects differ between the sinks {first} and {name}")
    seal_life(life, arm.name, output)
    output.counts |= {f"lives/{arm.name}": 1, f"killed/{arm.name}": 0, f"kill_orders/{arm.name}": 0}


def _planned(effect: CanaryEffect, offsets: list[int]) -> PlannedEffect:
    """Returns `effect` with the offset of the record that it belongs to. `offsets` has the offset of each record of the
    canary's log.

    If the log does not hold the record, the position of `effect` is taken as the offset.
    """
    offset = effect.position if effect.position >= NOWHERE else offsets[effect.position]
    return PlannedEffect(effect.partition, offset, effect.value)


def _agree(life: LifeEffects, other: LifeEffects, sink: Sink) -> bool:
    """Returns whether `sink` gave back as `other` what it must keep of the effects `life`, in the same order, with the
    same count."""
    expected = sink.expected(life.rows)
    names = [name for name in expected.dtype.names or () if name not in _OF_THE_SINK]
    return life.counted == other.counted and expected[names].tolist() == other.rows[names].tolist()
