"""Tests that the step settle writes down what the log of consumer groups has of the applications."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.applications import applied
from support.evidence import SUBJECT, WEAK, a_scenario
from support.fake_cluster import FakeCluster

from delivery_verifier.applications.pool import group_of
from delivery_verifier.cluster.group_log import GroupLog, LogEntry
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.group_records import GroupCommit, GroupGeneration, GroupMember
from delivery_verifier.run_directory.group_log_tables import GROUP_LOG_TABLES
from delivery_verifier.run_directory.run_directory import RunDirectory, StepOutput
from delivery_verifier.settlement import group_log

SCENARIO = applied(a_scenario(fault="none"))
FIRST, SECOND = (group_of(SCENARIO, SCENARIO.arm(name)) for name in (SUBJECT, WEAK))


def test_the_log_of_the_groups_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = SCENARIO.arm(SUBJECT).topic_name
    entries = [
        LogEntry(3, 7, GroupGeneration(FIRST, 1, (GroupMember("m-1", "a"), GroupMember("m-2", "b"))), False, True),
        LogEntry(4, 8, GroupCommit(FIRST, topic, 2, 40, 1, "note", 6), True, False),
        LogEntry(5, 9, GroupCommit(FIRST, topic, 2, None), False, True),
    ]
    logs = [GroupLog(1, frozenset({FIRST}), entries, 2)]
    logs += [GroupLog(0, frozenset({SECOND}), [LogEntry(0, 7, GroupGeneration(SECOND, 0, ()), False, True)], 0)]
    monkeypatch.setattr(group_log, "read_groups", lambda *_: logs)
    monkeypatch.setattr(group_log.topics, "admin", lambda _: None)
    monkeypatch.setattr(group_log.groups, "committed_offsets", lambda *asked: dict.fromkeys(asked[-1], 40))
    output = StepOutput(RunDirectory(tmp_path), "settle")
    group_log.write_group_log(SCENARIO, Cluster(FakeCluster()), output, 5_000)
    commits, generations, positions = (pq.read_table(output.staging / table.file) for table in GROUP_LOG_TABLES[:3])
    names = ("offset", "leader_epoch", "metadata", "log_partition", "log_offset", "transactional", "committed")
    told = [tuple(row[name] for name in names) for row in commits.to_pylist()]
    assert told == [(40, 1, "note", 1, 4, True, False), (None, -1, "", 1, 5, False, True)]
    assert {(row["arm"], row["topic"], row["partition"]) for row in commits.to_pylist()} == {(SUBJECT, topic, 2)}
    assert [at.timestamp() for at in commits["at"].to_pylist()] == [0.006, 0.009]
    names = ("arm", "generation", "member_id", "client_id", "log_offset")
    told = [tuple(row[name] for name in names) for row in generations.to_pylist()]
    assert told == [(SUBJECT, 1, "m-1", "a", 3), (SUBJECT, 1, "m-2", "b", 3), (WEAK, 0, None, None, 0)]
    counts = {(row["arm"], row["position"], row["removed"]) for row in positions.to_pylist()}
    assert counts == {(SUBJECT, 40, 2), (WEAK, 40, 0)} and positions.num_rows == 6
    assert "group_log_ms" in output.counts


def test_a_run_without_applications_has_no_group_log(tmp_path: Path) -> None:
    output = StepOutput(RunDirectory(tmp_path), "settle")
    group_log.write_group_log(a_scenario(), Cluster(FakeCluster()), output, 5_000)
    assert not list(output.staging.iterdir()) and not output.counts
