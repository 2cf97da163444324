"""Tests of what is written down about the output topics of applications at the end of a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from support.applications import application, applied
from support.evidence import SUBJECT, a_scenario, with_arm
from support.fake_cluster import FakeCluster

from delivery_verifier.applications.incarnations import application_folder
from delivery_verifier.applications.watermarks import Watermark, Watermarks
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.protocol.batches import Unseen
from delivery_verifier.cluster.protocol.requests import PartitionState
from delivery_verifier.model.application import output_topic
from delivery_verifier.model.held_back import HeldBack, OpenTransaction
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.run_directory.group_log_tables import OUTPUTS
from delivery_verifier.run_directory.run_directory import RunDirectory, StepOutput
from delivery_verifier.settlement import outputs

OWN = replace(application("own"), effects="topic")
SCENARIO = with_arm(a_scenario(fault="none"), SUBJECT, application=OWN)
TOPIC = output_topic(SCENARIO.arm(SUBJECT).topic_name)
KEPT = {(0, 0): 90, (0, 3): 120, (1, 3): 60}
"""By partition and leader epoch: the offset at which the epoch ends."""


class Stage:
    """A cluster whose leaders answer what the test says."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.starts = Cluster(FakeCluster(workspace=tmp_path)), {0: 0, 1: 0}
        self.folder, self.step = tmp_path, StepOutput(RunDirectory(tmp_path / "run"), "settle")
        states = {(TOPIC, number): PartitionState(2, 3, (1, 2, 3), (1, 2, 3), (), 0) for number in (0, 1)}
        monkeypatch.setattr(Cluster, "partitions", lambda _, names: states if names == [TOPIC] else {})
        monkeypatch.setattr(outputs.topics, "admin", lambda _: None)
        monkeypatch.setattr(outputs.topics, "start_offsets", lambda *_: {key: self.starts[key[1]] for key in states})
        self.stable = {(TOPIC, 0): 120, (TOPIC, 1): 60}
        monkeypatch.setattr(outputs.topics, "high_watermarks", lambda *_: {(TOPIC, 0): 120, (TOPIC, 1): 60})
        monkeypatch.setattr(outputs.topics, "last_stable_offsets", lambda *_: dict(self.stable))
        monkeypatch.setattr(self.cluster.requests, "epoch_end", self._epoch_end)

    def _epoch_end(self, broker: int, topic: str, partition: int, epoch: int) -> int:
        assert (broker, topic) == (2, TOPIC), "the leader is asked"
        return KEPT[partition, epoch]

    def note(self, *marks: Watermark) -> None:
        Watermarks(application_folder(self.folder, SUBJECT)).note(marks)

    def rows(self, scenario: Scenario = SCENARIO) -> dict[int, dict[str, Any]]:
        outputs.write_outputs(scenario, self.cluster, self.step)
        return {row["partition"]: row for row in pq.read_table(self.step.staging / OUTPUTS.file).to_pylist()}


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    yield Stage(tmp_path, monkeypatch)


def test_a_log_that_has_kept_every_epoch_lacks_nothing(stage: Stage) -> None:
    stage.note(Watermark(0, 0, 90), Watermark(0, 3, 119), Watermark(1, 3, 60), Watermark(1, -1, 60))
    rows = stage.rows()
    assert rows[0] == {
        "arm": SUBJECT,
        "partition": 0,
        "leader": 2,
        "leader_epoch": 3,
        "start": 0,
        "end": 120,
        "watermark": None,
        "epoch": None,
        "kept_until": None,
        "held_back": None,
    }
    assert rows[1]["watermark"] is None and len(rows) == 2


def test_an_epoch_that_ends_below_a_watermark_was_cut_off_however_long_the_log_is_now(stage: Stage) -> None:
    stage.note(Watermark(0, 0, 91), Watermark(1, 3, 60))
    stage.starts[1] = 5
    rows = stage.rows()
    assert (rows[0]["watermark"], rows[0]["epoch"], rows[0]["kept_until"], rows[0]["end"]) == (91, 0, 90, 120)
    assert (rows[1]["watermark"], rows[1]["start"]) == (None, 5)


def test_a_watermark_of_an_unknown_epoch_is_compared_with_the_present_one(stage: Stage) -> None:
    stage.note(Watermark(1, -1, 61))
    rows = stage.rows()
    assert (rows[1]["watermark"], rows[1]["epoch"], rows[1]["kept_until"]) == (61, -1, 60)
    assert rows[0]["watermark"] is None


def test_a_row_says_which_transaction_holds_back_a_partition(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    open_one = OpenTransaction(producer_id=7, producer_epoch=0, first_offset=50, last_at_ms=0)
    asked = []

    def held_back(_: Cluster, *of: object) -> HeldBack:
        asked.append(of)
        return HeldBack(last_stable_offset=50, transactions=(open_one,))

    monkeypatch.setattr(outputs, "held_back", held_back)
    stage.stable[TOPIC, 1] = 50
    rows = stage.rows()
    assert asked == [(TOPIC, 1, 2, 50)] and rows[0]["held_back"] is None and rows[1]["end"] == 60
    assert "producer id 7, epoch 0, open from offset 50 on" in rows[1]["held_back"]


@pytest.mark.parametrize(("stable", "visible"), [(120, 172), (100, 152), (0, 52)])
def test_a_reader_gets_no_record_behind_a_transaction_that_stays_open(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, stable: int, visible: int
) -> None:
    """Eight offsets of partition 1 hold nothing that a reader gets."""
    monkeypatch.setattr(outputs, "STABLE_S", 0.1)
    counted = []

    def unseen(_: object, leader: int, topic: str, partition: int, start: int, end: int) -> Unseen:
        counted.append((leader, topic, partition, start, end))
        return Unseen(control=3 * partition, aborted=5 * partition)

    monkeypatch.setattr(outputs.batches, "unseen", unseen)
    stage.stable[TOPIC, 0] = stable
    assert outputs.VisibleRecords(stage.cluster)(TOPIC) == visible
    assert counted == [(2, TOPIC, 0, 0, stable), (2, TOPIC, 1, 0, 60)]


def test_applications_with_other_sinks_have_no_output_topic(stage: Stage) -> None:
    assert stage.rows(applied(a_scenario(fault="none"))) == {}
