"""Reads the replicas while the step settle still proves where the snapshot ends.

The proof takes at least a second, in which settle would only wait. Its first markers already show where the snapshot
will end, unless further records arrive. So the reading can begin then.

An early reading counts only if the snapshot is as expected: each partition has the same bounds, and the same leader in
the same leader epoch. Kafka increments the leader epoch with each election (KIP-101, KIP-320). So there was no election
in between. It also counts only if every replica was read, and agrees with its leader.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.model.snapshot import PartitionSnapshot
from delivery_verifier.settlement.replicas import READING_S, read_replicas

DECISIVE = ("arm", "topic", "partition", "start", "end", "leader", "leader_epoch")
"""The fields of a partition of the snapshot that decide whether an early reading counts. The other fields say nothing
about the range that is read."""
_log = logging.getLogger(__name__)


class Reading(NamedTuple):
    """A finished reading of all replicas.

    * `table`: REPLICAS.
    * `took_ms`: how long the reading took, in milliseconds.
    * `early`: whether the reading began before the snapshot was known.
    * `end_s`: until when all reading of the replicas must have ended, by the monotonic clock.
    """

    table: pa.Table
    took_ms: int
    early: bool
    end_s: float


class EarlyReading:
    """A reading of all replicas that runs in a thread of its own, from the call of `begin` on.

    The thread is a daemon. So the step does not wait for a slow broker if the step fails meanwhile.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._expected: Sequence[PartitionSnapshot] = ()
        self._reading: Reading | None = None
        self._thread: threading.Thread | None = None
        self._end_s: float | None = None

    def begin(self, expected: Callable[[], Sequence[PartitionSnapshot]]) -> None:
        """Begins to read the replicas of the partitions that `expected` returns: the partitions as the snapshot will
        probably have them. The thread calls `expected`."""
        self._end_s = time.monotonic() + READING_S
        self._thread = threading.Thread(target=self._read, args=(expected,), name="early reading", daemon=True)
        self._thread.start()

    def result(self, snapshot: Sequence[PartitionSnapshot]) -> Reading:
        """Returns the reading of the replicas of `snapshot`.

        Waits for the early reading. Reads the replicas now if there is no early reading, if the snapshot is not as
        expected, or if the early reading failed or could not read every replica. The early reading and this reading
        have READING_S seconds together. Raises the errors of `read_replicas`.
        """
        if self._thread is not None:
            self._thread.join()
        if self._reading is None or not _is_whole(self._reading.table):
            return self._read_now(snapshot, early=False)
        if [_decisive(part) for part in snapshot] != [_decisive(part) for part in self._expected]:
            return self._read_now(snapshot, early=False)
        return self._reading

    def _read(self, expected: Callable[[], Sequence[PartitionSnapshot]]) -> None:
        try:
            self._expected = expected()
            self._reading = self._read_now(self._expected, early=True)
        except Exception as error:  # `result` then reads again, and raises what is still wrong
            _log.info("the replicas will be read again: %r", error)

    def _read_now(self, partitions: Sequence[PartitionSnapshot], early: bool) -> Reading:
        began_s = time.monotonic()
        end_s = self._end_s or began_s + READING_S
        table = read_replicas(self._cluster, partitions, reading_s=max(0.0, end_s - began_s))
        return Reading(table, round(1000 * (time.monotonic() - began_s)), early, end_s)


def _is_whole(table: pa.Table) -> bool:
    """Returns whether every replica was read, and agrees with its leader. Where one does not, a second look is due."""
    return not any(table["detail"].is_valid().to_pylist())


def _decisive(part: PartitionSnapshot) -> tuple[object, ...]:
    return tuple(getattr(part, name) for name in DECISIVE)
