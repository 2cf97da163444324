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

DECISIVE = ("arm", "topic", "partition", "start", "end", "leader", "leader_epoch")
"""The fields of a partition of the snapshot that decide whether an early reading counts. The other fields say nothing
about the range that is read."""
_log = logging.getLogger(__name__)


class Reading(NamedTuple):
    """A finished reading of all replicas.

    * `table`: REPLICAS.
    * `took_ms`: how long the reading took, in milliseconds.
    * `early`: whether the reading ran while the end of the snapshot was being proven.
    """

    table: pa.Table
    took_ms: int
    early: bool


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
            return _read(self._cluster, snapshot, early=False)
        return self._reading

    def _read(self) -> None:
        try:
            self._reading = _read(self._cluster, self._expected, early=True)
        except Exception as error:  # `result` then reads again, and raises what is still wrong
            _log.info("the replicas will be read again: %r", error)


def _read(cluster: Cluster, partitions: Sequence[PartitionSnapshot], early: bool) -> Reading:
    began_s = time.monotonic()
    table = read_replicas(cluster, partitions)
    return Reading(table, round(1000 * (time.monotonic() - began_s)), early)


def _decisive(part: PartitionSnapshot) -> tuple[object, ...]:
    return tuple(getattr(part, name) for name in DECISIVE)
