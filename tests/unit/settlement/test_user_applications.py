"""Tests of the end of user applications: they run up to the markers, and the run directory gets their effects and no
secret. The broker is a mock, and the program is real."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import user_applications
from support.mock_broker import MockBroker
from support.patience import PATIENCE_S

from delivery_verifier.applications.control import Word
from delivery_verifier.applications.pool import MemberPool
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model import record
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.run_directory.run_directory import StepOutput
from delivery_verifier.settlement import applications

SCENARIO = user_applications.scenario()
ARM = SCENARIO.subjects[0]
SIZE = SCENARIO.load.payload_bytes


class Output(StepOutput):
    """The output of a step that is never published."""

    def __init__(self, folder: Path) -> None:
        self.staging, self.counts, self.notes = folder, {}, {}
        folder.mkdir()


class Run:
    """A run whose load of 5 records has ended. Its application has applied them, and was killed."""

    def __init__(self, folder: Path) -> None:
        self.broker, self.folder, self.output = MockBroker(), folder / "workspace", Output(folder / "output")
        properties = self.broker.connection
        connection: Any = SimpleNamespace(client_properties=lambda: properties, properties_of=lambda client: properties)
        self.cluster = cast(
            Cluster,
            SimpleNamespace(
                load_connection=connection, workspace=self.folder, agent=SimpleNamespace(adopt=lambda pid: None)
            ),
        )

    def write(self, *headers: tuple[int, int]) -> None:
        """Writes records, each given by its producer and sequence."""
        token, arm = SCENARIO.run_token, ARM.ordinal
        values = [record.encode(token, arm, producer, 0, number, 0, 0, SIZE) for producer, number in headers]
        self.broker.write(ARM.topic_name, values)

    def apply(self) -> None:
        self.write(*[(0, number) for number in range(5)])
        pool = MemberPool(SCENARIO, {"librdkafka": self.broker.connection}, self.folder, lambda pid: None)
        lines = pool.members[0].folder / "work" / "out.jsonl"
        try:
            pool.start()
            wait_until(
                lambda: pool.check() and lines.exists() and lines.read_bytes().count(b"\n") == 5, "5 lines", PATIENCE_S
            )
            pool.members[0].control[Word.KILLS] += 1
            pool.apply_commands()
        finally:
            pool.close()

    def stall(self, monkeypatch: pytest.MonkeyPatch, lines: int) -> None:
        """Makes time pass quickly for the drain from the moment at which the program has written `lines` lines. However
        slowly the program begins on a busy host, the drain does not give up before."""
        file = applications.application_folder(self.folder, ARM.name) / "0" / "work" / "out.jsonl"
        now = 0.0

        def monotonic() -> float:
            nonlocal now
            if file.exists() and file.read_bytes().count(b"\n") == lines:
                now += applications.STALLED_S / 4
            return now

        monkeypatch.setattr(applications, "time", SimpleNamespace(monotonic=monotonic))

    def drain(self) -> None:
        bounds: Any = {"start": 0, "end": 5, "live_end": 7, "leader": 1, "leader_epoch": 0}
        part = PartitionSnapshot(arm=ARM.name, topic=ARM.topic_name, partition=0, **bounds)
        snapshot = Offsets(bootstrap_servers="", taken_at_us=0, partitions=[part], rounds=2)
        applications.drain_applications(SCENARIO, self.cluster, snapshot, self.output)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("KDV_APPLICATIONS", str(tmp_path / "own"))
    user_applications.consumer(tmp_path / "own")
    return Run(tmp_path)


def test_what_was_applied_up_to_the_last_marker_is_sealed_without_a_secret(run: Run) -> None:
    run.apply()
    run.write((record.MARKER_PRODUCER, 0), (record.MARKER_PRODUCER, 1))
    run.drain()
    assert run.output.notes == {}
    counts = {name: count for name, count in run.output.counts.items() if not name.endswith("_ms")}
    assert counts == {
        f"applied/{ARM.name}/0/0": 5,
        f"applied/{ARM.name}/0/1": 2,
        f"incarnations/{ARM.name}": 2,
        f"killed/{ARM.name}": 1,
        f"kill_orders/{ARM.name}": 1,
    }
    files = sorted((run.output.staging / "effects").iterdir())
    effects = pa.concat_tables([pq.read_table(file) for file in files])
    assert effects["sequence"].to_pylist() == [0, 1, 2, 3, 4, 0, 1]
    assert effects["producer"].to_pylist()[-2:] == [record.MARKER_PRODUCER] * 2
    kept = (run.output.staging / "printed" / f"{ARM.name}-0-1.txt").read_text()
    assert "hello from" in kept and "***" in kept
    everything = [file for file in run.output.staging.rglob("*") if file.is_file()]
    assert not [file for file in everything if user_applications.SECRET.encode() in file.read_bytes()]
    assert not [file for file in everything if b"consumer.py" in file.read_bytes()], "no text of a command"


def test_without_the_last_marker_the_partition_is_not_drained(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.stall(monkeypatch, 2)
    run.write((0, 0), (record.MARKER_PRODUCER, 0))
    run.drain()
    assert run.output.notes == {"not_drained": f"{ARM.name}/0"}


def test_lines_cut_short_drain_nothing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run.stall(monkeypatch, 3)
    user_applications.consumer(tmp_path / "own", length=30)
    run.write((0, 0), (record.MARKER_PRODUCER, 0), (record.MARKER_PRODUCER, 1))
    run.drain()
    assert run.output.notes == {"not_drained": f"{ARM.name}/0"}
    (file,) = (run.output.staging / "effects").iterdir()
    assert pq.read_table(file)["parsed"].to_pylist() == [False] * 3
