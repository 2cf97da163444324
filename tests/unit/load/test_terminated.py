"""Tests of producers that SIGTERM reaches: what they had in progress, what they left, and what the next process sends.

The brokers are librdkafka's mock cluster, which runs inside the client of each process. tests/kafka has real brokers.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from support.patience import PATIENCE_S

from delivery_verifier.catalogue import SCENARIOS, build
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.faults.action import ActionContext, Done
from delivery_verifier.faults.actions import ACTIONS
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.load import pool as pools
from delivery_verifier.load.handle import RunningLoad, Termination
from delivery_verifier.load.layout import LoadLayout
from delivery_verifier.load.live_ledger import Control, Gate, State, Word
from delivery_verifier.load.pool import ProducerPool
from delivery_verifier.load.producer import SequencedProducer
from delivery_verifier.load.producer_process import ProducerProcess
from delivery_verifier.load.publish_ledger import counted_outcomes, publish_ledger
from delivery_verifier.model.outcomes import Outcome
from delivery_verifier.run_directory.ledger import MISCOUNTED

SCENARIO = build(SCENARIOS["producer.terminated"], "a-run")
EXIT, FLUSH = (arm.name for arm in SCENARIO.loaded)
BLOCK = SCENARIO.load.block
MOCK = {"test.mock.num.brokers": "1", "log_level": "0"}


def words(folder: Path, **more: int) -> list[Control]:
    """Returns the control blocks of all producers after SIGTERM has ended them as ordered. Each had 7 attempts in
    progress. `more` changes words of the first producer."""
    ended = {"SIGNAL": signal.SIGTERM, "KILLS": 1, "KILLS_DONE": 1, "AT_SIGTERM": 7}
    controls = [Control(folder / "live" / name / "0") for name in (EXIT, FLUSH)]
    for control, at_exit in zip(controls, (7, 0), strict=True):
        for name, value in (ended | {"AT_EXIT": at_exit}).items():
            control[Word[name]] = value
    for name, value in more.items():
        controls[0][Word[name]] = value
    return controls


def proof(folder: Path) -> object:
    cluster = cast(Cluster, SimpleNamespace())
    context = ActionContext(cluster, [], scenario=SCENARIO, load=RunningLoad(SCENARIO, folder))
    return ACTIONS["terminate_producer"].proof(context, Done(0))


def test_the_proof_says_what_each_producer_had_in_progress_and_how_it_ended(tmp_path: Path) -> None:
    words(tmp_path)
    assert proof(tmp_path) == {
        f"producer {EXIT}/0": "7 records in progress when SIGTERM came, 7 when it ended; exit code 0",
        f"producer {FLUSH}/0": "7 records in progress when SIGTERM came, 0 when it ended; exit code 0",
        f"left by {EXIT}": 7,
        f"left by {FLUSH}": 0,
    }


@pytest.mark.parametrize(
    "more",
    [
        {"AT_SIGTERM": 0},
        {"AT_SIGTERM": -1},
        {"EXIT": -signal.SIGTERM},
        {"EXIT": 1},
        {"KILLS_DONE": 0},
        {"STARTS_DONE": 1},
        {"SIGNAL": signal.SIGKILL},
    ],
    ids=[
        "nothing in progress",
        "the signal did not reach the program",
        "the signal ended the process",
        "the program failed",
        "it has not ended",
        "it was started again",
        "it was killed",
    ],
)
def test_without_all_producers_ended_as_ordered_there_is_no_proof(tmp_path: Path, more: dict[str, int]) -> None:
    words(tmp_path, **more)
    assert proof(tmp_path) == {}


def process_of(folder: Path) -> ProducerProcess:
    spec: Any = SimpleNamespace(folder=str(folder), producer=0, session=0)
    return ProducerProcess(SCENARIO.subjects[0], spec, cast("subprocess.Popen[bytes]", None), Control(folder))


@pytest.mark.parametrize(
    ("more", "code", "may_end"),
    [
        ({}, 0, True),
        ({"AT_SIGTERM": 0}, 0, True),
        ({"AT_SIGTERM": -1}, 0, False),
        ({"KILLS_DONE": 0}, 0, False),
        ({"EXIT": -signal.SIGTERM}, -signal.SIGTERM, False),
        ({"EXIT": -signal.SIGKILL}, -signal.SIGKILL, False),
        ({"SIGNAL": signal.SIGKILL, "EXIT": -signal.SIGKILL}, -signal.SIGKILL, True),
        ({"SIGNAL": signal.SIGKILL}, 0, False),
        ({"KILLS_DONE": 0, "STATE": State.DONE}, 0, True),
    ],
)
def test_a_producer_may_end_only_by_the_signal_that_the_plan_sent(
    tmp_path: Path, more: dict[str, int], code: int, may_end: bool
) -> None:
    words(tmp_path, **more)
    assert process_of(tmp_path / "live" / EXIT / "0").may_end(code) == may_end


@pytest.mark.parametrize(("first", "then"), [("kill", "terminate"), ("terminate", "kill")])
def test_producers_that_are_down_are_not_ended_by_another_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, then: str
) -> None:
    number = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM}[first]
    controls = words(tmp_path)
    load = RunningLoad(SCENARIO, tmp_path)
    for control in controls:
        control[Word.SIGNAL] = number
    getattr(load, then)()  # returns at once, because the producers are down
    assert {(control[Word.SIGNAL], control[Word.KILLS]) for control in controls} == {(number, 1)}


class Stage:
    """The producers of the scenario at work, each on a mock cluster of its own, and the supervisor in a thread."""

    def __init__(self, workspace: Path) -> None:
        self.pool, self.load = ProducerPool(SCENARIO, {"librdkafka": MOCK}, workspace), RunningLoad(SCENARIO, workspace)
        self.workspace = workspace
        self.pool.wait_for(State.READY, PATIENCE_S)
        self.pool.open(Gate.WARM_UP)
        self.pool.wait_for(State.WARM, PATIENCE_S)
        self.pool.open(Gate.GO)

    def supervised(self, work: Callable[[], object]) -> None:
        """Does `work` as the fault plan does it, beside the supervisor."""
        beside = threading.Thread(target=work)
        beside.start()
        wait_until(lambda: self._look() and not beside.is_alive(), "the work", PATIENCE_S)

    def _look(self) -> bool:
        self.pool.apply_commands(lambda pid: None)
        return self.pool.check()

    def rows(self, name: str) -> Counter[str]:
        """Counts the ledger's rows of an arm by outcome, attempt and who wrote the row."""
        (producer,) = (each for each in self.pool.producers if each.arm.name == name)
        file = self.workspace / f"{name}.parquet"
        announced = publish_ledger(producer.folder, file, name, 0, 0, producer.layout)
        assert announced == producer.control[Word.ATTEMPTED]
        rows = pq.read_table(file).to_pylist()
        counted = counted_outcomes(producer.control, "all")
        by_client = Counter(row["outcome"] for row in rows if row["made_by"] == "client")
        assert counted == dict.fromkeys((*Outcome, MISCOUNTED), 0) | by_client
        return Counter(f"{row['outcome']} {row['attempt']} {row['made_by']}" for row in rows)


@pytest.mark.slow
def test_a_program_that_exits_drops_its_queue_and_sends_none_of_it_again_and_one_that_flushes_drops_nothing(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
    try:
        stage.supervised(lambda: (stage.load.send(1), stage.load.terminate()))
        assert stage.load.terminations() == {
            f"{EXIT}/0": Termination(0, BLOCK, BLOCK),
            f"{FLUSH}/0": Termination(0, BLOCK, 0),
        }
        assert proof(tmp_path) != {}
        stage.supervised(stage.load.restart)
        assert proof(tmp_path) == {} and {producer.spec.incarnation for producer in stage.pool.producers} == {1}
        stage.supervised(lambda: stage.load.send(1))
        stage.pool.open(Gate.RELEASE)
        stage.pool.wait_for(State.DONE, PATIENCE_S)
        assert stage.rows(EXIT) == {"ACKED 0 client": 3 * BLOCK, "INDETERMINATE 0 recovery": BLOCK}
        assert stage.rows(FLUSH) == {"ACKED 0 client": 4 * BLOCK}
    finally:
        stage.pool.kill()


@pytest.mark.slow
def test_a_producer_that_does_not_end_on_sigterm_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "TERMINATION_S", 0.2)
    stage = Stage(tmp_path)
    try:
        for producer in stage.pool.producers:
            producer.process.send_signal(signal.SIGSTOP)
        with pytest.raises(DeadlinePassed, match=f"all producers to end on SIGTERM.*{EXIT}/0/0 is "):
            stage.pool.terminate()
    finally:
        stage.pool.kill()


class FullQueue:
    """Stands in for a client whose queue does not empty. SIGTERM comes while the producer waits for room."""

    limit = 9

    def __init__(self, producer: SequencedProducer) -> None:
        self.producer = producer

    def __len__(self) -> int:
        return 10

    def poll(self, timeout_s: float) -> None:
        self.producer._note_sigterm()


def test_sigterm_ends_the_wait_for_room_and_no_further_block_is_handed_over() -> None:
    producer = SequencedProducer.__new__(SequencedProducer)
    producer.spec, producer.sequence, producer.terminated = cast(Any, SimpleNamespace(block=2)), 4, False
    producer.client, producer.layout = cast(Any, FullQueue(producer)), LoadLayout(2, 1)
    producer.send_block()
    assert producer.terminated and producer.sequence == 4


def test_a_producer_that_did_not_do_the_round_that_was_asked_for_has_sent_nothing_again(tmp_path: Path) -> None:
    for control in words(tmp_path, ROUNDS=2, ROUNDS_DONE=1, LAST_ROUND=5)[1:]:
        control[Word.ROUNDS] = control[Word.ROUNDS_DONE] = 2
        control[Word.LAST_ROUND] = 3
    load = RunningLoad(SCENARIO, tmp_path)
    assert load.resent() == {EXIT: 0, FLUSH: 3}
    context = ActionContext(cast(Cluster, SimpleNamespace()), [], scenario=SCENARIO, load=load)
    assert ACTIONS["resend"].proof(context, Done(0)) == {}, "the count of an earlier round proves nothing"
