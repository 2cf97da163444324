"""The slots of a member: one slot of 64 bytes for each record that the member applied, in mapped files.

A slot survives the SIGKILL of its writer, because its file is mapped. The member writes the time of the effect last. So
a slot whose time is 0 is no effect, whatever else the slot holds. The member fills the slots in the order of the
effects, without gaps. 64 divides the page size, so that no slot lies on two pages.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from delivery_verifier.applications.lives import LifeEnd, lives_of, members_of, read_end, write_end
from delivery_verifier.applications.sink import (
    EFFECT,
    LifeEffects,
    PlannedEffect,
    Sink,
    SinkInputs,
    count_of_life,
    identity,
)
from delivery_verifier.model import record
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.history import now_us

SLOTS = 1 << 16
"""The number of slots in one file."""
SLOT = EFFECT
"""The form of a slot. `order` is in ns of the host's monotonic clock. `applied_at` is the last field."""
_BEFORE_TIME = struct.Struct("<4q5iI")
_TIME = struct.Struct("<q")


class DamagedSlots(VerifierError, ValueError):
    """The slots of a member have a gap: an empty slot before a filled slot. No member leaves a gap, even if it is
    killed."""


class SlotWriter:
    """Fills the slots of one life of a member. The attribute `count` is the number of slots filled so far.

    `folder` is the folder of the life. It must hold no slots yet.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._map: mmap.mmap | None = None
        self.count = 0

    def append(
        self, partition: int, offset: int, batch: int, value: bytes | None, run_token: str, arm_ordinal: int
    ) -> None:
        """Applies a record: fills the next slot. Once this returns, the effect survives the end of the process.

        `run_token` is the token of the run. `arm_ordinal` is the ordinal of the arm.
        """
        number, index = divmod(self.count, SLOTS)
        if self._map is None or not index:
            self._map = _new_file(self._folder / f"slots-{number:06d}")
        start = index * SLOT.itemsize
        sequence, partition_sequence, producer, session, attempt, flags = identity(value, run_token, arm_ordinal)
        fields = (offset, time.monotonic_ns(), sequence, partition_sequence, partition, producer, session, attempt)
        _BEFORE_TIME.pack_into(self._map, start, *fields, batch, flags)
        _TIME.pack_into(self._map, start + _BEFORE_TIME.size, now_us())
        self.count += 1


def is_marker(value: bytes | None) -> bool:
    """Returns whether a record is a marker, i.e. a record that the verifier writes to a partition after the load."""
    header = record.parse(value or b"")
    return header is not None and header.crc_ok and header.producer == record.MARKER_PRODUCER


def read_slots(folder: Path) -> npt.NDArray[np.void]:
    """Returns the filled slots in `folder`, in the order of the effects. The items of the array have the form SLOT (the
    NumPy type of a slot).

    Raises DamagedSlots if a filled slot stands after an empty slot.
    """
    files = sorted(folder.glob("slots-*"))
    slots = np.empty(sum(file.stat().st_size for file in files) // SLOT.itemsize, SLOT)
    begin = 0
    for file in files:
        part = np.fromfile(file, SLOT)
        slots[begin : begin + len(part)] = part
        begin += len(part)
    slots = slots[:begin]
    filled = slots["applied_at"] != 0
    count = int(filled.sum())
    if not filled[:count].all():
        raise DamagedSlots(f"{folder}: a slot is filled behind one that is not")
    return slots[:count]


class Slots(Sink):
    """The sink of the verifier's own applications: each life of a member writes slots to files in its own folder."""

    def read(self, inputs: SinkInputs) -> Iterator[LifeEffects]:
        """Yields the effects of each life. Raises the same errors as `read_slots`, and FileNotFoundError if the
        supervisor did not write down how a life ended."""
        for member, folder in members_of(inputs.folder).items():
            for life, path in lives_of(folder).items():
                rows = read_slots(path)
                yield LifeEffects(member, life, rows, count_of_life(read_end(path), len(rows), 1))

    def plant(self, inputs: SinkInputs, effects: Sequence[PlannedEffect]) -> None:
        """Writes `effects` to slots, as member 0 would in its life 0."""
        folder = inputs.folder / "0" / "0"
        writer = SlotWriter(folder)
        for effect in effects:
            writer.append(effect.partition, effect.offset, 0, effect.value, inputs.run_token, inputs.arm.ordinal)
        write_end(folder, LifeEnd(applied=writer.count, exit_code=0, killed=False))


def _new_file(file: Path) -> mmap.mmap:
    size = SLOTS * SLOT.itemsize
    with file.open("x+b") as stream:
        stream.truncate(size)
        return mmap.mmap(stream.fileno(), size)
