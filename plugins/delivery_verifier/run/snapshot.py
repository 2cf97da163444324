"""The snapshot: where each partition ends, proven by markers, and what consumers do not show of it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.connection import Connection
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol import batches
from delivery_verifier.host.waiting import pause, wait_until
from delivery_verifier.model import record
from delivery_verifier.model.history import Offsets, PartitionSnapshot, now_us
from delivery_verifier.model.scenario import Arm, Scenario

MARKERS_APART_S = 1.0

DEADLINE_S = 60.0


class _Writer:
    """An acks=all producer that waits for every record, and returns where it stands."""

    def __init__(self, connection: Connection, more: dict[str, str] | None = None) -> None:
        self.connection = connection
        self.client = Producer(
            {
                **connection.client_properties(),
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "delivery.timeout.ms": 30_000,
                "log_level": 3,
                **(more or {}),
            }
        )

    def write(self, records: list[tuple[str, int, bytes]]) -> list[int]:
        """Writes (topic, partition, value) in order; returns their offsets. Raises RuntimeError unless all are
        acked."""
        found: dict[int, int] = {}
        for place, (topic, partition, value) in enumerate(records):
            self.client.produce(topic, value, partition=partition, on_delivery=_note(found, place))
        left = self.client.flush(40)
        if left or len(found) != len(records):
            raise RuntimeError(f"only {len(found)} of {len(records)} records of the harness were acknowledged")
        return [found[place] for place in range(len(records))]


def _note(found: dict[int, int], place: int):  # type: ignore[no-untyped-def]
    def on_delivery(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None and offset >= 0:
            found[place] = offset

    return on_delivery


@dataclass
class _Marked:
    """The last two markers of a partition."""

    offset: int = -1
    at_s: float = 0.0
    end: int = -1


def _snapshot(scenario: Scenario, cluster: Cluster, writer: _Writer) -> Offsets:
    where = [(arm, partition) for arm in scenario.arms for partition in range(scenario.load.partitions)]
    marks = {(arm.name, partition): _Marked() for arm, partition in where}
    round_number, end = 0, time.monotonic() + DEADLINE_S
    while any(mark.end < 0 for mark in marks.values()):
        if time.monotonic() > end:
            raise TimeoutError(f"records still arrive {DEADLINE_S:g} s after the load ended: {marks}")
        _mark(scenario, writer, where, marks, round_number)
        round_number += 1
        if round_number > 1 and all(mark.end >= 0 for mark in marks.values()):
            break
        pause(MARKERS_APART_S)
    return _publish(scenario, cluster, where, marks)


def _mark(
    scenario: Scenario,
    writer: _Writer,
    where: list[tuple[Arm, int]],
    marks: dict[tuple[str, int], _Marked],
    number: int,
) -> None:
    """Writes one marker to each partition; where it stands right behind the last one, the snapshot is found."""
    started = time.monotonic()
    values = [
        (
            arm.topic_name,
            partition,
            record.encode(
                scenario.run_token,
                arm.ordinal,
                record.MARKER_PRODUCER,
                0,
                number,
                0,
                number,
                scenario.load.payload_bytes,
            ),
        )
        for arm, partition in where
    ]
    for (arm, partition), offset in zip(where, writer.write(values), strict=True):
        mark = marks[arm.name, partition]
        if mark.end < 0 or offset != mark.offset + 1:  # something came in between: the snapshot starts anew
            adjacent = offset == mark.offset + 1 and started - mark.at_s >= MARKERS_APART_S
            mark.end = mark.offset if adjacent else -1
        mark.offset, mark.at_s = offset, time.monotonic()


def _publish(
    scenario: Scenario, cluster: Cluster, where: list[tuple[Arm, int]], marks: dict[tuple[str, int], _Marked]
) -> Offsets:
    client = topics.admin(cluster.connection)
    partitions = [(arm.topic_name, partition) for arm, partition in where]

    def stable() -> bool:
        found = topics.last_stable_offsets(client, partitions)
        return all(found[arm.topic_name, p] > marks[arm.name, p].offset for arm, p in where)

    wait_until(stable, "the last stable offset to pass the markers", DEADLINE_S + _undecided_s(scenario))
    leaders = cluster.partitions([topic for topic, _ in partitions])
    starts = topics.start_offsets(client, partitions)
    snapshots = []
    for arm, partition in where:
        mark, leader = marks[arm.name, partition], leaders[arm.topic_name, partition]
        unseen = _unseen(scenario, cluster, arm, partition, leader.leader, mark.end)
        snapshots.append(
            PartitionSnapshot(
                arm=arm.name,
                topic=arm.topic_name,
                partition=partition,
                start=starts[arm.topic_name, partition],
                end=mark.end,
                live_end=mark.offset + 1,
                leader=leader.leader,
                leader_epoch=leader.leader_epoch,
                control_records=unseen.control,
                aborted_records=unseen.aborted,
            )
        )
    return Offsets(bootstrap_servers=cluster.bootstrap_servers, taken_at_us=now_us(), partitions=snapshots)


def _undecided_s(scenario: Scenario) -> float:
    """How long brokers leave a transaction open whose producer could not end it; then they abort it."""
    timeouts = [int(arm.profile.producer["transaction.timeout.ms"]) for arm in scenario.loaded if arm.transactional_id]
    return max(timeouts, default=0) / 1000


def _unseen(scenario: Scenario, cluster: Cluster, arm: Arm, partition: int, leader: int, end: int) -> batches.Unseen:
    """Of the snapshot; nothing where nobody writes transactions, which the offsets must then bear out."""
    if arm.name not in scenario.transactional:
        return batches.Unseen(0, 0)
    return batches.unseen(cluster.address(leader), arm.topic_name, partition, 0, end)
