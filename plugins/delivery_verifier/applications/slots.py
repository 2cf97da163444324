"""The effects of a life: slots of 64 bytes in mapped files. What was written before a SIGKILL survives it whole."""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np

from delivery_verifier.model import record

SLOTS = 65_536
SLOT = np.dtype(
    [
        ("offset", "<i8"),
        ("order", "<i8"),
        ("sequence", "<i8"),
        ("partition_sequence", "<i8"),
        ("partition", "<i4"),
        ("producer", "<i4"),
        ("session", "<i4"),
        ("attempt", "<i4"),
        ("batch", "<i4"),
        ("flags", "<u4"),
        ("applied_at", "<i8"),
    ]
)
_FIELDS = struct.Struct("<qqqqiiiiiI")
_TIME = struct.Struct("<q")
PARSED, CRC_OK, FOREIGN = 1, 2, 4


class SlotWriter:
    """Writes the effects of one life into its `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number, self._count = folder, 0, SLOTS
        self._map: mmap.mmap | None = None

    def append(self, partition: int, offset: int, batch: int, value: bytes, run_token: str, arm_ordinal: int) -> None:
        """Writes one effect. `value` is the value of the record that is applied."""
        if self._count == SLOTS or self._map is None:
            file = self._folder / f"slots-{self._number:06d}"
            with file.open("w+b") as stream:
                stream.truncate(SLOTS * SLOT.itemsize)
                self._map = mmap.mmap(stream.fileno(), SLOTS * SLOT.itemsize)
            self._number, self._count = self._number + 1, 0
        header, numbers, flags = record.parse(value), (0, 0, 0, 0, 0), 0
        if header is not None:
            numbers = (
                header.sequence,
                header.partition_sequence,
                header.producer,
                header.session,
                header.attempt,
            )
            flags = PARSED | CRC_OK * header.crc_ok | FOREIGN * ((header.run, header.arm) != (run_token, arm_ordinal))
        sequence, partition_sequence, producer, session, attempt = numbers
        start = self._count * SLOT.itemsize
        fields = (sequence, partition_sequence, partition, producer, session, attempt, batch, flags)
        _FIELDS.pack_into(self._map, start, offset, time.monotonic_ns(), *fields)
        _TIME.pack_into(self._map, start + _FIELDS.size, time.time_ns() // 1000)
        self._count += 1


def is_marker(value: bytes) -> bool:
    """Whether `value` is the value of a marker."""
    header = record.parse(value)
    return header is not None and header.producer == record.MARKER_PRODUCER


def read_slots(folder: Path) -> Any:
    """Returns the effects of the life in `folder`, in order, as an array of SLOT."""
    files = [np.fromfile(file, SLOT) for file in sorted(folder.glob("slots-*"))]
    slots = np.concatenate(files) if files else np.zeros(0, SLOT)
    return slots[slots["applied_at"] > 0]
