"""Tests of own members as processes: they run in groups of their own, are killed as a whole, and keep no secret. The
broker is a mock of librdkafka; the programs are real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
from support import user_applications
from support.mock_broker import MockBroker
from support.patience import PATIENCE_S

from delivery_verifier.applications import pool as pool_module
from delivery_verifier.applications.control import State, Word
from delivery_verifier.applications.incarnations import incarnations_of, last_markers, read_end
from delivery_verifier.applications.member_process import MemberDied
from delivery_verifier.applications.own import process as process_module
from delivery_verifier.applications.own.described import secret_environment
from delivery_verifier.applications.own.handle import OwnHandle
from delivery_verifier.applications.own.process import redact_effects
from delivery_verifier.applications.own.sink import OwnEffects
from delivery_verifier.applications.pool import MemberPool
from delivery_verifier.applications.sealing import seal_effects
from delivery_verifier.applications.sink import CRC_OK, PARSED, SinkInputs
from delivery_verifier.host.processes import is_frozen
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model import record
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.model.positions import Positions
from delivery_verifier.model.user_application import UserApplication

SCENARIO = user_applications.scenario()
ARM = SCENARIO.subjects[0]
SIZE = SCENARIO.load.payload_bytes


class Stage:
    """The pool of the user application `sink`, in a workspace of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.adopted = folder, list[int]()
        self.broker = MockBroker()
        self.pool = MemberPool(
            SCENARIO, {"librdkafka": self.broker.connection}, folder / "workspace", self.adopted.append
        )
        self.inputs = SinkInputs(
            ARM, self.pool.members[0].folder.parent, 10, SCENARIO.run_token, self.broker.connection, payload_bytes=SIZE
        )

    def write(self, *sequences: int, producer: int = 0, attempt: int = 0) -> None:
        token = SCENARIO.run_token
        values = [record.encode(token, ARM.ordinal, producer, 0, each, attempt, each, SIZE) for each in sequences]
        self.broker.write(ARM.topic_name, values)

    def lines(self) -> list[bytes]:
        file = self.pool.members[0].folder / "work" / "out.jsonl"
        return file.read_bytes().splitlines() if file.exists() else []

    def wait_lines(self, count: int) -> None:
        wait_until(lambda: self.pool.check() and len(self.lines()) >= count, f"{count} lines", PATIENCE_S)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setenv("KDV_APPLICATIONS", str(tmp_path / "own"))
    user_applications.consumer(tmp_path / "own")
    result = Stage(tmp_path)
    yield result
    result.pool.close()


def group(pid: int) -> list[int]:
    """Returns the pids of the processes in the group `pid` that run."""
    pids = []
    for each in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(each.pid) == pid and each.status() != psutil.STATUS_ZOMBIE:
                pids.append(each.pid)
    return pids


def test_a_member_is_killed_started_again_and_stopped(stage: Stage) -> None:
    stage.write(*range(5))
    stage.pool.start()
    control = stage.pool.members[0].control
    stage.wait_lines(5)
    stage.pool.check()
    assert control[Word.STATE] == State.ASSIGNED and len(group(stage.adopted[0])) == 2
    handle = OwnHandle(SCENARIO, stage.folder / "workspace", {})
    stage.pool.kill()
    assert group(stage.adopted[0]) == [] and control[Word.EXIT] == -signal.SIGKILL and control[Word.APPLIED] == 5
    positions = {0: Positions(np.zeros(5, np.int32), np.arange(5))}
    assert [handle.in_progress(ARM, {0: committed}, positions).total for committed in (5, 3)] == [0, 2]
    handle.begin_incarnation({ARM.name: {0: 3}})
    assert handle.in_progress(ARM, {0: 3}, positions).total == 0
    stage.pool.start()
    stage.write(5, 6)
    stage.write(4, producer=record.MARKER_PRODUCER, attempt=0)
    stage.wait_lines(8)
    stage.pool.note_markers()
    stage.pool.stop()
    incarnations = incarnations_of(stage.pool.members[0].folder)
    assert last_markers(incarnations[1]) == {0: 4}
    assert [(read_end(path).applied, read_end(path).killed) for path in incarnations.values()] == [
        (5, True),
        (8, False),
    ]
    first, second = OwnEffects().read(stage.inputs)
    assert [first.rows["sequence"].tolist(), second.rows["sequence"].tolist()] == [[0, 1, 2, 3, 4], [5, 6, 4]]
    assert [first.counted, second.counted] == [5, 3]
    assert set(first.rows["flags"]) == {PARSED | CRC_OK} and set(first.rows["partition"]) == {-1}
    assert first.rows["applied_at"].max() < second.rows["applied_at"].min()


def test_a_secret_stands_nowhere_but_in_the_environment_of_the_member(stage: Stage) -> None:
    stage.write(0)
    stage.pool.start()
    stage.wait_lines(1)
    lines = [b" ".join(file.read_bytes().split(b"\0")) for file in _command_lines()]
    assert any(b"consumer.py" in line for line in lines)
    assert not [line for line in lines if user_applications.SECRET.encode() in line]
    stage.pool.stop()
    (incarnation,) = incarnations_of(stage.pool.members[0].folder).values()
    assert "hello from" in (incarnation / "stderr").read_text() and "***" in (incarnation / "stderr").read_text()
    files = [file for file in (stage.folder / "workspace").rglob("*") if file.is_file()]
    assert files and not [file for file in files if user_applications.SECRET.encode() in file.read_bytes()]


def _command_lines() -> Iterator[Path]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        if file.exists():
            yield file


def test_a_member_that_dies_by_itself_is_an_error_with_its_last_words_and_no_secret(stage: Stage) -> None:
    user_applications.toml(stage.folder / "own", "sh -c 'echo cannot reach $SINK_DSN >&2; exit 3'")
    stage.pool.start()
    with pytest.raises(MemberDied, match=r"exit code 3; it said last: cannot reach \*\*\*$"):
        wait_until(stage.pool.check, "never", 10) and wait_until(lambda: not stage.pool.check(), "its end", PATIENCE_S)


def test_a_program_that_does_not_exist_is_named(stage: Stage) -> None:
    user_applications.toml(stage.folder / "own", "/does/not/exist --x")
    stage.pool.start()
    with pytest.raises(MemberDied, match=r"exit code 127; it said last: /does/not/exist cannot be started: No such"):
        wait_until(lambda: not stage.pool.check(), "its end", PATIENCE_S)


def test_a_member_that_does_not_end_is_killed_which_nobody_ordered(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "STOP_DEADLINE_S", 0.5)
    user_applications.toml(stage.folder / "own", "sh -c 'trap \"\" TERM; echo ready; while :; do sleep 0.1; done'")
    stage.pool.start()
    wait_until(
        lambda: stage.pool.check() and stage.pool.members[0].control[Word.APPLIED] > 0, "its first line", PATIENCE_S
    )
    stage.pool.stop()
    (incarnation,) = incarnations_of(stage.pool.members[0].folder).values()
    assert (
        read_end(incarnation).killed
        and stage.pool.members[0].control[Word.KILLS] == 0
        and group(stage.adopted[0]) == []
    )


def test_the_children_of_a_command_that_ends_are_killed(stage: Stage) -> None:
    user_applications.toml(stage.folder / "own", "sh -c 'sleep 600 & echo ready; wait'")
    stage.pool.start()
    wait_until(
        lambda: stage.pool.check() and stage.pool.members[0].control[Word.APPLIED] > 0, "its first line", PATIENCE_S
    )
    assert len(group(stage.adopted[0])) == 3
    stage.pool.stop()
    assert group(stage.adopted[0]) == []


def test_what_has_left_the_group_of_a_member_is_frozen_and_killed_with_it(stage: Stage) -> None:
    user_applications.toml(stage.folder / "own", "sh -c 'setsid sleep 600 & echo ready; wait'")
    stage.pool.start()

    def outside() -> list[psutil.Process]:
        every = psutil.Process(stage.adopted[0]).children(recursive=True)
        return [each for each in every if os.getpgid(each.pid) != stage.adopted[0]]

    wait_until(lambda: stage.pool.check() and outside(), "a process outside the group", PATIENCE_S, every_s=0.01)
    (process,) = outside()
    OwnHandle(SCENARIO, stage.folder / "workspace", {}).send(signal.SIGSTOP, [ARM])
    wait_until(lambda: is_frozen(process.pid), "the process to freeze", PATIENCE_S, every_s=0.01)
    stage.pool.kill()
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_process_that_outlives_the_command_gets_the_time_to_end(stage: Stage) -> None:
    script = "trap 'sleep 0.2; echo bye > ended; exit' TERM; echo ready; while :; do sleep 0.02; done"
    (stage.folder / "own" / "slow.sh").write_text(script)
    user_applications.toml(stage.folder / "own", "sh -c 'sh {home}/slow.sh & wait'")
    stage.pool.start()
    wait_until(
        lambda: stage.pool.check() and stage.pool.members[0].control[Word.APPLIED] > 0, "its first line", PATIENCE_S
    )
    stage.pool.stop()
    assert (stage.pool.members[0].folder / "work" / "ended").exists()


@pytest.mark.parametrize(("code", "is_orderly"), [(0, True), (143, True), (1, False), (139, False)])
def test_a_member_that_ends_with_an_error_when_it_is_stopped_is_an_error(
    stage: Stage, code: int, is_orderly: bool
) -> None:
    (stage.folder / "own" / "run.sh").write_text(f"trap 'exit {code}' TERM; echo ready; while :; do sleep 0.02; done")
    user_applications.toml(stage.folder / "own", "sh {home}/run.sh")
    stage.pool.start()
    wait_until(
        lambda: stage.pool.check() and stage.pool.members[0].control[Word.APPLIED] > 0, "its first line", PATIENCE_S
    )
    with nullcontext() if is_orderly else pytest.raises(MemberDied, match=f"exit code {code}"):
        stage.pool.stop()


def test_an_output_is_kept_without_secrets_after_an_error_and_when_its_effects_are_read(stage: Stage) -> None:
    script = "echo a $SINK_DSN; echo $SINK_DSN >&2; sleep 600"
    (stage.folder / "own" / "run.sh").write_text(script)
    user_applications.toml(stage.folder / "own", "sh {home}/run.sh")
    stage.pool.start()
    incarnation = stage.pool.members[0].folder / "0"
    wait_until(lambda: (incarnation / "stderr").stat().st_size, "its words", PATIENCE_S)
    stage.pool.close()
    assert (incarnation / "stderr").read_text() == "***\n"
    assert user_applications.SECRET in (incarnation / "stdout").read_text()
    redact_effects(incarnation)
    assert (incarnation / "stdout").read_text() == "a ***\n"
    redact_effects(incarnation)
    assert (incarnation / "stdout").read_text() == "a ***\n"


def test_a_secret_that_was_changed_while_its_incarnation_ran_is_recognised_at_the_end(stage: Stage) -> None:
    (stage.folder / "own" / "run.sh").write_text("echo a $SINK_DSN; echo $SINK_DSN >&2; sleep 600")
    user_applications.toml(stage.folder / "own", "sh {home}/run.sh")
    stage.pool.start()
    incarnation = stage.pool.members[0].folder / "0"
    wait_until(lambda: (incarnation / "stderr").stat().st_size, "its words", PATIENCE_S)
    (file,) = (stage.folder / "own").glob("*.toml")
    file.write_text(file.read_text().replace(user_applications.SECRET, "another-secret"))
    assert user_applications.SECRET not in repr(stage.pool.members[0].progress), "a log may show it"
    stage.pool.kill()
    redact_effects(incarnation)
    assert [(incarnation / name).read_text() for name in ("stdout", "stderr")] == ["a ***\n", "***\n"]
    assert not [each for each in incarnation.iterdir() if user_applications.SECRET.encode() in each.read_bytes()]


WRITER = """
import os, signal, sqlite3
database = sqlite3.connect(os.environ["ORDERS_DSN"].removeprefix("sqlite:///"), timeout=30, isolation_level=None)
database.execute("CREATE TABLE IF NOT EXISTS orders(payload BLOB)")
name = f"{os.path.dirname(__file__)}/{os.environ['KDV_MEMBER']}-{os.environ['KDV_INCARNATION']}"
database.executemany("INSERT INTO orders VALUES (?)", [(line,) for line in open(name, "rb").read().splitlines()])
signal.pause()
"""
"""Writes the records of a file, which is named by member and incarnation, to a table of SQLite."""


def test_several_members_write_to_one_table_and_each_effect_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDV_APPLICATIONS", str(tmp_path / "own"))
    orders = tmp_path / "orders.sqlite"
    user_applications.program(
        tmp_path / "own", "sink", WRITER, *user_applications.LOADED, ORDERS_DSN=f"sqlite:///{orders}"
    )
    planned = {"0-0": [0, 1, 2], "1-0": [3, 4], "0-1": [5, 1], "1-1": [4]}
    for name, sequences in planned.items():
        lines = [record.encode(SCENARIO.run_token, ARM.ordinal, 0, 0, each, 0, each, SIZE) for each in sequences]
        (tmp_path / "own" / name).write_bytes(b"\n".join(lines))
    scenario, workspace = user_applications.scenario(members=2), tmp_path / "workspace"
    pool = MemberPool(scenario, {"librdkafka": {"bootstrap.servers": "localhost:1"}}, workspace, lambda _: None)
    handle = OwnHandle(scenario, workspace, {})
    arm = scenario.subjects[0]
    inputs = SinkInputs(arm, pool.members[0].folder.parent, 10, scenario.run_token, {}, payload_bytes=SIZE)
    try:
        for end, count in ((pool.kill, 5), (pool.stop, 8)):
            pool.start()
            wait_until(
                lambda count=count: pool.check() and handle.records() == {arm.name: count}, "the rows", PATIENCE_S
            )
            pool.wait_applying()
            end()
    finally:
        pool.close()
    incarnations = {
        (incarnation.member, incarnation.incarnation): incarnation for incarnation in OwnEffects().read(inputs)
    }
    assert {key: sorted(incarnation.rows["sequence"].tolist()) for key, incarnation in incarnations.items()} == {
        (0, 0): [0, 1, 2, 3, 4],
        (0, 1): [1, 4, 5],
        (1, 0): [],
        (1, 1): [],
    }
    assert all(incarnation.counted == len(incarnation.rows) for incarnation in incarnations.values())
    seal_effects(incarnations[0, 1], arm.name, tmp_path / "sealed.parquet")
    assert set(pq.read_table(tmp_path / "sealed.parquet")["member"].to_pylist()) == {-1}, "nobody sees which member"
    assert [read_end(path).applied for path in incarnations_of(pool.members[1].folder).values()] == [0, 0]


SUPERVISOR = """
import sys
from pathlib import Path
from support import user_applications
from delivery_verifier.applications.pool import MemberPool
from delivery_verifier.host.waiting import pause
connection = {"bootstrap.servers": "localhost:1"}
pool = MemberPool(user_applications.scenario(), {"librdkafka": connection}, Path(sys.argv[1]), lambda pid: None)
pool.start()
print(pool.members[0].process.pid, flush=True)
while True:
    pause(1)
"""


def test_nothing_outlives_a_supervisor_that_is_killed(stage: Stage) -> None:
    user_applications.toml(stage.folder / "own", "sh -c 'sleep 600 & sleep 601'")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SUPERVISOR, str(stage.folder / "elsewhere")]
    supervisor = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    assert supervisor.stdout is not None
    pid = int(supervisor.stdout.readline())
    wait_until(lambda: len(group(pid)) == 4, "the command and its children", PATIENCE_S)
    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()
    wait_until(lambda: not group(pid), "the whole group to end", PATIENCE_S)


def test_a_long_output_is_cut_and_effects_are_not(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "MOST_BYTES", 1000)
    command = "sh -c 'while :; do echo 0123456789012345678901234567890123456789 >&2; echo effect; sleep 0.001; done'"
    user_applications.toml(stage.folder / "own", command)
    stage.pool.start()
    incarnation = stage.pool.members[0].folder / "0"
    wait_until(lambda: stage.pool.check() and (incarnation / "stdout").stat().st_size > 1000, "many lines", PATIENCE_S)
    stage.pool.kill()
    assert (incarnation / "stderr").stat().st_size < 6000 < 45 * (incarnation / "stdout").stat().st_size / 7


def test_a_connection_comes_from_airflows_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    own = UserApplication(command="a", connections={"SINK_DSN": "my_sink"})
    with pytest.raises(BadInput, match=r"my_sink.*set AIRFLOW_CONN_MY_SINK"):
        secret_environment(own)
    monkeypatch.setenv("AIRFLOW_CONN_MY_SINK", "postgres://u:password@h/d")
    assert secret_environment(own) == {"SINK_DSN": "postgres://u:password@h/d"}
    monkeypatch.setenv("AIRFLOW_CONN_MY_SINK", "postgres://u:short@h/d")
    with pytest.raises(BadInput, match=r"connections\.SINK_DSN.*'my_sink' holds a secret of fewer than 6") as refusal:
        secret_environment(own)
    assert "short" not in str(refusal.value)
