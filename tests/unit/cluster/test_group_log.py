"""Tests of the log of consumer groups: which records count, which a broker has compacted away, and that a reader which
misses a record is found out."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from support.fake_cluster import FakeCluster
from support.record_batches import batch, with_crc

from delivery_verifier.cluster import group_log
from delivery_verifier.cluster.group_log import CONSUMER_OFFSETS, GroupLog, read_groups
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.fetch import Fetched
from delivery_verifier.cluster.protocol.group_records import GroupCommit
from delivery_verifier.host.waiting import DeadlinePassed

TRANSACTIONAL, CONTROL = 0x10, 0x30
ABORTED, COMMITTED = (
    b"\0\0\0\0\x08" + struct.pack(">hh", 0, kind) + b"\0\0" for kind in (group_log.ABORT, 1)
)  # a control record with one-byte varints


class Record:
    """A record as the client hands it over: a commit of `committed` in `group`."""

    def __init__(self, offset: int, committed: int, group: str = "group") -> None:
        self._offset, self._group, self._committed = offset, group, committed

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 7000 + self._offset

    def key(self) -> bytes:
        names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in (self._group, "topic"))
        return struct.pack(">h", 1) + names + bytes(4)

    def value(self) -> bytes:
        return struct.pack(">hqihq", 3, self._committed, 0, 0, 5)


class Log:
    """Partition 0 of `__consumer_offsets`, with the batches that its leader has and the records that a consumer is
    handed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, batches: list[bytes], records: list[Record], end: int) -> None:
        self.cluster = FakeCluster()
        self.cluster.set_partition(CONSUMER_OFFSETS, 0, 1)
        answers: dict[str, Any] = {"start_offsets": 0, "high_watermarks": end, "last_stable_offsets": end}
        for name, offset in answers.items():
            monkeypatch.setattr(group_log.topics, name, lambda _, keys, offset=offset: dict.fromkeys(keys, offset))
        monkeypatch.setattr(group_log.topics, "admin", lambda _: None)
        monkeypatch.setattr(group_log, "_messages", lambda *_: records)
        data = b"".join(batches)
        monkeypatch.setattr(self.cluster, "fetch", lambda *_: Fetched(end, data))

    def read(self, began_ms: int = 0) -> GroupLog:
        (log,) = read_groups(Cluster(self.cluster), ["group"], began_ms)
        return log


def test_commits_of_aborted_transactions_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [
        batch(0, 1),
        batch(1, 1, attributes=TRANSACTIONAL, producer_id=7),
        batch(2, 1, attributes=TRANSACTIONAL, producer_id=8),
        batch(3, 1, attributes=CONTROL, producer_id=7, body=ABORTED),
        batch(4, 1, attributes=CONTROL, producer_id=8, body=COMMITTED),
    ]
    log = Log(monkeypatch, batches, [Record(0, 10), Record(1, 20), Record(2, 30)], 5).read()
    told = [(entry.record, entry.is_transactional, entry.is_valid) for entry in log.entries]
    commits = [GroupCommit("group", "topic", 0, offset, 0, "", 5) for offset in (10, 20, 30)]
    assert told == [(commits[0], False, True), (commits[1], True, False), (commits[2], True, True)]
    assert [(entry.offset, entry.written_ms) for entry in log.entries] == [(0, 7000), (1, 7001), (2, 7002)]
    assert (log.partition, log.groups, log.removed) == (0, {"group"}, 0)


def test_only_the_groups_asked_for_are_kept_and_what_is_older_than_the_run_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches = [batch(3, 1), batch(9, 1), batch(10, 1)]
    made = Log(monkeypatch, batches, [Record(3, 1, "other"), Record(9, 10), Record(10, 5, "other")], 11)
    for began_ms, removed in ((0, 8), (7000, 8), (7004, 5), (7010, 0)):
        log = made.read(began_ms)
        assert ([entry.offset for entry in log.entries], log.removed) == ([9], removed)


def test_records_that_were_compacted_away_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = bytearray(batch(1, 5))
    kept[57:61] = struct.pack(">i", 2)  # two of five records are left
    batches = [batch(0, 1), with_crc(bytes(kept)), batch(8, 1)]
    log = Log(monkeypatch, batches, [Record(0, 10), Record(2, 20), Record(5, 30), Record(8, 40)], 9).read()
    assert log.removed == 9 - 4


def test_a_reader_that_misses_a_record_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectionError, match=r"__consumer_offsets/0: 1 records were read, and its batches hold 2"):
        Log(monkeypatch, [batch(0, 2)], [Record(0, 10)], 2).read()


def test_a_partition_from_which_the_broker_removes_records_meanwhile_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Log(monkeypatch, [batch(1, 1)], [Record(1, 10)], 2)
    readings = iter([[Record(0, 5), Record(1, 10)], [Record(1, 10)]])
    monkeypatch.setattr(group_log, "_messages", lambda *_: next(readings))
    assert (len(log.read().entries), next(readings, None)) == (1, None)


def test_a_leader_that_gives_no_batch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectionError, match="gave no batch of __consumer_offsets/0 from offset 2 on"):
        Log(monkeypatch, [batch(0, 2)], [Record(0, 10)], 3).read()


def test_a_transaction_that_stays_open_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(monkeypatch, [batch(0, 1)], [Record(0, 10)], 1)
    monkeypatch.setattr(group_log.topics, "last_stable_offsets", lambda _, keys: dict.fromkeys(keys, 0))
    monkeypatch.setattr(group_log, "STABLE_S", 0.01)
    with pytest.raises(DeadlinePassed, match="the transactions in __consumer_offsets to end"):
        log.read()


def test_transactions_that_others_begin_meanwhile_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last stable offset never meets the high watermark again. It passes the first one, and the marker that aborts
    the group's transaction stands behind that."""
    batches = [
        batch(0, 1, attributes=TRANSACTIONAL, producer_id=7),
        batch(1, 1, attributes=CONTROL, producer_id=7, body=ABORTED),
        batch(2, 1, attributes=TRANSACTIONAL, producer_id=8),
    ]
    made = Log(monkeypatch, batches, [Record(0, 10), Record(2, 5, "other")], 3)
    high, stable = iter([1, 3]), iter([0, 2])
    monkeypatch.setattr(group_log.topics, "high_watermarks", lambda _, keys: dict.fromkeys(keys, next(high, 3)))
    monkeypatch.setattr(group_log.topics, "last_stable_offsets", lambda _, keys: dict.fromkeys(keys, next(stable, 2)))
    monkeypatch.setattr(group_log, "STABLE_S", 0.5)
    log = made.read()
    assert [(entry.offset, entry.is_valid) for entry in log.entries] == [(0, False)]


def test_without_the_topic_no_group_has_committed_anything() -> None:
    assert read_groups(Cluster(FakeCluster()), ["group"], 0) == []
