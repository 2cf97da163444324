"""The snapshot, which the step settle takes. It says which offsets of each partition hold the records that the verifier
judges."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from delivery_verifier.model.held_back import HeldBack
from delivery_verifier.model.unreadable import Unreadable


class PartitionSnapshot(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One partition at the end of the load. The records that the verifier judges are at the offsets [start, end).

    Markers stand from `end` on. The verifier wrote the markers to prove where the load ends.

    * `end`: the offset of the first marker.
    * `live_end`: the offset directly after the last marker. A record there or later shows that the log grew after the
      snapshot.
    * `control_records`: how many control records of transactions are in [start, end). No consumer shows control
      records.
    * `aborted_records`: how many records of aborted transactions are in [start, end). No read_committed consumer shows
      them. The headers of Kafka's record batches give `control_records` and `aborted_records`.
    * `unreadable`: the ranges of offsets in [start, live_end) that nobody can read, in ascending order.
    * `held_back`: the open transactions that hold back the last stable offset; None if it is behind the last marker. If
      it is given, `aborted_records` counts only records before the last stable offset.
    """

    arm: str
    topic: str
    partition: int
    start: int
    end: int
    live_end: int
    leader: int
    leader_epoch: int
    control_records: int = 0
    aborted_records: int = 0
    unreadable: tuple[Unreadable, ...] = ()
    held_back: HeldBack | None = None

    @property
    def visible_end(self) -> int:
        """The end of the offsets that a read_committed consumer can get: `end`, or an earlier last stable offset."""
        return self.end if self.held_back is None else min(self.end, self.held_back.last_stable_offset)

    @property
    def visible_controls(self) -> int:
        """The number of control records in [start, visible_end)."""
        return self.control_records - (0 if self.held_back is None else self.held_back.control_records)


class Offsets(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The snapshot of a run: the content of offsets.json. The step `settle` takes the snapshot once.

    `taken_at_us` is in µs since the epoch. `rounds` is how many markers were written to each partition. A marker has
    the header of a record: the header's field `sequence` holds the number of the round, from 0 on, and the header's
    field `attempt` holds the partition.
    """

    bootstrap_servers: str
    taken_at_us: int
    partitions: list[PartitionSnapshot]
    rounds: int = 0

    @property
    def records(self) -> int:
        """The number of offsets in the snapshot, in all partitions together. Some of these offsets may hold control
        records."""
        return sum(part.end - part.start for part in self.partitions)


def read_offsets(text: bytes) -> Offsets:
    """Reads the content of offsets.json strictly. Raises msgspec.MsgspecError if a field is wrong. The message names
    the field."""
    return msgspec.json.decode(text, type=Offsets)
