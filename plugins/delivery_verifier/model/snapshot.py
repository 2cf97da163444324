"""The snapshot: which offsets of each partition hold the records that the verifier judges. The step settle takes it."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from delivery_verifier.model.unreadable import Unreadable


class PartitionSnapshot(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One partition at the end of the load. The records that the verifier judges are at the offsets [start, end).

    Behind them stand markers: records that the verifier wrote, to prove where the records before them end. `end` is the
    offset of the first marker. `live_end` is the offset behind the last marker. If there is a record at or behind
    `live_end`, the log still grew after the snapshot. `control_records` is the number of control records of
    transactions in [start, end), which no consumer shows. `aborted_records` is the number of records of aborted
    transactions in [start, end), which no read_committed consumer shows. Both numbers come from the headers of Kafka's
    record batches. `log_append_time` is always False, and no code reads it. The field remains because stored
    offsets.json files have it. `unreadable`: ascending, in [start, live_end).
    """

    arm: str
    topic: str
    partition: int
    start: int
    end: int
    live_end: int
    leader: int
    leader_epoch: int
    log_append_time: bool = False
    control_records: int = 0
    aborted_records: int = 0
    unreadable: tuple[Unreadable, ...] = ()


class Offsets(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The snapshot of a run: the content of offsets.json. The step `settle` takes the snapshot once.

    `taken_at_us` is in µs since the epoch.
    """

    bootstrap_servers: str
    taken_at_us: int
    partitions: list[PartitionSnapshot]


def read_offsets(text: bytes) -> Offsets:
    """Reads the content of offsets.json strictly. Raises msgspec.MsgspecError, which names the wrong field."""
    return msgspec.json.decode(text, type=Offsets)
