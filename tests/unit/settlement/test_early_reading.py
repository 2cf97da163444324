"""Tests of the reading of replicas while the end of the snapshot is proven: it counts only if nothing has changed."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from support.fake_cluster import FakeCluster
from support.record_batches import altered
from support.replicated import LOG, SNAPSHOT, replicated

from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.model.snapshot import PartitionSnapshot
from delivery_verifier.settlement import early_reading
from delivery_verifier.settlement.early_reading import DECISIVE, EarlyReading, Reading
from delivery_verifier.settlement.replicas import read_replicas


@pytest.fixture
def fake() -> FakeCluster:
    return replicated()


def _read_around_a_change(fake: FakeCluster, expected: list[PartitionSnapshot]) -> Reading:
    """Reads early, alters the log of a follower, and returns the reading of SNAPSHOT."""
    early = EarlyReading(Cluster(fake))
    early.begin(lambda: expected)
    assert early._thread is not None
    early._thread.join()
    fake.logs[3, "t", 1][1] = altered(LOG[1])
    return early.result(SNAPSHOT)


def _differences(table: pa.Table) -> list[tuple[int, int]]:
    return [(row["partition"], row["broker"]) for row in table.to_pylist() if row["differs_from"] is not None]


def test_the_early_reading_counts_if_the_snapshot_is_as_expected(fake: FakeCluster) -> None:
    later = [msgspec.structs.replace(part, live_end=12, control_records=3) for part in SNAPSHOT]
    reading = _read_around_a_change(fake, later)
    assert reading.early and reading.took_ms >= 0 and reading.table.num_rows == 6
    assert not _differences(reading.table), "the log was altered after the reading"


@pytest.mark.parametrize(
    "other",
    [{"start": 5}, {"end": 5}, {"leader": 1}, {"leader_epoch": 0}, {"arm": "one"}, {"partition": 0}, {"topic": "u"}],
    ids=lambda other: next(iter(other)),
)
def test_all_is_read_again_if_a_partition_is_not_as_expected(fake: FakeCluster, other: dict[str, Any]) -> None:
    if "topic" in other:
        fake.set_partition("u", 1, leader=2, epoch=1)
        fake.logs |= {(broker, "u", 1): list(LOG) for broker in fake.brokers}
    reading = _read_around_a_change(fake, [SNAPSHOT[0], msgspec.structs.replace(SNAPSHOT[1], **other)])
    assert not reading.early and _differences(reading.table) == [(1, 3)]
    assert set(reading.table["read_until"].to_pylist()) == {10}


def test_all_is_read_again_if_a_partition_was_not_expected(fake: FakeCluster) -> None:
    reading = _read_around_a_change(fake, SNAPSHOT[:1])
    assert not reading.early and _differences(reading.table) == [(1, 3)]


def test_all_is_read_again_if_the_early_reading_failed(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> pa.Table:
        monkeypatch.undo()
        raise KeyError("a partition without a leader")

    monkeypatch.setattr(early_reading, "read_replicas", fail)
    reading = _read_around_a_change(fake, SNAPSHOT)
    assert not reading.early and _differences(reading.table) == [(1, 3)]


def test_all_is_read_again_if_the_partitions_are_not_known_yet(fake: FakeCluster) -> None:
    def unknown() -> list[PartitionSnapshot]:
        raise KeyError("a partition without a leader")

    early = EarlyReading(Cluster(fake))
    early.begin(unknown)
    reading = early.result(SNAPSHOT)
    assert not reading.early and reading.table.num_rows == 6


def test_all_is_read_again_if_a_replica_could_not_be_read_early(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(early_reading, "read_replicas", partial(read_replicas, deadline_s=0.2))
    log = fake.logs.pop((3, "t", 0))
    early = EarlyReading(Cluster(fake))
    early.begin(lambda: SNAPSHOT)
    assert early._thread is not None
    early._thread.join()
    fake.logs[3, "t", 0] = log
    reading = early.result(SNAPSHOT)
    assert not reading.early and not any(reading.table["detail"].to_pylist())


def test_without_an_early_reading_all_is_read_when_the_snapshot_is_known(fake: FakeCluster) -> None:
    reading = EarlyReading(Cluster(fake)).result(SNAPSHOT)
    assert not reading.early and reading.table.num_rows == 6


def test_both_readings_together_have_the_time_of_one(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_reading, "READING_S", 0.0)
    reading = _read_around_a_change(fake, SNAPSHOT)
    assert not reading.early and all("did not end within" in text for text in reading.table["detail"].to_pylist())


def test_every_field_of_a_partition_is_decisive_or_says_nothing_about_the_range_that_is_read() -> None:
    behind_or_counted = {"live_end", "control_records", "aborted_records", "unreadable", "held_back"}
    assert {*DECISIVE} | behind_or_counted == {*PartitionSnapshot.__struct_fields__}
    assert not {*DECISIVE} & behind_or_counted
