"""Tests of the reading of all replicas, on a fake cluster: what differs, and what was not read, is a row of its own."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from support.fake_cluster import FakeCluster
from support.patience import PATIENCE_S
from support.record_batches import altered, batch, damaged
from support.replicated import LOG, SNAPSHOT, replicated

from delivery_verifier.cluster import damage
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.fetch import CORRUPT_MESSAGE, Fetched, Refused
from delivery_verifier.model.snapshot import PartitionSnapshot
from delivery_verifier.settlement.replicas import read_replicas
from delivery_verifier.settlement.unreadable import with_unreadable


@pytest.fixture
def fake() -> FakeCluster:
    return replicated()


def rows(fake: FakeCluster, deadline_s: float = 0, **more: float) -> dict[tuple[int, int], dict[str, Any]]:
    table = read_replicas(Cluster(fake), SNAPSHOT, deadline_s, **more)
    return {(row["partition"], row["broker"]): row for row in table.to_pylist()}


def test_replicas_that_agree_have_one_digest_per_partition(fake: FakeCluster) -> None:
    found = rows(fake)
    assert list(found) == [(at, broker) for at in (0, 1) for broker in (1, 2, 3)]
    assert len({row["digest"] for row in found.values()}) == 1
    of_one = {name: value for name, value in found[0, 1].items() if name not in ("arm", "digest")}
    assert of_one == {
        "partition": 0,
        "broker": 1,
        "read_until": 10,
        "batches": 2,
        "epochs": [0, 1],
        "epoch_starts": [0, 5],
        "sound": True,
        "differs_from": None,
        "differs_until": None,
        "detail": None,
    }


def test_what_stands_behind_the_snapshot_is_not_compared(fake: FakeCluster) -> None:
    fake.logs[1, "t", 0][2] = altered(LOG[2])
    assert len({row["digest"] for row in rows(fake).values()}) == 1


def test_a_follower_that_differs_is_named_with_its_offsets(fake: FakeCluster) -> None:
    fake.logs[3, "t", 1][1] = altered(LOG[1])
    found = rows(fake)
    different = found.pop((1, 3))
    assert len({row["digest"] for row in found.values()}) == 1 and not any(row["detail"] for row in found.values())
    assert different["digest"] != found[1, 2]["digest"]
    assert (different["differs_from"], different["differs_until"]) == (5, 10)
    assert different["detail"].startswith("it has a batch of offsets 5 to 9, leader epoch 1, CRC ")


def test_a_follower_whose_high_watermark_stays_behind_was_not_read(fake: FakeCluster) -> None:
    fake.logs[1, "t", 0] = LOG[:1]
    found = rows(fake)
    assert found[0, 1]["digest"] is None and found[0, 1]["read_until"] is None
    assert found[0, 1]["detail"] == (
        "timed out after 0 s waiting for: the high watermark of t/0 on broker 1 to reach 10 (last answer: 5)"
    )
    assert found[1, 1]["digest"] == found[1, 2]["digest"] is not None


def test_a_follower_is_read_once_its_high_watermark_has_come(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = [Refused("t/0", 78), Fetched(5, LOG[0])]
    plain = fake.fetch

    def fetch(broker: int, topic: str, partition: int, offset: int, most_bytes: int) -> Fetched:
        if (broker, partition) == (1, 0) and late:
            answer = late.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return plain(broker, topic, partition, offset, most_bytes)

    monkeypatch.setattr(fake, "fetch", fetch)
    assert rows(fake, deadline_s=30)[0, 1]["digest"] == rows(fake)[0, 2]["digest"]
    assert not late


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSTOP"])
def test_a_broker_that_does_not_answer_was_not_read_and_is_asked_only_once(
    fake: FakeCluster, signal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    plain = fake.fetch
    monkeypatch.setattr(fake, "fetch", lambda broker, *more: asked.append(broker) or plain(broker, *more))
    fake.send(3, signal)
    found = rows(fake)
    assert [found[at, 3]["digest"] for at in (0, 1)] == [None, None]
    assert {found[at, 3]["detail"] for at in (0, 1)} == {"broker 3 does not answer"}
    assert asked.count(3) == 1 and all(found[at, 1]["digest"] for at in (0, 1))


def test_without_the_leader_nothing_is_compared(fake: FakeCluster) -> None:
    del fake.logs[2, "t", 0]
    fake.logs[1, "t", 0][0] = altered(LOG[0])
    found = rows(fake)
    assert found[0, 2]["digest"] is None and found[0, 1]["digest"] != found[0, 3]["digest"]
    assert found[0, 1]["differs_from"] is None


def test_a_difference_that_cannot_be_located_is_still_a_difference(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The follower answers the fetches for the digest, and no more."""
    fake.logs[1, "t", 0][0] = altered(LOG[0])
    plain, answers = fake.fetch, [0]

    def fetch(broker: int, topic: str, partition: int, offset: int, most_bytes: int) -> Fetched:
        answers[0] += (broker, partition) == (1, 0)
        if answers[0] > 2:
            raise ConnectionError("gone")
        return plain(broker, topic, partition, offset, most_bytes)

    monkeypatch.setattr(fake, "fetch", fetch)
    row = rows(fake)[0, 1]
    assert row["digest"] is not None and row["detail"] == "the difference could not be located: gone"


def test_partitions_that_no_broker_knows_leave_only_the_leaders_row(fake: FakeCluster) -> None:
    fake.partition_states.clear()
    assert list(rows(fake)) == [(0, 2), (1, 2)]


def searched(fake: FakeCluster, table: pa.Table, seconds: float = 60) -> tuple[list[PartitionSnapshot], dict[str, str]]:
    return with_unreadable(Cluster(fake), SNAPSHOT, table, time.monotonic() + seconds)


@pytest.fixture
def over() -> Iterator[threading.Event]:
    over = threading.Event()
    yield over
    over.set()


def test_one_deadline_holds_for_the_whole_reading_and_what_was_not_read_by_then_says_so(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch, over: threading.Event
) -> None:
    plain = fake.fetch
    monkeypatch.setattr(fake, "fetch", lambda at, *more: plain(at, *more) if at != 3 or over.wait(PATIENCE_S) else None)
    found = rows(fake, reading_s=2)
    late = "the reading of all replicas did not end within 2 s"
    assert [(found[at, 3]["digest"], found[at, 3]["detail"]) for at in (0, 1)] == [(None, late)] * 2
    assert all(found[at, broker]["digest"] for at in (0, 1) for broker in (1, 2))


def test_once_the_deadline_has_passed_no_broker_is_asked(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake, "fetch", lambda *_: {}["asked"])
    found = rows(fake, reading_s=0)
    assert {row["detail"] for row in found.values()} == {"the reading of all replicas did not end within 0 s"}
    assert len(found) == 6 and not any(row["digest"] for row in found.values())


def test_an_interrupt_ends_the_reading_though_a_broker_does_not_answer(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch, over: threading.Event
) -> None:
    waited: list[bool] = []

    def fetch(broker: int, *_: object) -> None:
        if broker == 3:
            os.kill(os.getpid(), signal.SIGINT)
        waited.append(over.wait(PATIENCE_S))

    monkeypatch.setattr(fake, "fetch", fetch)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started the tests without it
    try:
        with pytest.raises(KeyboardInterrupt):
            rows(fake)
    finally:
        signal.signal(signal.SIGINT, before)
    assert waited == []


def test_an_error_that_no_reader_expects_is_no_replica_that_was_not_read(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake, "fetch", lambda *_: {}["a defect"])
    with pytest.raises(KeyError, match="a defect"):
        rows(fake)


def test_offsets_that_cannot_be_read_from_the_leader_are_named_in_the_snapshot(fake: FakeCluster) -> None:
    fake.logs[2, "t", 0][1] = damaged(LOG[1])
    fake.logs[1, "t", 1][1] = damaged(LOG[1])
    table = read_replicas(Cluster(fake), SNAPSHOT, 0.0)
    assert [row["broker"] for row in table.to_pylist() if not row["sound"]] == [2, 1]
    zero, one = searched(fake, table)[0]
    (hurt,) = zero.unreadable
    assert (hurt.first, hurt.end) == (5, 10) and "CORRUPT_MESSAGE" in hurt.detail
    assert one.unreadable == (), "what a follower holds is the doubt `replicas_differ`"


def test_a_batch_in_a_wrong_place_is_named_though_its_checksum_is_right(fake: FakeCluster) -> None:
    fake.logs[2, "t", 0][0] = batch(3, 5)
    table = read_replicas(Cluster(fake), SNAPSHOT, 0.0)
    zero, one = searched(fake, table)[0]
    assert [(each.first, each.end) for each in zero.unreadable] == [(0, 8)] and one.unreadable == ()


def test_markers_behind_the_snapshot_are_looked_at_too(fake: FakeCluster) -> None:
    fake.logs[2, "t", 0][2] = damaged(LOG[2])
    table = read_replicas(Cluster(fake), SNAPSHOT, 0.0)
    assert all(row["sound"] for row in table.to_pylist())
    zero, _ = searched(fake, table)[0]
    assert [(each.first, each.end) for each in zero.unreadable] == [(10, 11)]


def test_a_leader_that_refuses_its_own_log_is_not_waited_for(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = fake.fetch

    def fetch(broker: int, topic: str, partition: int, offset: int, most_bytes: int) -> Fetched:
        if (broker, partition) == (2, 0) and offset < 5:
            raise Refused("t/0", CORRUPT_MESSAGE)
        return plain(broker, topic, partition, offset, most_bytes)

    monkeypatch.setattr(fake, "fetch", fetch)
    table = read_replicas(Cluster(fake), SNAPSHOT, 30.0)
    (row,) = [row for row in table.to_pylist() if row["digest"] is None]
    assert row["detail"] == "t/0 was not fetched: error 2 (CORRUPT_MESSAGE)" and row["sound"] is None
    zero, _ = searched(fake, table)[0]
    assert [(each.first, each.end, each.detail) for each in zero.unreadable] == [(0, 5, row["detail"])]


def test_a_leader_that_does_not_answer_is_asked_once_and_noted(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = read_replicas(Cluster(fake), SNAPSHOT, 0.0)
    asked: list[int] = []
    plain = fake.fetch
    monkeypatch.setattr(fake, "fetch", lambda broker, *more: asked.append(broker) or plain(broker, *more))
    fake.send(2, "SIGKILL")
    parts, notes = searched(fake, table)
    assert [part.unreadable for part in parts] == [(), ()] and asked == [2]
    why = "not all of it was looked at: broker 2 does not answer"
    assert notes == {"unreadable/safe/0": why, "unreadable/safe/1": why}


def test_a_refusal_concerns_its_partition_alone(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    table = read_replicas(Cluster(fake), SNAPSHOT, 0.0)
    plain = fake.fetch

    def fetch(broker: int, topic: str, partition: int, offset: int, most_bytes: int) -> Fetched:
        if partition == 0:
            raise Refused("t/0", 6)
        return plain(broker, topic, partition, offset, most_bytes)

    monkeypatch.setattr(fake, "fetch", fetch)
    fake.logs[2, "t", 1][2] = damaged(LOG[2])
    (zero, one), notes = searched(fake, table)
    assert zero.unreadable == () and [each.first for each in one.unreadable] == [10]
    assert notes == {"unreadable/safe/0": "not all of it was looked at: t/0 was not fetched: error 6"}


def test_the_search_ends_with_the_reading_and_leaves_out_what_that_was_too_slow_for(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, sound = (read_replicas(Cluster(fake), SNAPSHOT, 0.0, reading_s) for reading_s in (0.0, 60.0))
    monkeypatch.setattr(fake, "fetch", lambda *_: {}["asked"])
    for table, seconds in ((late, 60.0), (sound, 0.0)):
        parts, notes = searched(fake, table, seconds)
        assert [part.unreadable for part in parts] == [(), ()]
        assert list(notes) == ["unreadable/safe/0", "unreadable/safe/1"]
        assert all("did not end within" in note for note in notes.values())


def test_a_leader_that_sends_nothing_of_its_own_log_has_unreadable_offsets(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it sent before is sound, but ends too early."""
    monkeypatch.setattr(damage, "EMPTY_S", 0.0)
    plain = fake.fetch

    def fetch(broker: int, topic: str, partition: int, offset: int, most_bytes: int) -> Fetched:
        if (broker, partition) == (2, 0) and offset < 10:
            return Fetched(11, LOG[0] if offset < 5 else b"")
        return plain(broker, topic, partition, offset, most_bytes)

    monkeypatch.setattr(fake, "fetch", fetch)
    table = read_replicas(Cluster(fake), SNAPSHOT, 0.0)
    assert all(row["sound"] for row in table.to_pylist())
    zero, one = searched(fake, table)[0]
    assert [(each.first, each.end, each.detail) for each in zero.unreadable] == [
        (5, 10, "the broker sends no whole batch, though its log is longer, and did not for 0 s")
    ]
    assert one.unreadable == ()
