"""Doubts about replicas: a replica that holds other records than its leader, and a replica that was not read.

The check of records reads only the leaders' logs. A replica that differs from its leader is reported as DIVERGED. This
is not an anomaly, because anomalies are about records. It is a coverage doubt, which forbids HELD, but not VIOLATED.
Reason: what the check proved of the leader's log does not hold for every replica.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from delivery_verifier.model.snapshot import PartitionSnapshot
from delivery_verifier.verdict.evidence import ArmEvidence


def replica_doubts(arm: ArmEvidence) -> Iterator[tuple[str, str]]:
    """Yields the name and the detail of a doubt for every replica of the arm's topic that differs from its leader or
    was not read."""
    rows = arm.run.replicas.to_pylist()
    for partition in arm.run.offsets.partitions:
        if partition.arm == arm.name:
            own = [row for row in rows if (row["arm"], row["partition"]) == (arm.name, partition.partition)]
            yield from _of_partition(partition, own, arm.run.scenario.load.replication_factor)


def _of_partition(partition: PartitionSnapshot, rows: list[dict[str, Any]], copies: int) -> Iterator[tuple[str, str]]:
    """Yields the doubts about the replicas of one partition.

    `rows`: the rows of `partition` in the table of the replicas. `copies`: how many replicas must have been read.
    """
    where = f"{partition.arm}/{partition.partition}"
    read = {row["broker"]: row for row in rows if row["digest"] is not None}
    for row in rows:
        if row["digest"] is None:
            yield "replica_not_read", f"{where}: the log of broker {row['broker']} was not read: {row['detail']}"
    if (known := len({row["broker"] for row in rows})) < copies:
        yield "replica_not_read", f"{where}: only {known} of {copies} replicas are known"
    leader = read.pop(partition.leader, None)
    if leader is None or leader["read_until"] < partition.end:
        end = None if leader is None else leader["read_until"]
        detail = f"the log of the leader, broker {partition.leader}, was read until {end}, must be {partition.end}"
        yield "replica_not_read", f"{where}: {detail}"
        return
    for broker, row in read.items():
        if row["digest"] != leader["digest"]:
            yield "replicas_differ", f"DIVERGED: {where}: {_difference(broker, partition.leader, row)}"


def _difference(broker: int, leader: int, row: dict[str, Any]) -> str:
    """Returns in words where the replica on `broker` differs from the replica on `leader`."""
    offsets = "" if row["differs_from"] is None else f", at offsets {row['differs_from']} to {row['differs_until'] - 1}"
    return f"the log of broker {broker} differs from that of the leader, broker {leader}{offsets}: {row['detail']}"
