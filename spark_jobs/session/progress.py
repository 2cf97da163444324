"""Spark's progress: what Spark does for a reconciliation at this moment, for people who wait for the verdict.

A thread writes this into a file of the run's workspace, which the live line and the live page read. Nothing of it
counts for the verdict. So progress that cannot be had is left out, and a reconciliation never fails for lack of it.

The source is Spark's own status API. Its part depends on where the driver is:

* In a JVM of this process: `SparkContext.statusTracker`. It knows the jobs.
* On a Spark Connect server: the messages that the server sends to the client of a query at least every two seconds
  (`spark.connect.progress.reportInterval`). They name no jobs, so queries are counted instead.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from delivery_verifier.model.live import SPARK_FILE, LiveSpark
from delivery_verifier.run_directory.run_directory import RunDirectory

EVERY_S = 1.0
"""Seconds between two looks at Spark. Each look writes the file anew, so its age says if Spark is still watched."""
END_S = 5.0
"""How long the end of a reconciliation waits for a look that is under way, in seconds."""
_log = logging.getLogger(__name__)


class _Stage(Protocol):
    """What the server says of a stage (`pyspark.sql.connect.shell.progress.StageInfo`)."""

    num_tasks: int
    num_completed_tasks: int
    done: bool


class _Source(Protocol):
    def look(self) -> LiveSpark | None:
        """Returns what Spark does now, or None before Spark has begun anything."""

    def close(self) -> None:
        """Ends the watch."""


@contextmanager
def shown(run: RunDirectory, spark: SparkSession) -> Iterator[None]:
    """While the block runs, writes every EVERY_S seconds into the workspace of `run` what `spark` does.

    Only errors of the block are raised. If the run has no workspace, or has it no longer, nothing is written.
    """
    watch = _begin(run, spark)
    try:
        yield
    finally:
        if watch is not None:
            watch.end()


def _begin(run: RunDirectory, spark: SparkSession) -> _Watch | None:
    try:
        file = _workspace(run) / SPARK_FILE
        return _Watch(file, _Queries(spark) if is_remote() else _Jobs(spark))
    except Exception as error:  # whatever is wrong here, the reconciliation itself may still work
        _log.info("the progress of Spark is not shown: %r", error)
        return None


def _workspace(run: RunDirectory) -> Path:
    """Returns the workspace of `run`. Raises FileNotFoundError if it is gone.

    The path stands in a file of the run directory. The run directory of a stored run may come from anywhere, so a path
    that does not end with the run's token is no workspace either: a file of a foreign writer would be replaced there.
    """
    workspace = Path(run.manifest("start_cluster").notes["workspace"])
    if workspace.name != run.read_scenario().run_token or not workspace.is_dir():
        raise FileNotFoundError(f"{workspace} is no workspace of this run")
    return workspace


class _Watch:
    """Looks at `source` every EVERY_S seconds, in a thread of its own, and writes into `file` what it sees.

    `end` removes the file. If a look or a write fails, the watch gives up: Spark has ended, or the workspace is gone.
    """

    def __init__(self, file: Path, source: _Source) -> None:
        self._file, self._source, self._over = file, source, threading.Event()
        self._thread = threading.Thread(target=self._work, name="progress of Spark", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            while not self._over.wait(EVERY_S):
                if (state := self._source.look()) is not None and not self._over.is_set():
                    self._write(state)
        except Exception as error:  # the reconciliation notices by itself if Spark has ended
            _log.info("the progress of Spark is shown no more: %r", error)

    def _write(self, state: LiveSpark) -> None:
        """Replaces the file as a whole, so that no reader sees half of it. Makes no folder."""
        partial = self._file.with_name(f".{self._file.name}.{os.getpid()}.partial")
        partial.write_bytes(msgspec.json.encode(state))
        os.replace(partial, self._file)

    def end(self) -> None:
        self._over.set()
        self._thread.join(END_S)
        with suppress(Exception):
            self._source.close()
        with suppress(OSError):
            self._file.unlink(missing_ok=True)


class _Jobs:
    """The jobs of a driver in a JVM of this process. Ids of jobs are consecutive, also beyond one run, because several
    runs may share the session."""

    def __init__(self, spark: SparkSession) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._newest = self._before = max(self._tracker.getJobIdsForGroup(), default=-1)

    def look(self) -> LiveSpark | None:
        self._newest = max([self._newest, *self._tracker.getActiveJobsIds()])
        if self._newest == self._before:
            return None
        infos = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
        stages = [(info.numCompletedTasks, info.numTasks) for info in infos if info is not None]
        return _state("job", self._newest - self._before, stages)

    def close(self) -> None:
        pass


class _Queries:
    """The queries of a session on a Spark Connect server, by the messages that the server sends while a query runs."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._lock = spark, threading.Lock()
        self._begun: set[str] = set()
        self._under_way: dict[str, list[tuple[int, int]]] = {}
        spark.registerProgressHandler(self._receive)  # type: ignore[arg-type]

    def _receive(
        self, stages: Iterable[_Stage] | None, inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        """Takes a message about one query. The thread of this query makes the call, and an error would fail the query.

        A stage without a completed task may run, wait, or be one that Spark skips: the server does not say which. It
        counts only if tasks run, and if they can be of no other stage.
        """
        with suppress(Exception):
            known = [*(stages or ())]
            if not operation_id or not known:
                return
            unfinished = [stage for stage in known if not stage.done]
            running = [stage for stage in unfinished if stage.num_completed_tasks]
            if inflight_tasks and len(unfinished) == 1:
                running = unfinished
            with self._lock:
                self._begun.add(operation_id)
                self._under_way[operation_id] = [
                    (stage.num_completed_tasks, stage.num_tasks) for stage in running if not done
                ]

    def look(self) -> LiveSpark | None:
        with self._lock:
            stages = [stage for running in self._under_way.values() for stage in running]
            return _state("query", len(self._begun), stages) if self._begun else None

    def close(self) -> None:
        self._spark.removeProgressHandler(self._receive)  # type: ignore[arg-type]


def _state(unit: str, number: int, stages: list[tuple[int, int]]) -> LiveSpark:
    """`stages`: (completed tasks, all tasks) of each stage that runs. A task that was repeated may count twice."""
    done = sum(min(completed, tasks) for completed, tasks in stages)
    return LiveSpark(unit, number, done, sum(tasks for _, tasks in stages))
