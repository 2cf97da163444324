"""The Spark session on this host, configured so that a verification starts fast and logs little.

PySpark runs Spark in a JVM. This JVM is a child of the Python process or, under `spark-submit`, its parent.
"""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from delivery_verifier.host.java.class_archive import ClassArchive, patience_s
from delivery_verifier.host.optional import optional
from delivery_verifier.host.processes import how_it_ended
from delivery_verifier.model.errors import VerifierError
from spark_jobs.session import java_classes, jvm

APP = "kafka-delivery-verifier"
JARS_VARIABLE = "KDV_SPARK_JARS"
"""Environment variable with the comma-separated paths of the jars that let Spark read Kafka."""
SMALL_RECORDS = 2_000_000
"""For fewer records, the JVM runs without its second, optimizing compiler. Most code then only plans queries and runs
once, so that this compiler would cost more time than it saves. The number lies between two measured sizes: in the
smaller run, the compiler saved no time; in the larger run, it did."""
END_S = 60.0
"""How long Spark and its JVM may take to end, in seconds, unless the JVM writes a class data archive."""
STOPPED_S = 5.0
"""How often a server looks whether Spark has stopped itself, in seconds."""
DYING_S = 15.0
"""How long a JVM may take to end after its connections have closed, in seconds. The more memory it has, the longer it
takes."""


class SparkGone(VerifierError, RuntimeError):
    """Spark's JVM ended while it was needed, e.g. for lack of memory. The query that was running has no result."""


def settings(records: int = 0) -> dict[str, str]:
    """Returns Spark properties for a run of about `records` records, for `spark-submit --conf` or `local_session`."""
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "3g",
        # With bindAddress but without host, executors look for blocks under a host name on which nothing listens.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # If true, every function of a column calls the JVM six times, to prepare texts of errors that do not occur.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        # A reconciliation compiles up to 200 classes. Spark itself keeps 100, and the next one would find none of them.
        "spark.sql.codegen.cache.maxEntries": "5000",
        # Spark's own list has kafka, too: its older source, which copies each row into objects and back.
        "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
        "spark.sql.shuffle.partitions": "2" if records < SMALL_RECORDS else str(max(4, os.cpu_count() or 1)),
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "kdv-spark-warehouse"),
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.driver.extraJavaOptions": shlex.join(java_options(records)),
    }
    jars = os.environ.get(JARS_VARIABLE, "")
    return conf | ({"spark.jars": jars} if jars else {})


def java_options(records: int) -> list[str]:
    """Returns options of the driver's JVM: the serial garbage collector, little logging, and the class data archive.

    `records`: the approximate number of records of the run. For fewer than SMALL_RECORDS, the options also switch off
    the JVM's optimizing compiler. For more records, they give the young generation of the heap a fixed size. By
    default, it would begin with 1/192 of the host's memory.
    """
    by_size = ["-XX:TieredStopAtLevel=1"] if records < SMALL_RECORDS else ["-Xmn384m"]
    logging = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}"
    # Without the second compiler, the JVM reserves 48 MB for compiled code. A session that is used often fills
    # them, and then compiles nothing any more.
    # When the loaded classes first fill MetaspaceSize, the JVM collects its whole heap. A run fills the default, 21 MB.
    memory = ["-XX:ReservedCodeCacheSize=240m", "-XX:MetaspaceSize=256m"]
    return ["-XX:+UseSerialGC", *memory, logging, *by_size, *class_archive().options()]


def executor_options(records: int) -> list[str]:
    """Returns options of the JVM of an executor on another host: the serial garbage collector, and no optimizing
    compiler.

    `records`: the approximate number of records of the run. With SMALL_RECORDS or more records, the list is empty, and
    the JVM uses its own defaults.
    """
    return ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"] if records < SMALL_RECORDS else []


def class_archive() -> ClassArchive:
    """Returns Spark's class data archive: a file with loaded classes, from which a JVM starts faster (see
    `ClassArchive`).

    The file is kept in the Python environment, because the file names the jars of this environment by absolute paths.
    """
    return ClassArchive.named(Path(sys.prefix) / "class-archives", f"spark-{importlib.metadata.version('pyspark')}")


def local_session(records: int = 0, master: str = "local[*]") -> SparkSession:
    """Returns a session in a JVM of this process or, under `spark-submit`, the session that `spark-submit` configured.

    `records`: the approximate number of records of the run. `master`: Spark's master URL. Under `spark-submit`,
    `records` and `master` are ignored, because the JVM is running already. Spark's workers run the same Python
    interpreter as this process.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _forget_ended_jvm()
    builder = SparkSession.builder.appName(APP)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # set by spark-submit, whose JVM is running already
        conf = {**settings(records), "spark.master": master, "spark.app.name": APP}
        if SparkContext._gateway is None:
            gateway = jvm.launch(SparkConf().setAll([*conf.items()]))
            SparkContext._ensure_initialized(gateway=gateway)
        builder = builder.config(map=dict(conf))
    spark = builder.getOrCreate()
    java_classes.remember(spark)
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    return spark


def serve(conf: Mapping[str, str]) -> int:
    """Starts a JVM of Spark with the properties `conf`, and waits until the JVM ends. Returns its exit code.

    If Spark stops itself, e.g. after a fatal error of its scheduler, ends the JVM. If this process ends first, the JVM
    ends, too, because its standard input is then at its end.
    """
    spark = SparkSession.builder.master("local[*]").config(map=dict(conf)).getOrCreate()
    gateway = SparkContext._gateway
    assert gateway is not None, "a session of this process has a JVM"
    while True:
        try:
            return int(gateway.proc.wait(STOPPED_S))
        except subprocess.TimeoutExpired:
            if spark.sparkContext._jsc.sc().isStopped():
                gateway.proc.stdin.close()


def living_session(spark: SparkSession) -> SparkSession:
    """Returns `spark` if its JVM is running, or a new session if its JVM has ended.

    Raises SparkGone if the JVM of the new session ends before the session exists.
    """
    _forget_ended_jvm()
    if SparkContext._active_spark_context is spark.sparkContext:
        return spark
    with naming_jvm_end():
        return local_session()


def where(spark: SparkSession) -> str:
    """Returns where Spark runs: its master URL. If a Spark Connect server is used, the words `Spark Connect, ` stand
    before the URL."""
    return ("Spark Connect, " if is_remote() else "") + str(spark.conf.get("spark.master"))


@contextmanager
def naming_jvm_end() -> Iterator[None]:
    """Turns an error in the block into SparkGone, if the JVM that this process started has ended.

    The text of SparkGone says how the JVM ended. The next `local_session` of this process then starts another JVM. If
    the JVM has not ended, the error is raised unchanged.
    """
    try:
        yield
    except Exception as error:
        hung_up = isinstance(error, (Py4JError, OSError, EOFError))
        if (code := _jvm_exit_code(DYING_S if hung_up else 0.01)) is None:
            raise
        _forget_jvm()
        message = f"Spark's Java process has ended with {how_it_ended(code)}"
        raise SparkGone(f"{message}: was the memory short? `kdv doctor` says what a run needs") from error


def _forget_ended_jvm() -> None:
    """Makes PySpark forget a JVM that has ended. Otherwise PySpark would keep using this JVM."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        _forget_jvm()


def _jvm_exit_code(within_s: float) -> int | None:
    """Returns the exit code of the JVM that this process started. Returns None if there is no JVM, or if the JVM does
    not end within `within_s` seconds."""
    process = getattr(SparkContext._gateway, "proc", None)
    try:
        return None if process is None else int(process.wait(within_s))
    except subprocess.TimeoutExpired:
        return None


def _forget_jvm() -> None:
    """Clears the variables that PySpark clears when it stops a context. A real stop would need a living JVM."""
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def end(spark: SparkSession) -> None:
    """Stops the session, and ends the JVM unless `spark-submit` started the JVM. Raises no error of Spark.

    Without this call, the JVM would outlive this process by seconds. What Spark was to do is done and written before
    its end. So an end that fails is a warning. A JVM that does not end within `patience_s(END_S)` seconds is killed. If
    the JVM has written a class data archive and ends without an error, the archive is kept.
    """
    _forget_ended_jvm()
    gateway = SparkContext._gateway
    if gateway is None:
        return
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    within_s = patience_s(END_S)
    failed = optional("the end of Spark", lambda: _end(spark, process, within_s), within_s)
    if process is None:
        return
    if process.poll() is None:
        process.kill()
        process.wait()
    _forget_jvm()  # the next session of this process gets a JVM of its own
    if not failed and process.returncode == 0:
        class_archive().keep()


def _end(spark: SparkSession, process: subprocess.Popen[bytes] | None, within_s: float) -> None:
    spark.stop()
    if process is not None and (gateway := SparkContext._gateway) is not None:
        gateway.shutdown()
        assert process.stdin is not None, "PySpark starts its JVM with a pipe"
        process.stdin.close()
        process.wait(within_s)
