"""Reads the replicas while the step settle still proves where the snapshot ends.

The proof takes at least a second, in which settle would only wait. Its first markers already show where the snapshot
will end, unless further records arrive. So the reading can begin then.

An early reading counts only if the snapshot is as expected: each partition has the same bounds, and the same leader in
the same leader epoch. Kafka increments the leader epoch with each election (KIP-101, KIP-320). So there was no election
in between, and no replica has truncated its log below the high watermark.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.model.snapshot import PartitionSnapshot
from delivery_verifier.run.replicas import read_replicas

_log = logging.getLogger(__name__)


class Reading(NamedTuple):
    """A finished reading of all replicas. `table`: REPLICAS. `took_ms`: how long the reading took, in milliseconds."""

    table: pa.Table
    took_ms: int


class EarlyReading:
    """A reading of all replicas that runs in a thread of its own, from the call of `begin` on.

    The thread is a daemon. So the step does not wait for a slow broker if the step fails meanwhile.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._expected: list[PartitionSnapshot] = []
        self._reading: Reading | None = None
        self._thread = threading.Thread(target=self._read, name="early reading", daemon=True)

    def begin(self, expected: Sequence[PartitionSnapshot]) -> None:
        """Begins to read the replicas of `expected`: the partitions as the snapshot will probably have them."""
        self._expected = [*expected]
        self._thread.start()

    def result(self, snapshot: Sequence[PartitionSnapshot]) -> Reading:
        """Returns the reading of the replicas of `snapshot`. Waits for the early reading. If `snapshot` is not as
        expected, or if the early reading failed, reads the replicas again.

        Raises the errors of `read_replicas`.
        """
        self._thread.join()
        if self._reading is None or [_decisive(part) for part in snapshot] != [_decisive(p) for p in self._expected]:
            return _read(self._cluster, snapshot)
        return self._reading

    def _read(self) -> None:
        try:
            self._reading = _read(self._cluster, self._expected)
        except Exception as error:  # `result` then reads again, and raises what is still wrong
            _log.info("the replicas will be read again: %r", error)


def _read(cluster: Cluster, partitions: Sequence[PartitionSnapshot]) -> Reading:
    began_s = time.monotonic()
    table = read_replicas(cluster, partitions)
    return Reading(table, round(1000 * (time.monotonic() - began_s)))


def _decisive(part: PartitionSnapshot) -> tuple[str, str, int, int, int, int, int]:
    """Returns what decides whether a reading of the replicas of `part` counts."""
    return part.arm, part.topic, part.partition, part.start, part.end, part.leader, part.leader_epoch
