"""Spark in this process: the environment that it needs, and a session that starts at its first use."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from delivery_verifier.host.java.jars import spark_jars
from delivery_verifier.host.java.runtime import java_home
from delivery_verifier.store.run_directory import RunDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SparkProvider = Callable[[], "SparkSession"]
"""Returns the session, and starts it at the first call."""


def prepare_spark() -> None:
    """Sets what this process and its environment must have before a session is started."""
    os.environ.setdefault("JAVA_HOME", str(java_home()))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["KDV_SPARK_JARS"] = ",".join(str(jar) for jar in spark_jars())
    logging.getLogger().addFilter(_is_no_interruption)


def _is_no_interruption(entry: logging.LogRecord) -> bool:
    """Py4J logs a traceback, as root, when it is interrupted. The command itself says that Ctrl-C was pressed."""
    return not (entry.exc_info and entry.exc_info[0] is KeyboardInterrupt)


class OwnSession:
    """The provider of a session that is sized for the run's records. Spark starts at the first call."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._session: SparkSession | None = None

    def __call__(self) -> SparkSession:
        """The session. The run must have been planned."""
        if self._session is None:
            prepare_spark()
            from spark_jobs.session import local_session

            self._session = local_session(_records(self._run_dir))
        return self._session

    def end(self) -> None:
        """Ends the session, if it was started and not ended yet. Raises subprocess.TimeoutExpired."""
        session, self._session = self._session, None
        if session is not None:
            from spark_jobs.session import end

            end(session)


@contextmanager
def own_session(run_dir: Path) -> Iterator[OwnSession]:
    """Yields a session for the run, which ends with the block at the latest."""
    session = OwnSession(run_dir)
    try:
        yield session
    finally:
        session.end()


def _records(run_dir: Path) -> int:
    return sum(arm.records for arm in RunDirectory(run_dir).read_scenario().loaded)
