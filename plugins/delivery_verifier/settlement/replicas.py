"""Reads every replica of the snapshot, and compares the log of each follower with the log of its leader.

Spark reads only the leaders' logs. If a follower's log differs below the high watermark, no other part of the verifier
notices this until the follower becomes leader. One thread per broker reads the broker's replicas. The threads are
daemons. So the step does not wait for a slow broker if the step is interrupted or misses its deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.fetch import CORRUPT_MESSAGE, FETCH_BYTES, Fetched, Refused
from delivery_verifier.cluster.replica_logs import FetchAt, ReplicaLog, difference, log_batches, read_log
from delivery_verifier.cluster.security.names import UnsupportedSecurity
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.model.snapshot import PartitionSnapshot
from delivery_verifier.run_directory.replicas import REPLICAS
from delivery_verifier.run_directory.table import arrow_schema

DEADLINE_S = 60.0
"""Seconds in which the high watermarks of all replicas must reach the end of the snapshot."""
READING_S = 600.0
"""Seconds in which all replicas must have been read and compared, including the wait of DEADLINE_S."""

TOO_LATE = "did not end within"
"""Part of the text that says why a replica was not read: reading it took longer than the time that was left."""


class _Replica(NamedTuple):
    """One replica of a partition. `partition`: the partition in the snapshot. `broker`: the id of the broker that has
    the replica."""

    partition: PartitionSnapshot
    broker: int


_Logs = dict[_Replica, ReplicaLog | str]
"""Maps each replica to its log, or to a text that says why the replica was not read."""


class _Deadlines(NamedTuple):
    """The deadlines for the reading of all replicas, by the monotonic clock.

    * `in_sync_s`: until when the high watermarks must have reached the end of the snapshot.
    * `end_s`: until when all replicas must have been read.
    * `reading_s`: the seconds from the start of the reading to `end_s`.
    """

    in_sync_s: float
    end_s: float
    reading_s: float

    def check(self) -> None:
        """Raises DeadlinePassed once `end_s` has passed."""
        if time.monotonic() >= self.end_s:
            raise DeadlinePassed(self.passed)

    @property
    def passed(self) -> str:
        """The text for a replica that was not read before `end_s`."""
        return f"the reading of all replicas {TOO_LATE} {self.reading_s:g} s"


def read_replicas(
    cluster: Cluster,
    snapshot: Sequence[PartitionSnapshot],
    deadline_s: float = DEADLINE_S,
    reading_s: float = READING_S,
) -> pa.Table:
    """Returns the table `REPLICAS`: what each replica of the partitions in `snapshot` holds.

    If a replica cannot be read, or was not read in time, its row has no digest, and gives the reason. `deadline_s`:
    within how many seconds the high watermarks of all replicas must reach the end of the snapshot. `reading_s`: within
    how many seconds all replicas must have been read.
    """
    now_s = time.monotonic()
    deadlines = _Deadlines(now_s + min(deadline_s, reading_s), now_s + reading_s, reading_s)
    states = cluster.partitions(sorted({partition.topic for partition in snapshot}))
    replicas = dict[int, list[_Replica]]()
    for partition in snapshot:
        state = states.get((partition.topic, partition.partition))
        for broker in sorted({partition.leader, *(state.replicas if state else ())}):
            replicas.setdefault(broker, []).append(_Replica(partition, broker))
    logs = _read_brokers(cluster, replicas, deadlines)
    rows = [_row(cluster, logs, replica, deadlines) for replica in logs]
    order = [("arm", "ascending"), ("partition", "ascending"), ("broker", "ascending")]
    return pa.Table.from_pylist(rows, schema=arrow_schema(REPLICAS)).sort_by(order)


def _read_brokers(cluster: Cluster, replicas: Mapping[int, Sequence[_Replica]], deadlines: _Deadlines) -> _Logs:
    """Reads `replicas`, which maps a broker to the replicas on this broker. Returns a mapping from each replica to its
    log.

    If a replica was not read in time, the mapping has a text with the reason in place of its log. If a thread fails
    with an unexpected error, raises this error.
    """
    done, errors = _Logs(), list[BaseException]()

    def read(own: Sequence[_Replica]) -> None:
        try:
            _read_broker(cluster, own, deadlines, done)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read, args=(own,), name="replicas", daemon=True) for own in replicas.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadlines.end_s - time.monotonic()))
    if errors:
        raise errors[0]
    read_until_now = dict(done)  # a thread may still add to it
    return {replica: read_until_now.get(replica, deadlines.passed) for own in replicas.values() for replica in own}


def _read_broker(cluster: Cluster, replicas: Sequence[_Replica], deadlines: _Deadlines, done: _Logs) -> None:
    """Reads `replicas`, which are all on one broker, and adds their logs to `done`. If the broker does not answer a
    request, sends no further request to this broker, and adds the reason in place of each log."""
    silent = ""
    for replica in replicas:
        try:
            done[replica] = silent or _read(cluster, replica, deadlines)
        except (DeadlinePassed, Refused) as error:
            done[replica] = str(error)
        except (OSError, UnsupportedSecurity) as error:
            done[replica] = silent = str(error) or type(error).__name__


def _read(cluster: Cluster, replica: _Replica, deadlines: _Deadlines) -> ReplicaLog:
    """Waits until the high watermark of `replica` has reached the end of the snapshot, and then reads the replica.
    Raises DeadlinePassed if one of the deadlines passes, and OSError if the broker does not answer or refuses a
    request."""
    partition, broker = replica
    answers = ["none"]

    def whole() -> bool:
        deadlines.check()
        try:
            answer = cluster.requests.fetch(broker, partition.topic, partition.partition, partition.start, 1)
        except Refused as error:
            answers.append(str(error))
            return error.code == CORRUPT_MESSAGE  # waiting repairs nothing
        answers.append(str(answer.high_watermark))
        return answer.high_watermark >= partition.end

    what = f"the high watermark of {partition.topic}/{partition.partition} on broker {broker} to reach {partition.end}"
    remaining_s = max(0.0, deadlines.in_sync_s - time.monotonic())
    wait_until(whole, what, remaining_s, detail=lambda: f"(last answer: {answers[-1]})")
    return read_log(log_batches(_fetch(cluster, replica, deadlines), partition.start, partition.end), partition.start)


def _fetch(cluster: Cluster, replica: _Replica, deadlines: _Deadlines) -> FetchAt:
    """Returns a function that fetches batches of `replica`. Once `end_s` has passed, this function raises
    DeadlinePassed."""
    topic, partition = replica.partition.topic, replica.partition.partition

    def fetch(offset: int) -> Fetched:
        deadlines.check()
        return cluster.requests.fetch(replica.broker, topic, partition, offset, FETCH_BYTES)

    return fetch


def _row(cluster: Cluster, logs: _Logs, replica: _Replica, deadlines: _Deadlines) -> dict[str, Any]:
    """Returns the row of `replica` in the table REPLICAS. `logs` holds the logs of all replicas.

    If the log of `replica` differs from the leader's log, reads both logs again to find the difference.
    """
    partition, log = replica.partition, logs[replica]
    row: dict[str, Any] = {"arm": partition.arm, "partition": partition.partition, "broker": replica.broker}
    if isinstance(log, str):
        return row | {"detail": log}
    row |= {"digest": log.digest, "read_until": log.read_until, "batches": log.batches, "sound": log.sound}
    row |= {"epochs": list(log.epochs), "epoch_starts": list(log.epochs.values())}
    leader = logs[_Replica(partition, partition.leader)]
    if isinstance(leader, str) or leader.digest == log.digest:
        return row
    try:
        sides = [
            log_batches(_fetch(cluster, side, deadlines), partition.start, partition.end)
            for side in (_Replica(partition, partition.leader), replica)
        ]
        differs = difference(sides[0], sides[1])
    except (OSError, UnsupportedSecurity) as error:
        return row | {"detail": f"the difference could not be located: {error}"}
    if differs is None:
        return row | {"detail": "a second reading showed no difference"}
    return row | {"differs_from": differs.first, "differs_until": differs.end, "detail": differs.detail}
