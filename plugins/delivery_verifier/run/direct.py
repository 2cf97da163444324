"""Direct: the steps of a run in one process with one Spark session. The order of the steps is written here once.

The DAG has the same order, as edges between its tasks (dags/verify_delivery.py).
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
from delivery_verifier.model.progress import ProgressListener, StepProgress
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.run.local_spark import SparkProvider, own_session
from delivery_verifier.run.signals import ParallelStepFailed
from delivery_verifier.run.steps.conclude import judge_and_report
from delivery_verifier.run.steps.create_topics import create_topics
from delivery_verifier.run.steps.inject_fault import inject_fault
from delivery_verifier.run.steps.plan import plan_from_params
from delivery_verifier.run.steps.produce import produce
from delivery_verifier.run.steps.reconcile import read_topic, reconcile
from delivery_verifier.run.steps.settle import settle
from delivery_verifier.run.steps.start_cluster import start_cluster
from delivery_verifier.run.steps.stop_cluster import stop_cluster
from delivery_verifier.run.steps.validate import validate
from delivery_verifier.store.run_directory import RunDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


def run(
    params: Mapping[str, Any], name: str, listener: ProgressListener, spark: SparkSession | None = None
) -> RunVerdict:
    """Runs all steps and returns the verdict. Raises whatever the first failing step raises: then there is no verdict.

    `spark`: a session that outlives the run; None: a session of the run's own, which ends with the run. The caller must
    make SIGTERM an exception, so that the cluster is stopped (its keeper is the second line).
    """
    if spark is not None:
        session = spark
        return judge(observe(params, name, listener, lambda: session), listener, lambda: session)
    with _raising_interruptions(), own_session(folders.runs_dir() / name) as own:
        return judge(observe(params, name, listener, own), listener, own, own.end)


def observe(
    params: Mapping[str, Any],
    name: str,
    listener: ProgressListener,
    spark: SparkProvider,
    before_load: Callable[[], None] | None = None,
) -> Path:
    """The half of a run that needs its cluster, up to the log that Spark reads from the topics. Returns the run
    directory.

    `before_load` is called when the cluster is up and nothing has been sent yet. `spark` is asked for a session to read
    the topics. The cluster is gone afterwards, but its workspace stays until `judge`, so that the data of a violation
    can be kept.
    """
    steps = _Steps(name, listener)
    run_dir = steps.work("plan", lambda: plan_from_params(params, name))
    complete = False
    try:
        steps.work("start_cluster", lambda: start_cluster(run_dir))
        steps.work("create_topics", lambda: create_topics(run_dir))
        if before_load is not None:
            with lease.renewed(Cluster.of_run(RunDirectory(run_dir)).socket):
                before_load()
        _load_under_fault(run_dir, steps)
        steps.work("settle", lambda: settle(run_dir))
        steps.work("read_topic", lambda: read_topic(run_dir, spark))
        complete = True
    finally:
        steps.work("stop_cluster", lambda: stop_cluster(run_dir, keep=complete))
    return run_dir


def judge(
    run_dir: Path, listener: ProgressListener, spark: SparkProvider, end_spark: Callable[[], None] | None = None
) -> RunVerdict:
    """The other half, a pure function of the run directory: books, expectations, verdict and report.

    `end_spark` is called as soon as Spark is needed no more. If `end_spark` fails, the run gets no verdict.
    """
    steps = _Steps(run_dir.name, listener)
    with _removing_unjudged_workspace(run_dir):
        steps.work("reconcile", lambda: reconcile(run_dir, spark))
        if end_spark is not None:
            end_spark()
        steps.work("validate", lambda: validate(run_dir))
        return steps.work("conclude", lambda: judge_and_report(run_dir))


@contextmanager
def _removing_unjudged_workspace(run_dir: Path) -> Iterator[None]:
    """Inside, the run is judged. If that fails, its workspace, which this process holds, is removed."""
    try:
        yield
    except BaseException:
        # If the run was judged, conclude has decided what becomes of the workspace.
        if not (run_dir / "conclude.json").is_file():
            run_token = RunDirectory(run_dir).read_scenario().run_token
            workspaces.remove(workspaces.folder() / run_token)
        raise


def _load_under_fault(run_dir: Path, steps: _Steps) -> None:
    """produce in this thread, because the producers end with it; inject_fault in another thread beside it.

    Raises what the injection failed with before what produce failed with because of that.
    """
    failures: list[BaseException] = []

    def inject() -> None:
        try:
            steps.work("inject_fault", lambda: inject_fault(run_dir))
        except BaseException as error:  # raised again below, in the thread that runs the run
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
    """Works the steps of one run. Reports to the listener when each step begins, and how each step ends."""

    def __init__(self, run: str, listener: ProgressListener) -> None:
        self._run, self._listener = run, listener

    def work(self, step: str, work: Callable[[], T]) -> T:
        """What `work` returns. Raises what `work` raises, or KeyboardInterrupt if Ctrl-C is the cause of the error."""
        self._listener(StepProgress(self._run, step, "running"))
        try:
            with _raising_interruptions():
                result = work()
        except BaseException:
            self._listener(StepProgress(self._run, step, "failed"))
            raise
        self._listener(StepProgress(self._run, step, "success"))
        return result


@contextmanager
def _raising_interruptions() -> Iterator[None]:
    """Raises KeyboardInterrupt if Ctrl-C is the cause of the error of the block.

    If Py4J is waiting for the JVM at that moment, the clean-up of Py4J fails, and its error hides the interruption.
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
