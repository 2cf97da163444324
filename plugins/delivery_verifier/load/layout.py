"""The layout of a load: which partition each record goes to, and how many records fit into the client's queue.

* A sequence is the number of a record among all records of its producer.
* A partition sequence is the number of an attempt among its producer's attempts to the same partition.
* A block is a fixed number of consecutive sequences. All records of a block go to one partition. Successive blocks go
  to the partitions in turn.

Sequences and partition sequences begin at 0 and have no gaps. So loss, duplication and order can be checked without a
join. The layout is computed and never stored. The layout ignores resends (see `resends`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from delivery_verifier.model.data import Setting
from delivery_verifier.model.fault_plan import FaultPlan
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.partition_growth import growth_of
from delivery_verifier.model.scenario import Arm, Load

LARGEST_BLOCK = 2000
LARGEST_BLOCK_BYTES = 1_000_000
BLOCKS_PER_SECOND = 150
UNLIMITED_RATE = 1e9
"""A rate, in records per second, that no producer reaches. A flat-out load, which is sent as fast as possible, has no
rate of its own. The size of its blocks is computed with this rate."""
LEAST_ROOM = 3000
"""The least number of records that the queue of a producer's client must have room for."""
QUEUE_RECORDS = 200_000
QUEUE_BYTES = 400_000_000
"""A producer fills its client's queue until the queue holds QUEUE_RECORDS records or QUEUE_BYTES bytes, whichever comes
first. There is one exception: the queue may always hold four blocks, unless the producer's settings ask for a shorter
queue (see `queue_limit`)."""


class LoadLayout(NamedTuple):
    """The layout of one producer's load.

    `block` consecutive sequences go to one partition, and the next `block` sequences go to the next partition. The last
    of the `partitions` partitions is followed by the first partition: this is a round. In the first `first_rounds`
    rounds, only the first `first_partitions` partitions are there (see `model.partition_growth`).
    """

    block: int
    partitions: int
    first_partitions: int = 0
    first_rounds: int = 0

    @property
    def _first_blocks(self) -> int:
        return self.first_rounds * self.first_partitions

    def _position(self, block: int) -> tuple[int, int]:
        """Returns the partition of a block, and how many blocks go there before it."""
        later = block - self._first_blocks
        if later < 0:
            return block % self.first_partitions, block // self.first_partitions
        partition = later % self.partitions
        return partition, later // self.partitions + self.first_rounds * (partition < self.first_partitions)

    def grows_at(self, sequence: int) -> bool:
        """Returns whether the record `sequence` is the first one that is sent when the new partitions are there."""
        return bool(self.first_rounds) and sequence == self._first_blocks * self.block

    def rounds(self, end: int) -> int:
        """Returns how many whole rounds there are among the first `end` records."""
        blocks = end // self.block
        if blocks < self._first_blocks:
            return blocks // self.first_partitions
        return self.first_rounds + (blocks - self._first_blocks) // self.partitions

    def end_of_rounds(self, rounds: int) -> int:
        """Returns how many records the first `rounds` rounds have."""
        first = min(rounds, self.first_rounds)
        return (first * self.first_partitions + (rounds - first) * self.partitions) * self.block

    def partition(self, sequence: int) -> int:
        """Returns the partition of the record with the number `sequence`."""
        return self._position(sequence // self.block)[0]

    def partition_sequence(self, sequence: int) -> int:
        """Returns the partition sequence of the first attempt to send the record `sequence`.

        The result is right only for a load without resends, because each resend takes a partition sequence, too.
        """
        return self._position(sequence // self.block)[1] * self.block + sequence % self.block

    def count_in(self, partition: int, end: int) -> int:
        """Returns the number of records that go to `partition`, among the first `end` records. `end` is a multiple of
        `block`."""
        first = min(end // self.block, self._first_blocks)
        blocks = (end // self.block - first - partition + self.partitions - 1) // self.partitions
        if partition < self.first_partitions:
            blocks += (first - partition + self.first_partitions - 1) // self.first_partitions
        return blocks * self.block

    def columns(self, first: int, count: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """Returns two arrays about the `count` records whose numbers begin with `first`.

        The first array holds the partition of each record. The second array holds the partition sequence of each
        record's first attempt. Both arrays are right only for a load without resends.
        """
        sequence = np.arange(first, first + count, dtype=np.int64)
        block = sequence // self.block
        later, first = block - self._first_blocks, max(self.first_partitions, 1)
        partition = np.where(later < 0, block % first, later % self.partitions)
        earlier = later // self.partitions + self.first_rounds * (partition < self.first_partitions)
        number = np.where(later < 0, block // first, earlier)
        return partition.astype(np.int32), number * self.block + sequence % self.block


def choose(records: int, rate: float, partitions: int, payload_bytes: int = 100, room: int | None = None) -> LoadLayout:
    """Returns a layout for a producer that sends `records` records of `payload_bytes` at `rate` records per second.

    A block is as large as these limits allow. If the limits allow no block, a block has one record.

    * The producer sends at least 150 blocks per second (BLOCKS_PER_SECOND).
    * Each partition gets at least ten blocks.
    * A block has at most 2000 records (LARGEST_BLOCK) and at most 1 MB (LARGEST_BLOCK_BYTES).
    * Three blocks fit into the client's queue. `room` is the result of `queue_room`.
    """
    bounds = [LARGEST_BLOCK, LARGEST_BLOCK_BYTES // payload_bytes, int(rate / BLOCKS_PER_SECOND)]
    bounds.append(records // (partitions * 10))
    if room is not None:
        bounds.append(room // 3)
    return LoadLayout(max(1, min(bounds)), partitions)


def of_arm(load: Load, arm: Arm, fault: FaultPlan | None = None) -> LoadLayout:
    """Returns the layout of each producer of `arm`. Without `fault`, the layout of a load whose topics do not grow."""
    records = records_of_producer(arm)
    room = queue_room(arm.profile.producer, load.payload_bytes)
    chosen = choose(records, rate_of_producer(load, arm) or UNLIMITED_RATE, load.partitions, load.payload_bytes, room)
    chosen = chosen._replace(block=load.block or chosen.block)
    growth = growth_of(load, fault) if fault is not None else None
    if growth is None or not growth.rounds:
        return chosen
    return chosen._replace(first_partitions=growth.partitions, first_rounds=growth.rounds)


def records_of_producer(arm: Arm) -> int:
    """Returns the least number of records that each producer of `arm` sends."""
    return -(-arm.records // arm.producers)


def rate_of_producer(load: Load, arm: Arm) -> float | None:
    """Returns the records per second of each producer of `arm`, or None if the load is sent as fast as possible.
    `load.rate` is the rate of a whole arm."""
    if load.rate is not None:
        return load.rate / arm.producers
    return None if load.pacing == "flat_out" else max(records_of_producer(arm) / load.duration_s, 1.0)


def queue_room(settings: Mapping[str, Setting], payload_bytes: int) -> int | None:
    """Returns the number of records that fit into the client's queue, or None if `settings` set no limit for the queue.

    `settings` are the producer's settings. `payload_bytes` is the size of one record.
    """
    by_count = int(settings.get("queue.buffering.max.messages", 0))  # 0 means no bound
    by_size = int(settings.get("queue.buffering.max.kbytes", 0)) * 1024 // payload_bytes
    return min((bound for bound in (by_count, by_size) if bound), default=None)


def require_room(settings: Mapping[str, Setting], payload_bytes: int) -> None:
    """Raises BadInput if fewer than 3000 records (LEAST_ROOM) fit into the client's queue.

    With little room, the client could refuse some records of a block. `settings` are the producer's settings.
    `payload_bytes` is the size of one record.
    """
    room = queue_room(settings, payload_bytes)
    if room is not None and room < LEAST_ROOM:
        raise BadInput(
            f"queue.buffering.max.* (buffer.memory) leaves room for {room} records of payload_bytes={payload_bytes}; "
            f"allowed: at least {LEAST_ROOM}. Raise it, or send smaller records"
        )


def queue_limit(settings: Mapping[str, Setting], payload_bytes: int, block: int) -> int:
    """Returns the greatest length of the client's queue, in records, at which a producer may hand over a block.

    At this length the queue has room for two more blocks of `block` records, so that the client refuses no record.
    `settings` are the producer's settings. `payload_bytes` is the size of one record.
    """
    limit = max(4 * block, min(QUEUE_RECORDS, QUEUE_BYTES // payload_bytes))
    room = queue_room(settings, payload_bytes)
    if room is None:
        return limit
    return max(0, min(limit, room - 2 * block))  # with a negative limit the producer would wait for ever
