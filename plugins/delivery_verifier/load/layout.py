"""The layout of a load: which partition a sequence goes to, and how much of the load fits into the client's queue.

* A sequence is the number of a record among all records of its producer.
* A partition sequence is the number of an attempt among its producer's attempts to the same partition.
* A block is a fixed number of consecutive sequences. Each block goes to one partition, and the blocks go to the
  partitions in turn.

Sequences and partition sequences begin at 0 and have no gaps. So loss, duplication and order can be checked without a
join. The layout is computed and never stored. It ignores resends (see `resends`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from delivery_verifier.model.data import Setting
from delivery_verifier.model.inputs import BadInput

LARGEST_BLOCK = 2000
LARGEST_BLOCK_BYTES = 1_000_000
BLOCKS_PER_SECOND = 150
LEAST_ROOM = 3000
"""The least number of records that the queue of a producer's client must have room for."""
QUEUE_RECORDS = 200_000
QUEUE_BYTES = 400_000_000
"""A producer fills its client's queue until the queue holds QUEUE_RECORDS records or QUEUE_BYTES bytes, whichever comes
first. There is one exception: the queue may always hold four blocks, unless the producer's settings ask for a shorter
queue (see `queue_limit`)."""


class LoadLayout(NamedTuple):
    """The layout of one producer's load.

    `block` consecutive sequences go to one partition, and the next `block` sequences go to the next partition. After
    the last of the `partitions` partitions, the first partition follows again.
    """

    block: int
    partitions: int

    def partition(self, sequence: int) -> int:
        """Returns the partition to which the record with the number `sequence` goes."""
        return sequence // self.block % self.partitions

    def partition_sequence(self, sequence: int) -> int:
        """Returns the partition sequence of the first attempt to send the record `sequence`.

        The result is right only for a load without resends, because each resend takes a partition sequence, too.
        """
        return sequence // self.block // self.partitions * self.block + sequence % self.block

    def count_in(self, partition: int, end: int) -> int:
        """Returns how many of the first `end` records go to `partition`. `end` is a multiple of `block`."""
        return (end // self.block - partition + self.partitions - 1) // self.partitions * self.block

    def columns(self, first: int, count: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Returns two arrays about the records with the numbers [first, first + count).

        The first array holds the partition of each record. The second array holds the partition sequence of each
        record's first attempt. The result ignores resends.
        """
        sequence = np.arange(first, first + count, dtype=np.int64)
        block = sequence // self.block
        return (block % self.partitions).astype(np.int32), block // self.partitions * self.block + sequence % self.block


def choose(records: int, rate: float, partitions: int, payload_bytes: int = 100, room: int | None = None) -> LoadLayout:
    """Returns a layout for a producer that sends `records` records of `payload_bytes` at `rate` records per second.

    The blocks are so small that the producer sends about 150 or more per second, and each partition gets about ten or
    more. A block has at most LARGEST_BLOCK records, and at most LARGEST_BLOCK_BYTES bytes if it has more than one
    record. Three blocks fit into the client's queue. `room` is the result of `queue_room`.
    """
    bounds = [LARGEST_BLOCK, LARGEST_BLOCK_BYTES // payload_bytes, int(rate / BLOCKS_PER_SECOND)]
    bounds.append(records // (partitions * 10))
    if room is not None:
        bounds.append(room // 3)
    return LoadLayout(max(1, min(bounds)), partitions)


def queue_room(settings: Mapping[str, Setting], payload_bytes: int) -> int | None:
    """Returns how many records fit into the client's queue. Returns None if `settings` set no limit for the queue.

    `settings` are the producer's settings. `payload_bytes` is the size of one record.
    """
    by_count = int(settings.get("queue.buffering.max.messages", 0))  # 0 means no bound
    by_size = int(settings.get("queue.buffering.max.kbytes", 0)) * 1024 // payload_bytes
    return min((bound for bound in (by_count, by_size) if bound), default=None)


def require_room(settings: Mapping[str, Setting], payload_bytes: int) -> None:
    """Raises BadInput unless the client's queue has room for LEAST_ROOM records.

    With little room, the client could refuse some records of a block. `settings` are the producer's settings.
    """
    room = queue_room(settings, payload_bytes)
    if room is not None and room < LEAST_ROOM:
        raise BadInput(
            f"queue.buffering.max.* (buffer.memory) leaves room for {room} records of payload_bytes={payload_bytes}; "
            f"allowed: at least {LEAST_ROOM}. Raise it, or send smaller records"
        )


def queue_limit(settings: Mapping[str, Setting], payload_bytes: int, block: int) -> int:
    """Returns the greatest length of the client's queue, in records, at which a producer still hands over a block.

    At this length the queue has room for two more blocks, so that the client refuses no record. `settings` are the
    producer's settings. `payload_bytes` is the size of one record.
    """
    limit = max(4 * block, min(QUEUE_RECORDS, QUEUE_BYTES // payload_bytes))
    room = queue_room(settings, payload_bytes)
    if room is None:
        return limit
    return max(0, min(limit, room - 2 * block))  # with a negative limit the producer would wait for ever
