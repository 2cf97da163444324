"""What a piece of work costs that Spark's JVM does for this process.

The session has the settings of the Spark Connect server that the local Airflow keeps warm (docs/adr/0016): the JVM has
its optimizing compiler, whatever the number of records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Measurement = dict[str, float]


@contextmanager
def server_session(records: int) -> Iterator[SparkSession]:
    """Yields a session for runs of about `records` records, and ends its JVM when the block ends."""
    from delivery_verifier.pipeline.local_spark import prepare_spark
    from spark_jobs.session.classic import SMALL_RECORDS, end, local_session

    prepare_spark()
    spark = local_session(max(records, SMALL_RECORDS))
    try:
        yield spark
    finally:
        end(spark)


def peak_mb() -> int:
    """Returns the most memory that Spark's JVM has used so far, in MB (10**6 bytes)."""
    status = Path(f"/proc/{_jvm()}/status").read_text()
    kib = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(kib) * 1024 // 10**6


def measured(work: Callable[[], object]) -> Measurement:
    """Does `work`. Returns its seconds `s`, and the CPU seconds `cpu_s` of this process and of Spark's JVM."""
    cpu_began_s, began_s = _cpu_s(), time.monotonic()
    work()
    return {"s": round(time.monotonic() - began_s, 2), "cpu_s": round(_cpu_s() - cpu_began_s, 2)}


def _cpu_s() -> float:
    """Returns the CPU seconds of this process and of Spark's JVM so far."""
    return sum(sum(process.cpu_times()[:2]) for process in (psutil.Process(), psutil.Process(_jvm())))


def _jvm() -> int:
    from pyspark import SparkContext

    return int(SparkContext._gateway.proc.pid)
