"""Takes the snapshot: the offset at which each partition ends, and how many records before this offset no consumer
sees.

No consumer sees control records, which end transactions. A read_committed consumer also does not see the records of
aborted transactions.

A *marker* is a record that this module writes with acks=all, to prove where a partition ends. The acknowledgement of a
marker proves that the high watermark has passed every record before the marker. Two markers with adjacent offsets prove
that no record came between them. The snapshot of a partition ends at the first of two adjacent markers that were
written at least a second apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.held_back import held_back
from delivery_verifier.cluster.protocol import batches
from delivery_verifier.host.waiting import pause, wait_until
from delivery_verifier.model import record
from delivery_verifier.model.history import now_us
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.settlement.acked_writer import AckedWriter

MARKERS_APART_S = 1.0
"""The least number of seconds between the two markers that prove the end of a partition's snapshot."""
DEADLINE_S = 60.0
"""The longest time in seconds that the step settle waits for each of three conditions: all replicas are in sync, the
ends of all partitions are proven, a transaction of the canary has ended."""
ANSWER_S = 60.0
"""The longest time in seconds that brokers may take to answer where the last stable offsets are."""


@dataclass
class _Markers:
    """The state of the markers of one partition. Markers are records that prove where the partition ends.

    `offset` is the offset of the last marker; -1 before the first. `written_at_s` is when the last marker was
    acknowledged, by the monotonic clock. `end` is the offset at which the snapshot ends; -1 while it is unknown.
    """

    offset: int = -1
    written_at_s: float = 0.0
    end: int = -1


_ArmPartitions = list[tuple[Arm, int]]
_MarkersByPartition = dict[tuple[str, int], _Markers]


def take_snapshot(
    scenario: Scenario,
    cluster: Cluster,
    writer: AckedWriter,
    meanwhile: Callable[[Callable[[], Sequence[PartitionSnapshot]]], None] | None,
) -> Offsets:
    """Writes markers until they prove where every partition ends. Returns the snapshot, which names these ends.

    If `meanwhile` is not None, calls it once, after the first markers. Its argument is a function, which any thread may
    call. This function returns what the snapshot will contain, unless further records arrive or a partition gets
    another leader. The result has no counts of unseen records.

    Raises TimeoutError if records still arrive after DEADLINE_S. Raises StepFailed if a marker is not acknowledged.
    """
    partitions = [(arm, partition) for arm in scenario.arms for partition in range(scenario.load.partitions)]
    markers = {(arm.name, partition): _Markers() for arm, partition in partitions}
    round_number, deadline_s = 0, time.monotonic() + DEADLINE_S
    while any(marker.end < 0 for marker in markers.values()):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"records still arrive {DEADLINE_S:g} s after the load ended: {markers}")
        _write_markers(scenario, writer, partitions, markers, round_number)
        round_number += 1
        if round_number == 1 and meanwhile is not None:
            ends = {key: _Markers(marker.offset, marker.written_at_s, marker.offset) for key, marker in markers.items()}
            meanwhile(partial(_bounds, cluster, partitions, ends))
        if round_number > 1 and all(marker.end >= 0 for marker in markers.values()):
            break
        _pause_until_s(max(marker.written_at_s for marker in markers.values()) + MARKERS_APART_S)
    return _offsets(scenario, cluster, partitions, markers, round_number)


def _pause_until_s(when_s: float) -> None:
    """Waits until the monotonic clock has passed `when_s`."""
    pause(max(0.0, when_s - time.monotonic()) + 0.001)


def _write_markers(
    scenario: Scenario,
    writer: AckedWriter,
    partitions: _ArmPartitions,
    markers: _MarkersByPartition,
    round_number: int,
) -> None:
    """Writes one marker to each partition, and updates `markers`. `round_number` distinguishes the new markers from
    earlier markers.

    * If the offset of the new marker does not directly follow the offset of the previous marker, a record came between.
      The end of the partition's snapshot is then unknown again.
    * If the two offsets are adjacent, and the markers were written at least MARKERS_APART_S apart, the previous marker
      is the end of the partition's snapshot. An end that is known already stays.
    """
    started_s = time.monotonic()
    values = [
        (arm.topic_name, partition, _marker_value(scenario, arm, partition, round_number))
        for arm, partition in partitions
    ]
    for (arm, partition), offset in zip(partitions, writer.write(values), strict=True):
        marker = markers[arm.name, partition]
        adjacent = offset == marker.offset + 1
        if not adjacent:  # a record came in between: the end of this partition must be proven anew
            marker.end = -1
        elif marker.end < 0 and started_s - marker.written_at_s >= MARKERS_APART_S:
            marker.end = marker.offset
        marker.offset, marker.written_at_s = offset, time.monotonic()


def _marker_value(scenario: Scenario, arm: Arm, partition: int, round_number: int) -> bytes:
    """Returns the value of a marker. The field `attempt` of its header holds the number of the partition. Reason: an
    application may keep nothing but the value of a record, and the marker must still show its partition."""
    return record.encode(
        scenario.run_token,
        arm.ordinal,
        record.MARKER_PRODUCER,
        0,
        round_number,
        partition,
        round_number,
        scenario.load.payload_bytes,
    )


def _offsets(
    scenario: Scenario, cluster: Cluster, partitions: _ArmPartitions, markers: _MarkersByPartition, rounds: int
) -> Offsets:
    """Waits until read_committed consumers can see the last marker of every partition. Returns the snapshot.

    `rounds` is how many markers each partition has. If a transaction stays open, the wait ends after a deadline. The
    snapshot then says which transaction it is, and where the committed view of its partition ends.
    """
    last_stable = _await_stable(scenario, cluster, partitions, markers)
    snapshots = []
    for (arm, partition), part in zip(partitions, _bounds(cluster, partitions, markers), strict=True):
        if (offset := last_stable.get((arm.topic_name, partition))) is not None:
            held = held_back(cluster, arm.topic_name, partition, part.leader, offset)
            part = msgspec.structs.replace(part, held_back=held)  # noqa: PLW2901
        snapshots.append(_with_unseen(scenario, cluster, part))
    servers = cluster.connection.bootstrap_servers
    return Offsets(bootstrap_servers=servers, taken_at_us=now_us(), partitions=snapshots, rounds=rounds)


def _await_stable(
    scenario: Scenario, cluster: Cluster, partitions: _ArmPartitions, markers: _MarkersByPartition
) -> dict[tuple[str, int], int]:
    """Waits until the last stable offset of every partition is behind its last marker.

    If this does not happen in time, returns the last stable offset of each partition (topic, number) in which it is
    not. The deadline is so long that brokers have aborted every transaction of a producer of this run before.
    """
    client, held = topics.admin(cluster.connection), dict[tuple[str, int], int]()
    last_markers = {(arm.topic_name, number): markers[arm.name, number].offset for arm, number in partitions}
    within_s = DEADLINE_S + _longest_transaction_s(scenario)
    end_s = time.monotonic() + within_s

    def is_over() -> bool:
        offsets = topics.last_stable_offsets(client, [*last_markers])
        held.clear()
        held.update({key: offset for key, offset in offsets.items() if offset <= last_markers[key]})
        return not held or time.monotonic() >= end_s

    wait_until(is_over, "the last stable offset to pass the markers", within_s + ANSWER_S)
    return held


def _bounds(cluster: Cluster, partitions: _ArmPartitions, markers: _MarkersByPartition) -> list[PartitionSnapshot]:
    """Returns the bounds of each partition of the snapshot, and the present leader of the partition."""
    topic_partitions = [(arm.topic_name, partition) for arm, partition in partitions]
    leaders = cluster.partitions([topic for topic, _ in topic_partitions])
    starts = topics.start_offsets(topics.admin(cluster.connection), topic_partitions)
    return [
        PartitionSnapshot(
            arm=arm.name,
            topic=arm.topic_name,
            partition=partition,
            start=starts[arm.topic_name, partition],
            end=markers[arm.name, partition].end,
            live_end=markers[arm.name, partition].offset + 1,
            leader=leaders[arm.topic_name, partition].leader,
            leader_epoch=leaders[arm.topic_name, partition].leader_epoch,
        )
        for arm, partition in partitions
    ]


def _longest_transaction_s(scenario: Scenario) -> float:
    """Returns the longest transaction timeout of all arms in seconds; 0 if no arm writes transactions.

    After this time, brokers abort a transaction that its producer has not ended.
    """
    timeouts = [int(arm.profile.producer["transaction.timeout.ms"]) for arm in scenario.loaded if arm.transactional_id]
    return max(timeouts, default=0) / 1000


def _with_unseen(scenario: Scenario, cluster: Cluster, part: PartitionSnapshot) -> PartitionSnapshot:
    """Returns `part` with the numbers of control records, and of records of aborted transactions.

    Asks the partition's leader for the batches. If the arm writes no transactions, both numbers stay 0, without a
    request. The invariant `offsets_accounted` later checks these zeros. If an open transaction holds back the last
    stable offset, the fate of the records behind this offset is not known, and only their control records are counted.
    """
    if part.arm not in scenario.transactional:
        return part
    unseen = batches.unseen(cluster.requests, part.leader, part.topic, part.partition, 0, part.visible_end)
    if part.held_back is None:
        return msgspec.structs.replace(part, control_records=unseen.control, aborted_records=unseen.aborted)
    behind = batches.controls(cluster.requests, part.leader, part.topic, part.partition, part.visible_end, part.end)
    return msgspec.structs.replace(
        part,
        control_records=unseen.control + behind,
        aborted_records=unseen.aborted,
        held_back=msgspec.structs.replace(part.held_back, control_records=behind),
    )
