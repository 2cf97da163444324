"""Tests of Spark's progress without a Spark: what is made of the answers of Spark's status API, and that progress never
stands in the way of a reconciliation."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from support.live_runs import give_workspace
from support.patience import PATIENCE_S
from support.run_builder import planned

from delivery_verifier.cluster.connection import Connection
from delivery_verifier.host import folders
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.live import SPARK_FILE, LiveSpark
from delivery_verifier.progress import live
from delivery_verifier.run.steps import reconcile as step
from delivery_verifier.store.run_directory import RunDirectory
from spark_jobs import reconcile as job
from spark_jobs.session import progress


class Tracker:
    """Answers as `SparkContext.statusTracker`: the tests set jobs and stages. A stage is (completed tasks, tasks)."""

    def __init__(self, *known: int) -> None:
        self.known, self.active, self.stages = [*known], list[int](), dict[int, tuple[int, int]]()
        self.hidden: set[int] = set()
        self.error: Exception | None = None

    def getJobIdsForGroup(self) -> list[int]:
        return self.known

    def getActiveJobsIds(self) -> list[int]:
        if self.error is not None:
            raise self.error
        return self.active

    def getActiveStageIds(self) -> list[int]:
        return [*self.stages, *self.hidden]

    def getStageInfo(self, stage: int) -> Any:
        if stage in self.hidden:
            return None
        return SimpleNamespace(numCompletedTasks=self.stages[stage][0], numTasks=self.stages[stage][1])


class Server:
    """A session on a Spark Connect server, whose messages the tests send."""

    def __init__(self) -> None:
        self.handlers = list[Any]()

    def registerProgressHandler(self, handler: Any) -> None:
        self.handlers.append(handler)

    def removeProgressHandler(self, handler: Any) -> None:
        self.handlers.remove(handler)

    def send(self, query: str, *stages: tuple[int, int, bool], inflight: int = 0, done: bool = False) -> None:
        """Sends a message. A stage is (completed tasks, tasks, whether it is over)."""
        told = [SimpleNamespace(num_completed_tasks=one, num_tasks=all_, done=over) for one, all_, over in stages]
        for handler in self.handlers:
            handler(stages=told, inflight_tasks=inflight, operation_id=query, done=done)


def session(tracker: Any) -> SparkSession:
    return cast("SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker)))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """A run with a workspace. Spark is looked at a hundred times a second."""
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    monkeypatch.setattr(progress, "is_remote", lambda: False)
    made = planned(tmp_path, "run")
    give_workspace(made, tmp_path)
    return made


@pytest.fixture
def workspace(run: RunDirectory) -> Path:
    return run.path.parent / run.read_scenario().run_token


def test_jobs_are_counted_from_the_first_job_of_this_reconciliation() -> None:
    tracker = Tracker(0, 1, 2, 3)  # of the run before, in the same session
    jobs = progress._Jobs(session(tracker))
    assert jobs.look() is None
    tracker.active, tracker.stages = [4], {7: (41, 64)}
    assert jobs.look() == LiveSpark("job", 1, 41, 64)
    tracker.active, tracker.stages = [6, 4], {7: (63, 64), 9: (0, 2)}
    assert jobs.look() == LiveSpark("job", 3, 63, 66)
    tracker.active, tracker.stages, tracker.hidden = [4], {7: (63, 64)}, {11}
    assert jobs.look() == LiveSpark("job", 3, 63, 64), "an older job that lasts longer does not count back"
    tracker.active, tracker.stages, tracker.hidden = [], {}, set()
    assert jobs.look() == LiveSpark("job", 3)


def test_a_task_that_was_repeated_is_not_more_than_all_tasks() -> None:
    tracker = Tracker()
    jobs = progress._Jobs(session(tracker))
    tracker.active, tracker.stages = [0], {0: (66, 64), 1: (0, 2)}
    assert jobs.look() == LiveSpark("job", 1, 64, 66)


def test_queries_on_a_server_are_counted_by_its_messages() -> None:
    server = Server()
    queries = progress._Queries(cast("SparkSession", server))
    assert queries.look() is None
    server.send("a", done=True)  # a command without a task
    assert queries.look() is None
    server.send("a", (0, 64, False), inflight=2)
    assert queries.look() == LiveSpark("query", 1, 0, 64)
    server.send("a", (41, 64, False), inflight=2)
    server.send("b", (1, 2, False), inflight=1)
    assert queries.look() == LiveSpark("query", 2, 42, 66)
    server.send("a", (64, 64, True), (1, 9, False), inflight=2)
    assert queries.look() == LiveSpark("query", 2, 2, 11), "a stage that is over does not run"
    server.send("a", (64, 64, True), (1, 9, False), done=True)
    server.send("b", (2, 2, True), done=True)
    assert queries.look() == LiveSpark("query", 2)
    queries.close()
    assert server.handlers == []


@pytest.mark.parametrize(
    ("stages", "inflight", "seen"),
    [
        (((0, 64, False), (0, 2, False)), 2, LiveSpark("query", 1)),  # one of them may be skipped
        (((0, 64, False), (1, 9, False)), 2, LiveSpark("query", 1, 1, 9)),
        (((64, 64, True), (0, 2, False)), 1, LiveSpark("query", 1, 0, 2)),
        (((64, 64, True), (0, 2, False)), 0, LiveSpark("query", 1)),
    ],
)
def test_tasks_of_a_stage_that_may_be_skipped_are_no_part_of_the_total(
    stages: tuple[tuple[int, int, bool], ...], inflight: int, seen: LiveSpark
) -> None:
    server = Server()
    queries = progress._Queries(cast("SparkSession", server))
    server.send("a", *stages, inflight=inflight)
    assert queries.look() == seen


def test_a_message_that_makes_no_sense_fails_no_query() -> None:
    server = Server()
    queries = progress._Queries(cast("SparkSession", server))
    for handler in server.handlers:
        handler(stages=[None], inflight_tasks="?", operation_id="a", done=False)
        handler(stages=None, inflight_tasks=1, operation_id="a", done=False)
        handler(stages=[SimpleNamespace(done=False)], inflight_tasks=1, operation_id=None, done=True)
    assert queries.look() is None


def test_the_file_says_what_spark_does_while_the_block_runs_and_is_gone_behind_it(
    run: RunDirectory, workspace: Path
) -> None:
    tracker = Tracker()
    with progress.shown(run, session(tracker)):
        assert live.spark(run.path) is None
        tracker.active = [0]
        wait_until(lambda: live.spark(run.path) == LiveSpark("job", 1), "the first job", PATIENCE_S)
        tracker.active, tracker.stages = [1], {1: (1, 2)}
        wait_until(lambda: live.spark(run.path) == LiveSpark("job", 2, 1, 2), "the second job", PATIENCE_S)
    assert [*workspace.iterdir()] == []


def test_on_a_server_the_messages_are_shown(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "is_remote", lambda: True)
    server = Server()
    with progress.shown(run, cast("SparkSession", server)):
        server.send("a", (41, 64, False))
        wait_until(lambda: live.spark(run.path) == LiveSpark("query", 1, 41, 64), "the query", PATIENCE_S)
    assert server.handlers == [] and live.spark(run.path) is None


def test_a_folder_that_is_not_the_workspace_of_the_run_is_left_alone(
    run: RunDirectory, tmp_path: Path, threads: list[Any]
) -> None:
    """A stored run may name any folder, and `kdv reconcile` must not replace files there."""
    (foreign := tmp_path / "theirs").mkdir()
    (foreign / SPARK_FILE).write_text("mine")
    with run.writing("start_cluster") as output:
        output.notes["workspace"] = str(foreign)
    with progress.shown(run, session(Tracker())):
        pass
    assert threads == [] and [file.read_text() for file in foreign.iterdir()] == ["mine"]


def test_a_run_without_a_workspace_is_reconciled_all_the_same(
    run: RunDirectory, workspace: Path, threads: list[Any]
) -> None:
    shutil.rmtree(workspace)
    tracker = Tracker()
    with progress.shown(run, session(tracker)):
        tracker.active = [0]
    assert not workspace.exists() and threads == [], "a workspace that was removed is not made again"
    (run.path / "start_cluster.json").unlink()
    with progress.shown(run, session(tracker)):
        pass


def _gone(run: RunDirectory, tracker: Tracker) -> None:
    """Removes the workspace as `kdv stop` does, while a file may be written there."""
    folders.remove_folder(run.path.parent / run.read_scenario().run_token)


def _dead(run: RunDirectory, tracker: Tracker) -> None:
    tracker.error = ConnectionResetError("the JVM is gone")


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The threads that watch Spark. No exception may leave any of them."""
    started, escaped, start = list[Any](), list[Any](), threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda self: (started.append(self), start(self))[1])
    monkeypatch.setattr(threading, "excepthook", escaped.append)
    yield started
    assert escaped == []


@pytest.mark.parametrize("lose", [_gone, _dead])
def test_progress_that_is_lost_in_the_middle_ends_the_watch_and_nothing_else(
    run: RunDirectory, lose: Callable[[RunDirectory, Tracker], None], threads: list[Any], workspace: Path
) -> None:
    tracker = Tracker()
    with progress.shown(run, session(tracker)):
        tracker.active = [0]
        wait_until(lambda: live.spark(run.path) is not None, "progress", PATIENCE_S)
        lose(run, tracker)
        wait_until(lambda: not threads[0].is_alive(), "the watch gives up", PATIENCE_S)
    assert live.spark(run.path) is None and workspace.exists() is (lose is _dead)


def test_progress_that_cannot_begin_is_none(run: RunDirectory) -> None:
    for broken in (None, session(None), cast("SparkSession", SimpleNamespace())):
        with progress.shown(run, cast("SparkSession", broken)):
            pass
    assert live.spark(run.path) is None


@pytest.mark.parametrize("error", [ValueError("the reconciliation itself"), KeyboardInterrupt()])
@pytest.mark.parametrize("lose", [None, _gone, _dead])
def test_an_error_of_the_reconciliation_is_raised_as_it_is(
    run: RunDirectory, error: BaseException, lose: Callable[[RunDirectory, Tracker], None] | None
) -> None:
    tracker = Tracker()
    with pytest.raises(type(error)) as raised, progress.shown(run, session(tracker)):
        tracker.active = [0]
        wait_until(lambda: live.spark(run.path) is not None, "progress", PATIENCE_S)
        if lose is not None:
            lose(run, tracker)
        raise error
    assert raised.value is error and error.__context__ is None


def test_a_look_that_hangs_does_not_hold_the_reconciliation_up(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, threads: list[Any]
) -> None:
    monkeypatch.setattr(progress, "END_S", 0.1)
    tracker, asked, released = Tracker(), threading.Event(), threading.Event()

    def hang() -> list[int]:
        asked.set()
        return [0] if released.wait(PATIENCE_S) else []

    monkeypatch.setattr(tracker, "getActiveJobsIds", hang)
    with progress.shown(run, session(tracker)):
        assert asked.wait(PATIENCE_S)
    assert threads[0].is_alive()
    released.set()
    wait_until(lambda: not threads[0].is_alive(), "the watch gives up", PATIENCE_S)
    assert live.spark(run.path) is None, "what is seen too late is not written"


@pytest.mark.parametrize("half", ["read_topic", "reconcile"])
def test_both_halves_of_a_direct_reconciliation_are_watched(
    run: RunDirectory, half: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker, seen = Tracker(), list[LiveSpark | None]()

    def work(*arguments: object) -> None:
        tracker.active = [0]
        seen.append(wait_until(lambda: live.spark(run.path), "progress", PATIENCE_S))

    cluster = SimpleNamespace(socket=None, connection=Connection({}), workspace=run.path)
    monkeypatch.setattr(step.Cluster, "of_run", lambda run: cluster)
    monkeypatch.setattr(step.lease, "renewed", lambda socket: nullcontext())
    monkeypatch.setattr(job, "read", work)
    monkeypatch.setattr(job, "reconcile", work)
    getattr(step, half)(run.path, lambda: session(tracker))
    assert seen == [LiveSpark("job", 1)] and live.spark(run.path) is None
