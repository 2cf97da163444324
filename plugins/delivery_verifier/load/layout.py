"""The layout of a load: which partition a sequence goes to, and how much of the load fits into the client's queue.

Sequences are cut into blocks. The blocks go to the partitions in turn. So sequences are dense per producer, and
partition sequences are dense per (producer, partition): loss, duplication and order can be checked without a join. The
layout is computed and never stored.
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
QUEUE_RECORDS = 200_000
QUEUE_BYTES = 400_000_000
"""The greatest length of the client's queue, in records and in bytes, unless the settings ask for less."""


class LoadLayout(NamedTuple):
    """`block` consecutive sequences go to one partition, the next `block` to the next partition, and so on."""

    block: int
    partitions: int

    def partition(self, sequence: int) -> int:
        """The partition of one sequence number."""
        return sequence // self.block % self.partitions

    def partition_sequence(self, sequence: int) -> int:
        """The partition sequence of one sequence number: its number within its partition."""
        return sequence // self.block // self.partitions * self.block + sequence % self.block

    def count_in(self, partition: int, end: int) -> int:
        """How many of the sequences [0, end) go to `partition`; `end` is a whole number of blocks."""
        return (end // self.block - partition + self.partitions - 1) // self.partitions * self.block

    def columns(self, first: int, count: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Partition and partition sequence of sequences [first, first + count)."""
        sequence = np.arange(first, first + count, dtype=np.int64)
        block = sequence // self.block
        return (block % self.partitions).astype(np.int32), block // self.partitions * self.block + sequence % self.block


def choose(records: int, rate: float, partitions: int) -> LoadLayout:
    """A layout for `records` at `rate` per second.

    Its block is small enough for about 150 blocks a second, and for every partition to get its share of the records.
    """
    by_rate = int(rate / BLOCKS_PER_SECOND)
    by_share = records // (partitions * 10)
    return LoadLayout(max(1, min(LARGEST_BLOCK, by_rate, by_share)), partitions)


def queue_room(settings: Mapping[str, Setting], payload_bytes: int) -> int | None:
    """Records that fit into the client's queue according to its `settings`; None if the settings set no bound."""
    by_count = int(settings.get("queue.buffering.max.messages", 0))  # 0: no bound
    by_size = int(settings.get("queue.buffering.max.kbytes", 0)) * 1024 // payload_bytes
    return min((bound for bound in (by_count, by_size) if bound), default=None)


def require_room(settings: Mapping[str, Setting], payload_bytes: int) -> None:
    """Raises BadInput if the client's queue could lack room for a full block: it would refuse records of that block."""
    room = queue_room(settings, payload_bytes)
    if room is not None and room < 3 * LARGEST_BLOCK:
        raise BadInput(
            f"queue.buffering.max.* (buffer.memory) leaves room for {room} records of payload_bytes={payload_bytes}; "
            f"allowed: at least {3 * LARGEST_BLOCK}. Raise it, or send smaller records"
        )


def queue_limit(settings: Mapping[str, Setting], payload_bytes: int, block: int) -> int:
    """Records in the client's queue above which a producer hands over no further block."""
    limit = max(4 * block, min(QUEUE_RECORDS, QUEUE_BYTES // payload_bytes))
    room = queue_room(settings, payload_bytes)
    if room is None:
        return limit
    return max(0, min(limit, room - 2 * block))  # with a negative limit the producer would wait for ever
