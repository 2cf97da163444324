"""The direct run, without Airflow: performs all steps in one process with one Spark session.

`observe` and `judge` call the steps in order. The DAG has the same order, as edges between its tasks
(orchestration/tasks/graph.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host import folders
from delivery_verifier.host.java.class_archive import patience_s
from delivery_verifier.host.optional import optional
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.progress import ProgressListener, StepProgress
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.pipeline.local_spark import SparkProvider, own_session
from delivery_verifier.pipeline.signals import ParallelStepFailed
from delivery_verifier.pipeline.steps.create_topics import create_topics
from delivery_verifier.pipeline.steps.inject_fault import inject_fault
from delivery_verifier.pipeline.steps.plan import plan_from_params
from delivery_verifier.pipeline.steps.produce import produce
from delivery_verifier.pipeline.steps.reconcile import read_topic, reconcile
from delivery_verifier.pipeline.steps.settle import settle
from delivery_verifier.pipeline.steps.start_cluster import start_cluster
from delivery_verifier.pipeline.steps.stop_cluster import stop_cluster
from delivery_verifier.pipeline.steps.validate import validate
from delivery_verifier.run_directory.run_directory import RunDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOP_S = 120.0
"""How long the end of the cluster may take, in seconds. The run then goes on without it."""
T = TypeVar("T")


def run(
    params: Mapping[str, Any],
    name: str,
    listener: ProgressListener,
    spark: SparkSession | None = None,
    external: ClusterAccess | None = None,
) -> RunVerdict:
    """Runs all steps and returns the verdict. If a step fails, raises the error of the step, and there is no verdict.

    `params` holds the fields of the run, by name. `name` is the name of the run directory. `listener` is called when a
    step begins and when a step ends. `spark` is a session that outlives the run. If `spark` is None, the run starts and
    ends a session of its own. `external` names the cluster if somebody else runs it.

    The caller must turn SIGTERM into an exception, so that the step stop_cluster still runs. If this process is killed,
    the cluster agent (the process in charge of the cluster) ends the cluster.
    """
    if spark is not None:
        session = spark
        run_dir = observe(params, name, listener, lambda: session, external=external)
        return judge(run_dir, listener, lambda: session)
    with _raising_interruptions(), own_session(folders.runs_dir() / name) as own:
        run_dir = observe(params, name, listener, own, own.check, own.start, external)
        return judge(run_dir, listener, own, own.end)


def observe(
    params: Mapping[str, Any],
    name: str,
    listener: ProgressListener,
    spark: SparkProvider,
    before_load: Callable[[], None] | None = None,
    planned: Callable[[], None] = lambda: None,
    external: ClusterAccess | None = None,
) -> Path:
    """Performs the first half of a run: all steps that need the cluster, up to the reading of the topics with Spark.

    Returns the run directory. `params`: the fields of the run. `name`: the name of the run directory. `listener` is
    called when a step begins and when a step ends. `spark` returns the session that reads the topics. `before_load` is
    called when the topics exist and no record has been sent yet. `planned` is called when the step plan has finished.
    `planned` can start slow work, which then runs while the cluster starts. `external` names the cluster if somebody
    else runs it.

    The cluster is stopped at the end, even if a step fails. If all steps succeed, the brokers' data stay until `judge`
    decides whether to keep them. If the cluster cannot be stopped, this is a warning: the evidence is complete, or
    another step has failed before. The cluster agent then ends the cluster once its lease is over.
    """
    steps = _Steps(name, listener)
    run_dir = steps.work("plan", lambda: plan_from_params(params, name, external))
    planned()
    try:
        steps.work("start_cluster", lambda: start_cluster(run_dir))
        steps.work("create_topics", lambda: create_topics(run_dir))
        if before_load is not None:
            with lease.renewed(Cluster.of_run(RunDirectory(run_dir)).socket):
                before_load()
        _load_under_fault(run_dir, steps)
        steps.work("settle", lambda: settle(run_dir))
        steps.work("read_topic", lambda: read_topic(run_dir, spark))
    except BaseException:
        steps.try_to_work("stop_cluster", lambda: stop_cluster(run_dir, keep=False), patience_s(STOP_S))
        raise
    steps.try_to_work("stop_cluster", lambda: stop_cluster(run_dir, keep=True), patience_s(STOP_S))
    return run_dir


def judge(
    run_dir: Path, listener: ProgressListener, spark: SparkProvider, end_spark: Callable[[], None] | None = None
) -> RunVerdict:
    """Performs the second half of a run: the steps reconcile, validate and conclude. Returns the verdict.

    This half needs no cluster, because its result depends only on the run directory. `spark` returns the session that
    reconciles. `end_spark` is called as soon as Spark is no longer needed.
    """
    steps = _Steps(run_dir.name, listener)
    with _removing_unjudged_workspace(run_dir):
        steps.work("reconcile", lambda: reconcile(run_dir, spark))
        if end_spark is not None:
            end_spark()
        steps.work("validate", lambda: validate(run_dir))
        return steps.work("conclude", lambda: _conclude(run_dir))


def _conclude(run_dir: Path) -> RunVerdict:
    from delivery_verifier.pipeline.steps.conclude import judge_and_report

    return judge_and_report(run_dir)


@contextmanager
def _removing_unjudged_workspace(run_dir: Path) -> Iterator[None]:
    """Runs the block. If the block fails before the run is judged, removes the workspace of the run (the brokers'
    data)."""
    try:
        yield
    except BaseException:
        # If the run was judged, conclude has decided what becomes of the workspace.
        if not (run_dir / "conclude.json").is_file():
            optional("the removal of the workspace", lambda: _remove_workspace(run_dir), STOP_S)
        raise


def _remove_workspace(run_dir: Path) -> None:
    workspaces.remove(workspaces.folder() / RunDirectory(run_dir).read_scenario().run_token)


def _load_under_fault(run_dir: Path, steps: _Steps) -> None:
    """Runs the step produce in this thread and, at the same time, the step inject_fault in another thread.

    Produce runs in this thread, because the producers end with the thread that started them. If inject_fault fails,
    produce fails, too. The function then raises the error of inject_fault, because it caused the error of produce.
    """
    failures: list[BaseException] = []

    def inject() -> None:
        try:
            steps.work("inject_fault", lambda: inject_fault(run_dir))
        except BaseException as error:  # raised again below, in the thread of the run
            failures.append(error)

    injector = threading.Thread(target=inject, name="inject_fault")
    injector.start()
    try:
        steps.work("produce", lambda: produce(run_dir))
    except ParallelStepFailed:
        injector.join()
        if failures:
            raise failures[0] from None
        raise
    finally:
        injector.join()
    if failures:
        raise failures[0]


class _Steps:
    """Runs the steps of one run. `listener` is called when a step begins, succeeds or fails."""

    def __init__(self, run: str, listener: ProgressListener) -> None:
        self._run, self._listener = run, listener

    def work(self, step: str, work: Callable[[], T]) -> T:
        """Runs the step called `step`: calls `work`, and returns the result of `work`.

        Raises the error of `work`. If Ctrl-C caused this error, raises KeyboardInterrupt instead.
        """
        self._listener(StepProgress(self._run, step, "running"))
        try:
            with _raising_interruptions():
                result = work()
        except BaseException:
            self._listener(StepProgress(self._run, step, "failed"))
            raise
        self._listener(StepProgress(self._run, step, "success"))
        return result

    def try_to_work(self, step: str, work: Callable[[], object], within_s: float) -> None:
        """Runs the step called `step`, on which no verdict rests. If it fails, or does not end within `within_s`
        seconds, logs a warning."""
        self._listener(StepProgress(self._run, step, "running"))
        failed = optional(step, work, within_s)
        self._listener(StepProgress(self._run, step, "failed" if failed else "success"))


@contextmanager
def _raising_interruptions() -> Iterator[None]:
    """Runs the block. If Ctrl-C caused an error of the block, raises KeyboardInterrupt in place of this error.

    If a user presses Ctrl-C while Py4J waits for the JVM, Py4J's clean-up fails with an error that hides the
    KeyboardInterrupt.
    """
    try:
        yield
    except BaseException as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__context__
        if cause is not None:
            raise KeyboardInterrupt from None
        raise
