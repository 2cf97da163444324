"""Reads every replica of the snapshot, and compares each follower's log with its leader's.

Spark compares single records, but only those in the leaders' logs. If a follower's log differs from its leader's below
the high watermark, nobody sees this until the follower becomes leader. Each broker is read by a thread of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from delivery_verifier.cluster.connection import UnsupportedSecurity
from delivery_verifier.cluster.damage import unreadable
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.fetch import CORRUPT_MESSAGE, FETCH_BYTES, Refused
from delivery_verifier.cluster.replica_logs import FetchAt, ReplicaLog, difference, log_batches, read_log
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.model.history import PartitionSnapshot
from delivery_verifier.model.unreadable import Unreadable
from delivery_verifier.store.replicas import REPLICAS
from delivery_verifier.store.table import arrow_schema

_log = logging.getLogger(__name__)
DEADLINE_S = 60.0
"""Seconds in which the high watermarks of all replicas must pass the end of the snapshot."""


class _Replica(NamedTuple):
    """One replica of a partition. `partition`: the partition in the snapshot. `broker`: id of the replica's broker."""

    partition: PartitionSnapshot
    broker: int


_Logs = dict[_Replica, ReplicaLog | str]
"""The log of each replica, or the reason why it was not read."""


def read_replicas(cluster: Cluster, snapshot: Sequence[PartitionSnapshot], deadline_s: float = DEADLINE_S) -> pa.Table:
    """Returns the table `REPLICAS`: what each replica of the partitions in `snapshot` holds.

    A replica that cannot be read gets a row with the reason, and no digest. `deadline_s`: seconds in which the high
    watermarks of all replicas must pass the end of the snapshot.
    """
    states = cluster.partitions(sorted({partition.topic for partition in snapshot}))
    replicas = dict[int, list[_Replica]]()
    for partition in snapshot:
        state = states.get((partition.topic, partition.partition))
        for broker in sorted({partition.leader, *(state.replicas if state else ())}):
            replicas.setdefault(broker, []).append(_Replica(partition, broker))
    until_s, logs = time.monotonic() + deadline_s, _Logs()
    with ThreadPoolExecutor(len(replicas) or 1, "replicas") as pool:
        for of_broker in pool.map(lambda own: _read_broker(cluster, own, until_s), replicas.values()):
            logs |= of_broker
    rows = [_row(cluster, logs, replica) for replica in logs]
    order = [("arm", "ascending"), ("partition", "ascending"), ("broker", "ascending")]
    return pa.Table.from_pylist(rows, schema=arrow_schema(REPLICAS)).sort_by(order)


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


def _read_broker(cluster: Cluster, replicas: Sequence[_Replica], until_s: float) -> _Logs:
    """Returns the logs of `replicas`, which are all on one broker. A broker that does not answer is not asked again.

    `until_s` is the time, by the monotonic clock, until which the replicas must reach the end of the snapshot.
    """
    logs, silent = _Logs(), ""
    for replica in replicas:
        try:
            logs[replica] = silent or _read(cluster, replica, until_s)
        except (DeadlinePassed, Refused) as error:
            logs[replica] = str(error)
        except (OSError, UnsupportedSecurity) as error:
            logs[replica] = silent = str(error) or type(error).__name__
    return logs


def _read(cluster: Cluster, replica: _Replica, until_s: float) -> ReplicaLog:
    """Reads one replica once its high watermark has reached the end of the snapshot. Raises DeadlinePassed if that does
    not happen until `until_s` (monotonic clock), and OSError if the broker does not answer or refuses the request."""
    partition, broker = replica
    answers = ["none"]

    def whole() -> bool:
        try:
            answer = cluster.backend.requests.fetch(broker, partition.topic, partition.partition, partition.start, 1)
        except Refused as error:
            answers.append(str(error))
            return error.code == CORRUPT_MESSAGE  # waiting repairs nothing
        answers.append(str(answer.high_watermark))
        return answer.high_watermark >= partition.end

    what = f"the high watermark of {partition.topic}/{partition.partition} on broker {broker} to reach {partition.end}"
    wait_until(whole, what, max(0.0, until_s - time.monotonic()), detail=lambda: f"(last answer: {answers[-1]})")
    return read_log(log_batches(_fetch(cluster, replica), partition.start, partition.end), partition.start)


def _fetch(cluster: Cluster, replica: _Replica) -> FetchAt:
    """Returns a function that fetches batches of `replica`."""
    topic, partition = replica.partition.topic, replica.partition.partition
    return lambda offset: cluster.backend.requests.fetch(replica.broker, topic, partition, offset, FETCH_BYTES)


def _row(cluster: Cluster, logs: _Logs, replica: _Replica) -> dict[str, Any]:
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
            log_batches(_fetch(cluster, side), partition.start, partition.end)
            for side in (_Replica(partition, partition.leader), replica)
        ]
        differs = difference(sides[0], sides[1])
    except (OSError, UnsupportedSecurity) as error:
        return row | {"detail": f"the difference could not be located: {error}"}
    if differs is None:
        return row | {"detail": "a second reading showed no difference"}
    return row | {"differs_from": differs.first, "differs_until": differs.end, "detail": differs.detail}
