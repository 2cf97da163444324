"""What a piece of work costs that Spark's JVM does for this process."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

Measurement = dict[str, float]


def measured(work: Callable[[], object]) -> Measurement:
    """Does `work`. Returns its seconds `s`, and the CPU seconds `cpu_s` of this process and of Spark's JVM."""
    cpu_began_s, began_s = _cpu_s(), time.monotonic()
    work()
    return {"s": round(time.monotonic() - began_s, 2), "cpu_s": round(_cpu_s() - cpu_began_s, 2)}


def _cpu_s() -> float:
    """Returns the CPU seconds of this process and of Spark's JVM so far."""
    from pyspark import SparkContext

    processes = (psutil.Process(), psutil.Process(SparkContext._gateway.proc.pid))
    return sum(sum(process.cpu_times()[:2]) for process in processes)
