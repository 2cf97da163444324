"""Names the offsets that cannot be read from the leader of a partition, for the snapshot that the step settle takes."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec
import pyarrow as pa

from delivery_verifier.cluster.connection import UnsupportedSecurity
from delivery_verifier.cluster.damage import unreadable
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.model.snapshot import PartitionSnapshot
from delivery_verifier.model.unreadable import Unreadable

_log = logging.getLogger(__name__)


def with_unreadable(
    cluster: Cluster, snapshot: Sequence[PartitionSnapshot], replicas: pa.Table
) -> list[PartitionSnapshot]:
    """Returns the partitions of `snapshot`, each with the offsets that cannot be read from its leader.

    `replicas`: what `read_replicas` returned. Where the leader's log is known to be sound up to the end of the
    snapshot, only the markers behind this end are read again. If the leader cannot be asked, no offsets are named.
    Then the step reconcile cannot read the partition either, and fails.
    """
    rows = replicas.to_pylist()
    sound_until = {(row["arm"], row["partition"], row["broker"]): row["read_until"] for row in rows if row["sound"]}
    partitions = list[PartitionSnapshot]()
    for partition in snapshot:
        sound = sound_until.get((partition.arm, partition.partition, partition.leader), -1) >= partition.end
        ranges = _unreadable(cluster, partition, sound)
        partitions.append(msgspec.structs.replace(partition, unreadable=ranges))
    return partitions


def _unreadable(cluster: Cluster, partition: PartitionSnapshot, sound: bool) -> tuple[Unreadable, ...]:
    topic, number, leader = partition.topic, partition.partition, partition.leader
    begin, ranges = partition.end if sound else partition.start, list[Unreadable]()
    try:
        ranges.extend(
            unreadable(
                lambda offset, most_bytes: cluster.backend.requests.fetch(leader, topic, number, offset, most_bytes),
                begin,
                partition.live_end,
            )
        )
    except (OSError, UnsupportedSecurity) as error:
        _log.warning("the unreadable offsets of %s/%d may be incomplete: %s", topic, number, error)
    return tuple(ranges)
