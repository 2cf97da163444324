"""The direct runner: runs entries in this process, without Airflow, with one Spark session for all entries.

To save time, the cluster of the next entry boots while the previous entry is judged. The next entry sends its first
record only after the judging has ended. Otherwise the judging would slow down the load, and faults have deadlines.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from delivery_verifier.host import folders, processes
from delivery_verifier.model.catalogue_run import Attempt
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.progress import ProgressListener
from delivery_verifier.pipeline import direct
from delivery_verifier.pipeline.local_spark import prepare_spark
from delivery_verifier.suite import results
from delivery_verifier.suite.loop import attempt_or_failure, now

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class DirectRunner:
    """The Runner (see `loop.Runner`) of `kdv catalogue --direct`: runs entries in this process.

    `spark`: the Spark session that judges the runs. It may still be starting. `judges`: a pool with one thread, which
    judges the runs. `listener` is called each time a step changes its state. `external` names the cluster of all runs,
    if somebody else runs it. `clients`: see `CatalogueRun`.
    """

    def __init__(
        self,
        spark: Future[SparkSession],
        judges: ThreadPoolExecutor,
        listener: ProgressListener,
        external: ClusterAccess | None = None,
        clients: str = "",
    ) -> None:
        self._spark, self._judges, self._listener, self._external = spark, judges, listener, external
        self._named = {"clients": clients} if clients else {}
        self._owner, self._one_at_a_time = str(processes.myself()), threading.Lock()

    def begin(self, entry: str, run: str, before_load: Callable[[], None]) -> Future[Attempt]:
        """Runs the steps that need a cluster in the calling thread. Then gives the run to another thread, which judges
        it.

        Returns a future, which will hold the result of the run as an `Attempt`. If a step that needs a cluster fails,
        the future already holds an `Attempt` with the error. `Runner.begin` explains the parameters.
        """
        started_at, begun_s = now(), time.monotonic()
        fields = {"scenario": entry, "owner": self._owner, **self._named}
        try:
            run_dir = direct.observe(
                fields,
                run,
                self._listener,
                self.session,
                lambda: self._before_load(before_load),
                external=self._external,
            )
        except Exception as error:  # recorded as a failed attempt, so that the next entry can run
            failed: Future[Attempt] = Future()
            failed.set_result(results.failed(run, started_at, time.monotonic() - begun_s, error))
            return failed
        return self._judges.submit(attempt_or_failure, partial(self._judge, run_dir), run)

    def session(self) -> SparkSession:
        """Waits until the Spark session has started, and returns the session.

        If the session failed to start, or if its JVM has ended, returns a new session, so that the next runs can be
        judged.
        """
        from spark_jobs.session.classic import living_session, local_session

        with self._one_at_a_time:
            started = self._spark.exception() is None
            session: Future[SparkSession] = Future()
            session.set_result(living_session(self._spark.result()) if started else local_session())
            self._spark = session
            return session.result()

    def end(self) -> None:
        """Waits until the Spark session has started, and ends the session. Does nothing if the start failed."""
        from spark_jobs.session.classic import end

        if self._spark.exception() is None:
            end(self._spark.result())

    def _before_load(self, before_load: Callable[[], None]) -> None:
        before_load()
        self.session()  # waits: a session that is still starting would take the processors from the first load

    def _judge(self, run_dir: Path) -> Attempt:
        direct.judge(run_dir, self._listener, self.session)
        return results.attempt(run_dir)


@contextmanager
def runner(
    listener: ProgressListener,
    spark: SparkSession | None = None,
    external: ClusterAccess | None = None,
    clients: str = "",
) -> Iterator[DirectRunner]:
    """Yields a runner with one Spark session. This is `spark` or, if `spark` is None, a new session.

    A new session ends with the `with` block of the caller. Another thread starts the session while the first cluster
    boots, because the start takes seconds.
    `listener` is called each time a step changes its state. `external` names the cluster if somebody else runs it.
    `clients`: see `CatalogueRun`. Raises BadInput if the folders of runs cannot be written.
    """
    folders.require_writable()
    prepare_spark()
    with ThreadPoolExecutor(1, "judge") as judges:
        direct_runner = DirectRunner(judges.submit(_session, spark), judges, listener, external, clients)
        try:
            yield direct_runner
        finally:
            if spark is None:
                judges.submit(direct_runner.end).result()


def _session(spark: SparkSession | None) -> SparkSession:
    from spark_jobs.session.classic import local_session

    return spark or local_session()
