"""Finds the offsets that cannot be read from the leader of a partition, for the snapshot that the step settle takes."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import msgspec
import pyarrow as pa

from delivery_verifier.cluster.damage import FetchSome, Unclear, unreadable
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.fetch import Fetched, Refused
from delivery_verifier.cluster.security.names import UnsupportedSecurity
from delivery_verifier.host.waiting import DeadlinePassed
from delivery_verifier.model.snapshot import PartitionSnapshot
from delivery_verifier.model.unreadable import Unreadable
from delivery_verifier.settlement.replicas import TOO_LATE

_log = logging.getLogger(__name__)


def with_unreadable(
    cluster: Cluster, snapshot: Sequence[PartitionSnapshot], replicas: pa.Table, end_s: float
) -> tuple[list[PartitionSnapshot], dict[str, str]]:
    """Returns a pair: the partitions of `snapshot` with their unreadable offsets filled in, and notes. An offset is
    unreadable if it cannot be read from the partition's leader.

    `replicas`: the result of `read_replicas`. If this table proves that the leader's log is sound up to the end of the
    snapshot, the function reads only the markers behind the end again. `end_s`: until when all partitions must have
    been read, by the monotonic clock.

    If a log was not searched completely, e.g. because the leader did not answer or was too slow, some unreadable
    offsets may be missing in the result. The note `unreadable/<arm>/<partition>` then gives the reason. If the step
    reconcile cannot read the partition either, that step fails later.
    """
    rows = {(row["arm"], row["partition"], row["broker"]): row for row in replicas.to_pylist()}
    partitions, notes, silent = list[PartitionSnapshot](), dict[str, str](), dict[int, str]()
    for partition in snapshot:
        row = rows.get((partition.arm, partition.partition, partition.leader), {})
        late = row.get("detail") or ""
        why = silent.get(partition.leader) or (late if TOO_LATE in late else "")
        ranges = list[Unreadable]()
        if not why:
            begin = partition.end if row.get("sound") and row["read_until"] >= partition.end else partition.start
            try:
                ranges.extend(unreadable(_fetch(cluster, partition, end_s), begin, partition.live_end))
            except (DeadlinePassed, Refused, Unclear) as error:
                why = str(error)
            except (OSError, UnsupportedSecurity) as error:
                why = silent[partition.leader] = str(error) or type(error).__name__
        if why:
            notes[f"unreadable/{partition.arm}/{partition.partition}"] = f"not all of it was looked at: {why}"
            name = f"{partition.topic}/{partition.partition}"
            _log.warning("the unreadable offsets of %s may be incomplete: %s", name, why)
        partitions.append(msgspec.structs.replace(partition, unreadable=tuple(ranges)))
    return partitions, notes


def _fetch(cluster: Cluster, partition: PartitionSnapshot, end_s: float) -> FetchSome:
    """Returns a function that fetches batches from the leader. Once `end_s` has passed, this function raises
    DeadlinePassed."""
    topic, number, leader = partition.topic, partition.partition, partition.leader

    def fetch(offset: int, most_bytes: int) -> Fetched:
        if time.monotonic() >= end_s:
            raise DeadlinePassed(f"the search for unreadable offsets {TOO_LATE} the time for the replicas")
        return cluster.requests.fetch(leader, topic, number, offset, most_bytes)

    return fetch
