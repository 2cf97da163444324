"""The layout of a load: which partition a sequence number goes to, computed and never stored.

Sequences are cut into blocks; blocks go round the partitions. So numbers are dense per producer and, as partition
sequences, dense per (producer, partition): loss, duplication and order can be checked without a join.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from delivery_verifier.model.data import Setting
from delivery_verifier.model.inputs import BadInput

LARGEST_BLOCK = 1000
BLOCKS_PER_SECOND = 150


class LoadLayout(NamedTuple):
    """`block` records in a row go to one partition."""

    block: int
    partitions: int

    def partition(self, sequence: int) -> int:
        """The partition of one sequence number."""
        return sequence // self.block % self.partitions

    def partition_sequence(self, sequence: int) -> int:
        """Its number within that partition."""
        return sequence // self.block // self.partitions * self.block + sequence % self.block

    def held(self, partition: int, end: int) -> int:
        """How many of the sequences [0, end) go to `partition`; `end` is a whole number of blocks."""
        return (end // self.block - partition + self.partitions - 1) // self.partitions * self.block

    def columns(self, first: int, count: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Partition and partition sequence of sequences [first, first + count)."""
        sequence = np.arange(first, first + count, dtype=np.int64)
        block = sequence // self.block
        return (block % self.partitions).astype(np.int32), block // self.partitions * self.block + sequence % self.block


def choose(records: int, rate: float, partitions: int) -> LoadLayout:
    """A block small enough for the rate (about 150 blocks a second) and for every partition to get its share."""
    by_rate = int(rate / BLOCKS_PER_SECOND)
    by_share = records // (partitions * 10)
    return LoadLayout(max(1, min(LARGEST_BLOCK, by_rate, by_share)), partitions)


def room(settings: Mapping[str, Setting], payload_bytes: int) -> int | None:
    """Records that fit into a producer's own queue, by its settings; None where they set no bound."""
    records = int(settings.get("queue.buffering.max.messages", 0))  # 0: no bound
    size = int(settings.get("queue.buffering.max.kbytes", 0)) * 1024 // payload_bytes
    return min((bound for bound in (records, size) if bound), default=None)


def require_room(settings: Mapping[str, Setting], payload_bytes: int) -> None:
    """Raises BadInput where a full block could find no room: its records would be refused before they are sent."""
    found = room(settings, payload_bytes)
    if found is not None and found < 3 * LARGEST_BLOCK:
        raise BadInput(
            f"queue.buffering.max.* (buffer.memory) leaves room for {found} records of payload_bytes={payload_bytes}; "
            f"allowed: at least {3 * LARGEST_BLOCK}. Raise it, or send smaller records"
        )
