"""The canary's effects: writes the effects that are planned for the canary's records to the same kinds of places as
members do, and reads them back. The class for such a place is a *sink*."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from delivery_verifier import canary
from delivery_verifier.applications.own.described import read_own
from delivery_verifier.applications.own.planting import as_kept, in_folder
from delivery_verifier.applications.own.sink import OwnEffects
from delivery_verifier.applications.pool import applications_of
from delivery_verifier.applications.sink import IncarnationEffects, PlannedEffect, Sink, SinkInputs, uncounted
from delivery_verifier.applications.sinks import sinks_of
from delivery_verifier.canary.effects import DRAINED
from delivery_verifier.canary.layout import NOWHERE, CanaryEffect
from delivery_verifier.model import record
from delivery_verifier.model.application import Discipline
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.sink_location import SinkLocation
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.run_directory.run_directory import StepOutput
from delivery_verifier.settlement.applications import seal_incarnation

_OF_THE_SINK = ("order", "applied_at")
"""The columns of an effect that differ between sinks."""
_OF_SLOTS = ("partition", "offset", "batch")
"""The columns of an effect that user applications do not keep."""


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

    The function writes the effects to every kind of sink that the run uses, and to every place to which user
    applications of the run write. Raises StepFailed if two sinks give back different effects. So it is enough to
    reconcile the effects of one sink.
    """
    if not scenario.applied:
        return
    arm, read = scenario.canary, dict[str, IncarnationEffects]()
    effects = [_planned(effect, offsets) for effect in canary.applied(scenario, layout)]
    end = next(part.end for part in snapshot.partitions if (part.arm, part.partition) == (arm.name, DRAINED))
    size = scenario.load.payload_bytes
    marker = record.encode(scenario.run_token, arm.ordinal, record.MARKER_PRODUCER, 0, 0, 0, 0, size)
    effects.append(PlannedEffect(DRAINED, end, marker))
    disciplines: set[Discipline] = {application.discipline for _, application in applications_of(scenario)}
    if "own" in disciplines:  # its effects do not say where their records stand: those of slots are reconciled
        disciplines.add("commit_after")
    locations = _locations(scenario)
    sinks: dict[str, Sink] = {kind: sink for kind, sink in sinks_of(disciplines).items() if kind != "own"}
    for kind, sink in (sinks | {name: OwnEffects(location) for name, location in locations.items()}).items():
        inputs = SinkInputs(arm, folder / kind, len(effects), scenario.run_token, connection, count_visible, size)
        sink.plant(inputs, effects)
        (read[kind],) = sink.read(inputs)
    (first, incarnation), *others = read.items()
    for name, other in others:
        if not _agree(incarnation, other, locations.get(name)):
            raise StepFailed(f"the canary's effects differ between the sinks {first} and {name}")
    seal_incarnation(incarnation, arm.name, output)
    output.counts |= {f"incarnations/{arm.name}": 1, f"killed/{arm.name}": 0, f"kill_orders/{arm.name}": 0}


def _planned(effect: CanaryEffect, offsets: list[int]) -> PlannedEffect:
    """Returns `effect` with the offset of the record that it belongs to. `offsets` has the offset of each record of the
    canary's log.

    If the log does not hold the record, the position of `effect` is taken as the offset.
    """
    offset = effect.position if effect.position >= NOWHERE else offsets[effect.position]
    return PlannedEffect(effect.partition, offset, effect.value)


def _locations(scenario: Scenario) -> dict[str, SinkLocation]:
    """Maps `own <name>` to the place of the effects of the user application `<name>`. The place is in the folder of the
    member."""
    names = {application.name for _, application in applications_of(scenario) if application.discipline == "own"}
    return {f"own {name}": in_folder(read_own(name).effects) for name in sorted(names)}


def _agree(incarnation: IncarnationEffects, other: IncarnationEffects, location: SinkLocation | None) -> bool:
    """Returns whether two sinks gave back the same effects of one incarnation, in the same order, with the same count.

    `location`: if `other` comes from a user application, the place where these effects land; else None. A user
    application keeps neither partition nor offset nor batch. So these columns are compared only if `location` is None.
    """
    expected = incarnation.rows if location is None else as_kept(incarnation.rows, location)
    left_out = _OF_THE_SINK if location is None else (*_OF_THE_SINK, *_OF_SLOTS)
    names = [name for name in expected.dtype.names or () if name not in left_out]
    return incarnation.counted == other.counted and expected[names].tolist() == other.rows[names].tolist()
