"""The canary's effects: writes the effects that are planned for the canary's records, through the slots that members
use."""

from __future__ import annotations

from pathlib import Path

from delivery_verifier.applications.sealing import effects_key, seal_effects
from delivery_verifier.applications.slots import SlotWriter
from delivery_verifier.judgement import canary
from delivery_verifier.judgement.canary.effects import DRAINED
from delivery_verifier.judgement.canary.layout import NOWHERE
from delivery_verifier.model import record
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.store.run_directory import StepOutput


def apply_canary(
    scenario: Scenario,
    layout: canary.CanaryLayout,
    offsets: list[int],
    snapshot: Offsets,
    folder: Path,
    output: StepOutput,
) -> None:
    """Writes effects/canary.parquet: the planned effects, and the effect of the marker behind the canary's records.

    `offsets[i]` is the offset of `layout.values[i]`. `folder` receives the slots. Adds the same counts to `output` as
    `run.applications` adds for other arms. Does nothing if no arm has an application.
    """
    if not scenario.applied:
        return
    arm = scenario.canary
    writer = SlotWriter(folder)
    for effect in canary.applied(scenario, layout):
        offset = effect.position if effect.position >= NOWHERE else offsets[effect.position]
        writer.append(effect.partition, offset, 0, effect.value, scenario.run_token, arm.ordinal)
    end = next(part.end for part in snapshot.partitions if (part.arm, part.partition) == (arm.name, DRAINED))
    size = scenario.load.payload_bytes
    marker = record.encode(scenario.run_token, arm.ordinal, record.MARKER_PRODUCER, 0, 0, 0, 0, size)
    writer.append(DRAINED, end, 0, marker, scenario.run_token, arm.ordinal)
    file = output.staging / "effects" / "canary.parquet"
    file.parent.mkdir(exist_ok=True)
    seal_effects(folder, arm.name, 0, 0, file)
    output.counts[effects_key(arm.name, 0, 0)] = writer.count
    output.counts |= {f"lives/{arm.name}": 1, f"killed/{arm.name}": 0, f"kill_orders/{arm.name}": 0}
