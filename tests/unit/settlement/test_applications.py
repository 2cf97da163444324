"""Tests of the end of applications: they run up to the markers, and what they did is sealed. The broker is a mock."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from support.evidence import RUN
from support.mock_broker import MockBroker
from support.patience import PATIENCE_S

from delivery_verifier.applications.control import Control, Word
from delivery_verifier.applications.incarnations import application_folder, folder_of, incarnations_of
from delivery_verifier.applications.member_process import MemberDied
from delivery_verifier.applications.pool import MemberPool
from delivery_verifier.applications.sink import SinkInputs
from delivery_verifier.applications.slots import SlotWriter
from delivery_verifier.catalogue.applications import APPLICATIONS
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model import record
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.run_directory.run_directory import StepOutput
from delivery_verifier.settlement import applications

ARM = replace(RUN.subjects[0], application=APPLICATIONS["commit_after"])
SCENARIO: Scenario = replace(RUN, arms=(ARM, RUN.canary), load=replace(RUN.load, partitions=1))


class Output(StepOutput):
    """The output of a step that is never published."""

    def __init__(self, folder: Path) -> None:
        self.staging, self.counts, self.notes = folder, {}, {}
        folder.mkdir()


class Run:
    """A run whose load has ended: a broker with 5 records of the arm, and the arm's members in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.broker, self.folder, self.output = MockBroker(), folder / "workspace", Output(folder / "output")
        self.write(*([0] * 5))
        properties = self.broker.connection
        connection: Any = SimpleNamespace(client_properties=lambda: properties, properties_of=lambda client: properties)
        self.cluster = cast(
            Cluster,
            SimpleNamespace(
                load_connection=connection, workspace=self.folder, agent=SimpleNamespace(adopt=lambda pid: None)
            ),
        )

    def write(self, *producers: int) -> None:
        """Writes one record of each producer."""
        token = SCENARIO.run_token
        self.broker.write(
            ARM.topic_name, [record.encode(token, ARM.ordinal, producer, 0, 7, 0, 7, 100) for producer in producers]
        )

    def drain(self, end: int = 6) -> None:
        """Drains the arm's application. `end` is the offset of the marker that proves the end of the partition."""
        part = PartitionSnapshot(
            arm=ARM.name,
            topic=ARM.topic_name,
            partition=0,
            start=0,
            end=end,
            live_end=end + 2,
            leader=1,
            leader_epoch=0,
        )
        snapshot = Offsets(bootstrap_servers="", taken_at_us=0, partitions=[part])
        applications.drain_applications(SCENARIO, self.cluster, snapshot, self.output)

    def seal(self) -> None:
        """Seals what the members have left behind."""
        assert ARM.application is not None
        inputs = SinkInputs(ARM, application_folder(self.folder, ARM.name), 10, SCENARIO.run_token, {})
        applications._seal(inputs, ARM.application, SCENARIO, self.output)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.mark.slow
def test_what_was_applied_up_to_the_marker_is_sealed(run: Run) -> None:
    pool = MemberPool(SCENARIO, {"librdkafka": run.broker.connection}, run.folder, lambda pid: None)
    try:
        pool.start()
        control = pool.members[0].control
        wait_until(lambda: control[Word.COMMITTED] == 5, "all to be committed", PATIENCE_S)
        control[Word.KILLS] += 1
        pool.apply_commands()
    finally:
        pool.close()
    run.write(0, record.MARKER_PRODUCER)
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
    effects = run.output.staging / "effects"
    assert [
        pq.read_table(effects / f"{ARM.name}-0-{incarnation}.parquet")["offset"].to_pylist() for incarnation in (0, 1)
    ] == [
        [0, 1, 2, 3, 4],
        [5, 6],
    ]
    journal = pq.read_table(run.output.staging / "journal" / f"{ARM.name}.parquet").to_pylist()
    events = [
        (row["what"], row["first"], row["until"]) for row in journal if row["incarnation"] == 1 and row["batch"] == 0
    ]
    assert events == [("handed_over", 5, 7), ("committed", -1, 7)]


def test_a_partition_without_a_marker_is_noted_as_not_drained(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applications, "STALLED_S", 1.0)
    run.drain()
    assert run.output.notes == {"not_drained": f"{ARM.name}/0"}


def test_a_marker_before_the_end_of_the_snapshot_drains_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records may still arrive behind the first marker. The snapshot then ends at a later one."""
    monkeypatch.setattr(applications, "STALLED_S", 1.0)
    run.write(record.MARKER_PRODUCER)
    run.drain(end=8)
    assert run.output.notes == {"not_drained": f"{ARM.name}/0"}


@pytest.mark.parametrize(("slots", "counted"), [(0, 1), (1, 1), (2, 2), (3, 1)])
def test_a_kill_between_an_effect_and_its_count_is_no_lie_and_any_other_difference_is(
    slots: int, counted: int, run: Run
) -> None:
    """The invariant `effects_read` compares the count with the effects, and must break where a kill explains
    nothing."""
    incarnation = folder_of(run.folder, ARM.name, 0) / "0"
    writer = SlotWriter(incarnation)
    for offset in range(slots):
        writer.append(0, offset, 0, b"", SCENARIO.run_token, ARM.ordinal)
    (incarnation / "end.json").write_text('{"applied": 1, "exit_code": -9, "killed": true}')
    Control(incarnation.parent)
    run.seal()
    assert run.output.counts[f"applied/{ARM.name}/0/0"] == counted


def test_an_incarnation_whose_folder_is_gone_is_counted_all_the_same(run: Run) -> None:
    """The invariant `incarnations` compares this count with the incarnations of which there are effects."""
    incarnation = folder_of(run.folder, ARM.name, 0) / "0"
    SlotWriter(incarnation)
    (incarnation / "end.json").write_text('{"applied": 0, "exit_code": 0, "killed": false}')
    Control(incarnation.parent)[Word.INCARNATION] = 1
    run.seal()
    assert run.output.counts[f"incarnations/{ARM.name}"] == 2


def test_an_incarnation_of_which_nobody_saw_the_end_is_no_basis_of_a_verdict(run: Run) -> None:
    (folder_of(run.folder, ARM.name, 0) / "0").mkdir(parents=True)
    run.write(record.MARKER_PRODUCER)
    with pytest.raises(FileNotFoundError):
        run.drain(end=5)


def test_a_member_that_dies_while_it_drains_ends_the_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    start = MemberPool.start

    def start_and_kill(pool: MemberPool) -> None:
        start(pool)
        process = pool.members[0].process
        assert process is not None
        process.send_signal(signal.SIGKILL)

    monkeypatch.setattr(MemberPool, "start", start_and_kill)
    with pytest.raises(MemberDied):
        run.drain()
    assert len(incarnations_of(folder_of(run.folder, ARM.name, 0))) == 1
