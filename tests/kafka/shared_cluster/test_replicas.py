"""Tests of the reading of all replicas on real brokers: followers answer, and what was altered on a follower's disk is
found."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.evidence import RUN, SUBJECT, Rows, arm, evidence_of, judged
from support.patience import PATIENCE_S
from support.record_batches import alter_on_disk, damage_on_disk

from delivery_verifier.cluster import topics
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol import requests
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.snapshot import PartitionSnapshot
from delivery_verifier.settlement.replicas import read_replicas
from delivery_verifier.settlement.unreadable import with_unreadable
from delivery_verifier.verdict.evidence import Evidence

RECORDS, BATCH = 400, 40
ALTERED = 200


@pytest.fixture(scope="module")
def evidence(cluster: Cluster) -> Evidence:
    """The evidence of the hand-made run, whose topics exist with as many records as the run says, and its real leaders.

    Half of the records of each partition are in transactions, one of them aborted. Behind them stands one more record.
    """
    topics.create(RUN, cluster.connection)
    names = [spec.topic_name for spec in RUN.arms]
    wait_until(lambda: cluster.isr_full(names), "all replicas to be in sync", PATIENCE_S)
    settings = {"bootstrap.servers": cluster.connection.bootstrap_servers, "acks": "all", "linger.ms": 20}
    plain, atomic = Producer(settings), Producer(settings | {"transactional.id": "replicas"})
    atomic.init_transactions(PATIENCE_S)
    for at in range(0, RECORDS, BATCH):
        client = atomic if at in (0, ALTERED - BATCH) else plain
        if client is atomic:
            atomic.begin_transaction()
        for name in names:
            for partition in range(RUN.load.partitions):
                for number in range(BATCH - (client is atomic)):  # the marker of the transaction has an offset, too
                    client.produce(name, f"value {at + number}", partition=partition)
        assert client.flush(PATIENCE_S) == 0
        if client is atomic:
            (atomic.commit_transaction if at else atomic.abort_transaction)(PATIENCE_S)
    for name in names:
        for partition in range(RUN.load.partitions):
            plain.produce(name, b"marker", partition=partition)
    assert plain.flush(PATIENCE_S) == 0
    states, made = cluster.partitions(names), evidence_of(RUN)
    parts = [
        msgspec.structs.replace(part, leader=states[part.topic, part.partition].leader, leader_epoch=-1)
        for part in made.offsets.partitions
    ]
    return evidence_of(RUN, offsets=msgspec.structs.replace(made.offsets, partitions=parts))


def read(cluster: Cluster, evidence: Evidence, deadline_s: float = PATIENCE_S) -> Evidence:
    """Returns the evidence with the replicas that `read_replicas` read on the brokers."""
    table = read_replicas(cluster, evidence.offsets.partitions, deadline_s)
    return evidence_of(RUN, offsets=evidence.offsets, replicas=table)


def test_followers_are_read_and_agree_with_their_leaders(cluster: Cluster, evidence: Evidence) -> None:
    whole = read(cluster, evidence)
    assert whole.replicas is not None and whole.replicas.num_rows == 3 * 3 * len(RUN.arms)
    assert set(whole.replicas["read_until"].to_pylist()) == {RECORDS}
    assert min(whole.replicas["batches"].to_pylist()) >= RECORDS // BATCH
    assert arm(judged(whole)).verdict == "HELD"


def test_a_frozen_broker_was_not_read(cluster: Cluster, evidence: Evidence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "FETCH_S", 2.0)
    broker = cluster.brokers[-1]
    cluster.agent.apply("process", [broker], {"signal": "SIGSTOP"})
    wait_until(lambda: cluster.states()[broker] == "frozen", "the broker to freeze", PATIENCE_S)
    try:
        said = judged(read(cluster, evidence))
    finally:
        cluster.agent.apply("process", [broker], {"signal": "SIGCONT"})
        names = [spec.topic_name for spec in RUN.arms]
        wait_until(lambda: cluster.isr_full(names), "all replicas to be in sync", PATIENCE_S)
    assert arm(said).verdict == "INCONCLUSIVE"
    unread = [doubt.detail for doubt in arm(said).doubts if doubt.name == "replica_not_read"]
    assert f"{SUBJECT}/0: the log of broker {broker} was not read: timed out" in unread


def test_a_followers_segment_that_was_altered_on_disk_forbids_held_and_is_named(
    cluster: Cluster, evidence: Evidence
) -> None:
    """The CRC of the altered batch is right, so neither the broker nor a consumer of the follower notices anything."""
    part = next(part for part in evidence.offsets.partitions if (part.arm, part.partition) == (SUBJECT, 0))
    broker = next(broker for broker in cluster.brokers if broker != part.leader)
    cluster.agent.apply("process", [broker], {"signal": "SIGTERM"})
    wait_until(lambda: cluster.states()[broker] == "exited", "the broker to exit", PATIENCE_S)
    folder = Path(cluster.workspace) / "data" / str(broker) / f"{part.topic}-0"
    batch = alter_on_disk(folder / f"{0:020}.log", ALTERED)
    cluster.agent.undo("process", [broker])
    cluster.wait_up()
    names = [spec.topic_name for spec in RUN.arms]
    wait_until(lambda: cluster.isr_full(names), "all replicas to be in sync", PATIENCE_S)
    said = judged(read(cluster, evidence))
    assert (arm(said).verdict, said.green) == ("INCONCLUSIVE", False)
    (doubt,) = [doubt for doubt in arm(said).doubts if doubt.kind == "coverage"]
    assert doubt.name == "replicas_differ" and batch.first <= ALTERED < batch.end
    assert doubt.detail.startswith(
        f"DIVERGED: {SUBJECT}/0: the log of broker {broker} differs from that of the leader, broker {part.leader}, "
        f"at offsets {batch.first} to {batch.end - 1}: it has a batch of offsets {batch.first} to {batch.end - 1}, "
    )
    assert f"the leader has a batch of offsets {batch.first} to {batch.end - 1}, " in doubt.detail
    assert f"CRC {batch.crc:08x}" in doubt.detail
    assert all(not other.doubts for other in said.arms if other.arm != SUBJECT)


def consumed(cluster: Cluster, part: PartitionSnapshot, offset: int) -> str:
    """Returns the error that a consumer which verifies checksums gets from `offset` on; empty if it gets a record."""
    settings = {"bootstrap.servers": cluster.connection.bootstrap_servers, "group.id": "damage", "check.crcs": True}
    client = Consumer(settings | {"enable.auto.commit": False})
    try:
        client.assign([TopicPartition(part.topic, part.partition, offset)])
        message = client.poll(PATIENCE_S)
        assert message is not None
        error = message.error()
        return error.name() if error else ""
    finally:
        client.close()


@pytest.mark.parametrize(
    ("partition", "position", "value"),
    [(1, -2, b""), (2, 8, b"\0\0\0\7"), (0, 8, b"\x7f\0\0\0")],
    ids=["a value", "a length that is too short", "a length that is too great"],
)
def test_a_leaders_segment_that_was_damaged_on_disk_is_a_violation_with_evidence(
    cluster: Cluster, evidence: Evidence, partition: int, position: int, value: bytes
) -> None:
    """The CRC of the damaged batch stays as it was, and the broker runs on."""
    states = cluster.partitions([spec.topic_name for spec in RUN.arms])  # a test before may have stopped a leader
    snapshot = [
        msgspec.structs.replace(each, live_end=RECORDS + 1, leader=states[each.topic, each.partition].leader)
        for each in evidence.offsets.partitions
    ]
    part = next(part for part in snapshot if (part.arm, part.partition) == ("control-acks_0", partition))
    folder = Path(cluster.workspace) / "data" / str(part.leader) / f"{part.topic}-{partition}"
    batch = damage_on_disk(folder / f"{0:020}.log", ALTERED, position, value)
    table = read_replicas(cluster, snapshot)
    parts, notes = with_unreadable(cluster, snapshot, table, time.monotonic() + 600)
    assert notes == {}
    (damage,) = next(each for each in parts if (each.arm, each.partition) == (part.arm, partition)).unreadable
    assert damage.first == batch.first and batch.end <= damage.end < RECORDS
    assert damage.end == batch.end or position != -2, "what the broker cannot find by its index is unreadable, too"
    assert "CORRUPT_MESSAGE" in damage.detail or "batch" in damage.detail
    if position == -2:
        assert consumed(cluster, part, ALTERED) == "_BAD_MSG"
    assert consumed(cluster, part, damage.end) == ""

    def corrupted(rows: Rows) -> None:
        for row in rows["counts/producers.parquet"]:
            if (row["arm"], row["partition"], row["producer"]) == (part.arm, partition, 0):
                row["corrupted"] = damage.end - damage.first

    offsets = msgspec.structs.replace(evidence.offsets, partitions=parts)
    said = arm(judged(evidence_of(RUN, corrupted, offsets=offsets, replicas=table)), part.arm)
    assert said.verdict == "VIOLATED" and "cannot be read" in said.sentence
    details = {doubt.detail for doubt in said.doubts if doubt.name == "log_unreadable"}
    assert any(damage.detail in detail for detail in details)
