"""A session on a Spark Connect server: the JVM belongs to the server, and outlives the session and this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors.exceptions.connect import SparkConnectException, SparkConnectGrpcException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.client.retries import DefaultPolicy

from delivery_verifier.host.optional import optional
from spark_jobs.session.classic import END_S, SparkGone, settings

OF_A_RUN = ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone", "spark.sql.ansi.enabled")
"""The properties that each session sets. The number of shuffle partitions depends on the number of records of the run.
The other two must not depend on the server: without ANSI mode, for example, a failed cast would count as a missing
value."""
ATTEMPTS, FIRST_PAUSE_MS = 4, 100
"""If a call reaches no server, it is repeated up to ATTEMPTS times. FIRST_PAUSE_MS is the pause before the first
repetition. Each further pause is four times as long, so a server that has ended is noticed after 10 s. PySpark itself
would repeat for 10 minutes."""


@contextmanager
def connect_session(url: str, records: int = 0) -> Iterator[SparkSession]:
    """Yields a new session on the server at `url`. When the block ends, closes the session and ends all of its queries
    that still run. If the session cannot be closed, this is a warning: the server closes it later by itself.

    `url`: a Spark Connect URL, `sc://host:port/;token=...`. `records`: as in `settings`. The session shares neither
    settings nor views with other sessions of the server. An earlier session that was never closed may have left cached
    data on the server. These data are dropped first.

    A process that has used this function must not start a Spark of its own afterwards, because PySpark can use either a
    server or a Spark of its own in one process. Raises SparkGone if the server does not answer, or ends while the block
    runs.
    """
    spark = SparkSession.builder.remote(url).create()
    client = client_of(spark)
    client.set_retry_policies([DefaultPolicy(max_retries=ATTEMPTS, initial_backoff=FIRST_PAUSE_MS)])
    try:
        with _naming_server_end():
            spark.catalog.clearCache()
            for name in OF_A_RUN:
                spark.conf.set(name, settings(records)[name])
            yield spark
    finally:
        optional("the end of the Spark session", spark.stop, END_S)


def client_of(spark: SparkSession) -> SparkConnectClient:
    """Returns the client that connects `spark` with its server. Another thread may call the client's method
    `release_session`, which ends all queries of the session and lets no further query begin."""
    client = spark.client
    assert isinstance(client, SparkConnectClient)
    return client


@contextmanager
def _naming_server_end() -> Iterator[None]:
    """Turns an error in the block into SparkGone if the server does not answer any more."""
    try:
        yield
    except SparkConnectException as error:
        if not _is_unreachable(error):
            raise
        raise SparkGone(
            "the Spark Connect server has ended, or does not answer: was the memory short? Its log says why"
        ) from error


def _is_unreachable(error: SparkConnectException) -> bool:
    """Returns whether `error` says that no server answers, or that another server has replaced the first one.

    Two threads send queries. If the server was replaced, the first thread that notices this closes the client for both
    threads. The other thread then has no active session.
    """
    condition = error.getCondition() or ""
    if condition.endswith(("SESSION_CHANGED", "SESSION_NOT_FOUND", "NO_ACTIVE_SESSION")):
        return True
    return isinstance(error, SparkConnectGrpcException) and error.getGrpcStatusCode().name == "UNAVAILABLE"
