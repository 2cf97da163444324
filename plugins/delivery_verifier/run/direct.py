"""Direct: the steps of a run in one process with one Spark session, in the order in which the DAG has them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.host.java.jars import spark_jars
from delivery_verifier.host.java.runtime import java_home
from delivery_verifier.model.scenario import Step
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.run.signals import OtherSideFailed
from delivery_verifier.run.steps.conclude import judge_and_report
from delivery_verifier.run.steps.create_topics import create_topics
from delivery_verifier.run.steps.inject_fault import inject_fault
from delivery_verifier.run.steps.plan import plan_from_params
from delivery_verifier.run.steps.produce import produce
from delivery_verifier.run.steps.settle import settle
from delivery_verifier.run.steps.start_cluster import start_cluster
from delivery_verifier.run.steps.stop_cluster import stop_cluster
from delivery_verifier.run.steps.validate import validate
from delivery_verifier.store.run_directory import RunDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
Watch = Callable[[Step, str, float], None]
"""Told of every step: its name, `running`, `success` or `failed`, and its seconds so far."""


def run(params: Mapping[str, Any], name: str, watch: Watch, spark: SparkSession | None = None) -> RunVerdict:
    """Runs everything and returns the verdict. Raises whatever the first failing step raised: then there is none.

    The caller must make SIGTERM an exception, so that the cluster is stopped (its keeper is the second line).
    """
    run_dir = _timed("plan", watch, lambda: plan_from_params(params, name))
    reconciled = False
    try:
        _timed("start_cluster", watch, lambda: start_cluster(run_dir))
        _timed("create_topics", watch, lambda: create_topics(run_dir))
        _load_under_fault(run_dir, watch)
        _timed("settle", watch, lambda: settle(run_dir))
        _timed("reconcile", watch, lambda: reconcile(run_dir, from_log=False, spark=spark))
        reconciled = True
    finally:
        _timed("stop_cluster", watch, lambda: stop_cluster(run_dir, keep=reconciled))
    with _judging(run_dir):
        _timed("validate", watch, lambda: validate(run_dir))
        return _timed("conclude", watch, lambda: judge_and_report(run_dir))


def observe(
    params: Mapping[str, Any],
    name: str,
    watch: Watch,
    spark: Callable[[], SparkSession],
    before_load: Callable[[], None],
) -> Path:
    """The half of a run that needs its cluster, up to the log that Spark reads from the topics. Returns the run
    directory.

    `before_load` is called when the cluster is up and nothing has been sent yet; only then, and to read, Spark is asked
    for. The cluster is gone afterwards, but its workspace stays until `judge`, so that a violation's data can be kept.
    """
    run_dir = _timed("plan", watch, lambda: plan_from_params(params, name))
    seen = False
    try:
        _timed("start_cluster", watch, lambda: start_cluster(run_dir))
        _timed("create_topics", watch, lambda: create_topics(run_dir))
        with lease.renewed(Cluster.of(RunDirectory(run_dir)).socket):
            before_load()
        _load_under_fault(run_dir, watch)
        _timed("settle", watch, lambda: settle(run_dir))
        _timed("reconcile", watch, lambda: _read(run_dir, spark()))
        seen = True
    finally:
        _timed("stop_cluster", watch, lambda: stop_cluster(run_dir, keep=seen))
    return run_dir


def judge(run_dir: Path, watch: Watch, spark: Callable[[], SparkSession]) -> RunVerdict:
    """The other half, a pure function of the run directory: books, expectations, verdict and report."""
    with _judging(run_dir):
        _timed("reconcile", watch, lambda: reconcile(run_dir, from_log=True, spark=spark()))
        _timed("validate", watch, lambda: validate(run_dir))
        return _timed("conclude", watch, lambda: judge_and_report(run_dir))


@contextmanager
def _judging(run_dir: Path) -> Iterator[None]:
    """Inside, the run is judged; where that fails, its workspace, which this process holds, goes."""
    try:
        yield
    except BaseException:
        if (run_dir / "conclude.json").is_file():
            raise  # it was judged, and what becomes of its workspace decided
        workspaces.remove(
            workspaces.folder() / RunDirectory(run_dir).scenario.run_token
        )  # cannot be judged: none is kept
        raise


def _read(run_dir: Path, spark: SparkSession) -> None:
    from spark_jobs.reconcile import read
    from spark_jobs.session import naming_its_end

    cluster = Cluster.of(RunDirectory(run_dir))
    with lease.renewed(cluster.socket), naming_its_end():
        read(run_dir, spark, cluster.connection.spark_options())


def prepare_spark() -> None:
    """What this process and its environment must have before a session is started."""
    os.environ.setdefault("JAVA_HOME", str(java_home()))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["KDV_SPARK_JARS"] = ",".join(str(jar) for jar in spark_jars())
    logging.getLogger().addFilter(_is_no_interruption)


def _is_no_interruption(entry: logging.LogRecord) -> bool:
    """Py4J logs a traceback, as root, when it is interrupted; whoever pressed Ctrl-C is told by the command."""
    return not (entry.exc_info and entry.exc_info[0] is KeyboardInterrupt)


def reconcile(run_dir: Path, from_log: bool, spark: SparkSession | None = None) -> None:
    """The Spark job in this process, with the session given or one of its own."""
    # Starting Spark takes longer than a lease where the host is busy: the cluster must be held meanwhile.
    cluster = None if from_log else Cluster.of(RunDirectory(run_dir))
    with lease.renewed(cluster.socket) if cluster else nullcontext():
        prepare_spark()
        from spark_jobs.reconcile import reconcile as reconcile_with
        from spark_jobs.session import end, local_session, naming_its_end

        session = spark or local_session(_records(run_dir))
        try:
            with naming_its_end():
                reconcile_with(
                    run_dir, from_log, session, connection=cluster.connection.spark_options() if cluster else None
                )
        finally:
            if spark is None:
                end(session)


def _records(run_dir: Path) -> int:
    return sum(arm.records for arm in RunDirectory(run_dir).scenario.loaded)


def _load_under_fault(run_dir: Path, watch: Watch) -> None:
    """produce in this thread, which the producers' lives hang on; inject_fault beside it."""
    failures: list[BaseException] = []

    def inject() -> None:
        try:
            _timed("inject_fault", watch, lambda: inject_fault(run_dir))
        except BaseException as error:  # raised again below, in the thread that runs the run
            failures.append(error)

    beside = threading.Thread(target=inject, name="inject_fault")
    beside.start()
    try:
        _timed("produce", watch, lambda: produce(run_dir))
    except OtherSideFailed:
        beside.join()
        if failures:
            raise failures[0] from None
        raise
    finally:
        beside.join()
    if failures:
        raise failures[0]


def _timed(step: Step, watch: Watch, work: Callable[[], T]) -> T:
    start = time.monotonic()
    watch(step, "running", 0.0)
    try:
        result = work()
    except BaseException as error:
        watch(step, "failed", time.monotonic() - start)
        if _is_interruption(error):
            raise KeyboardInterrupt from None
        raise
    watch(step, "success", time.monotonic() - start)
    return result


def _is_interruption(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind it. Py4J, if it is waiting for the JVM then, fails at tidying up, and that hides it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None
