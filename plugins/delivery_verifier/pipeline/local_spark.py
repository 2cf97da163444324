"""Spark in this process: the environment that Spark needs, and a session that starts when it is first used."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from delivery_verifier.host.java.class_archive import patience_s
from delivery_verifier.host.java.jars import spark_jars
from delivery_verifier.host.java.runtime import java_home
from delivery_verifier.host.optional import optional
from delivery_verifier.run_directory.run_directory import RunDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

END_S = 120.0
"""How long the end of Spark may take in all, in seconds. No verdict rests on it."""
SparkProvider = Callable[[], "SparkSession"]
"""A function that returns the Spark session. The first call starts the session."""


def prepare_spark() -> None:
    """Sets the environment variables that Spark and its JVM read. Call it before a session is started.

    Also keeps the tracebacks that Py4J logs after Ctrl-C out of the log of this process.
    """
    os.environ.setdefault("JAVA_HOME", str(java_home()))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["KDV_SPARK_JARS"] = ",".join(str(jar) for jar in spark_jars())
    logging.getLogger().addFilter(_is_no_interruption)


def _is_no_interruption(entry: logging.LogRecord) -> bool:
    """Filters the entries of the root logger. Returns false for the traceback of a KeyboardInterrupt, and true for any
    other entry.

    Py4J logs such a traceback. Nobody needs it, because the command itself says that Ctrl-C was pressed.
    """
    return not (entry.exc_info and entry.exc_info[0] is KeyboardInterrupt)


class OwnSession:
    """A SparkProvider for the run in `run_dir`: a call returns the session. The settings of the session fit the run's
    size."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._starting: Future[SparkSession] | None = None

    def start(self) -> None:
        """Begins to start Spark in another thread, and returns at once. Does nothing if Spark was started before.

        The step plan must have finished, because the settings depend on the run's scenario.
        """
        if self._starting is None:
            pool = ThreadPoolExecutor(1, thread_name_prefix="start of Spark")
            self._starting = pool.submit(self._session)
            pool.shutdown(wait=False)

    def check(self) -> None:
        """If the start of Spark has already failed, raises the error. Does not wait for a start that is under way."""
        if self._starting is not None and self._starting.done():
            self._starting.result()

    def __call__(self) -> SparkSession:
        """Waits until the session has started, and returns the session. If the start failed, raises the error."""
        self.start()
        assert self._starting is not None
        return self._starting.result()

    def end(self) -> None:
        """Ends the session if it was started and has not been ended. Waits for a start that is under way.

        If the end fails or takes longer than END_S seconds, this is a warning.
        """
        optional("the end of Spark", self._end, patience_s(END_S))

    def _end(self) -> None:
        starting, self._starting = self._starting, None
        if starting is not None and starting.exception() is None:
            from spark_jobs.session.classic import end

            end(starting.result())

    def _session(self) -> SparkSession:
        prepare_spark()
        from spark_jobs.session.classic import local_session

        return local_session(_records(self._run_dir))


@contextmanager
def own_session(run_dir: Path) -> Iterator[OwnSession]:
    """Yields an OwnSession for the run in `run_dir`. If its JVM still runs at the end of the block, ends the JVM."""
    session = OwnSession(run_dir)
    try:
        yield session
    finally:
        session.end()


@contextmanager
def foreign_session() -> Iterator[Callable[..., SparkSession]]:
    """Yields a SparkProvider for an audit, which may be told how many records it will read. Its first call starts
    Spark, with settings that fit this number, and its JVM ends with the block."""
    started: list[SparkSession] = []

    def session(records: int = 0) -> SparkSession:
        if not started:
            prepare_spark()
            from spark_jobs.session.classic import local_session

            started.append(local_session(records))
        return started[0]

    try:
        yield session
    finally:
        if started:
            from spark_jobs.session.classic import end

            optional("the end of Spark", lambda: end(started[0]), patience_s(END_S))


def _records(run_dir: Path) -> int:
    """Returns how many records the run sends at least, in all arms together."""
    return sum(arm.records for arm in RunDirectory(run_dir).read_scenario().loaded)
