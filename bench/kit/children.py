"""Processes that a benchmark starts, with what they cost: seconds, CPU seconds and peak memory."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from delivery_verifier.host.java.jars import fetch
from delivery_verifier.host.java.runtime import java_home


class Cost(NamedTuple):
    """What a process or a piece of work cost. `peak_mb` is the peak resident memory, in MB of 2**20 bytes."""

    seconds: float
    cpu_s: float
    peak_mb: int


def start(command: Sequence[str], out: Path) -> subprocess.Popen[bytes]:
    """Starts `command`. Its output and its errors go to the file `out`."""
    with out.open("wb") as stream:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT)


def end(process: subprocess.Popen[bytes], began_s: float) -> Cost:
    """Waits until `process` ends. Returns its cost since `began_s` (`time.monotonic()`). Raises CalledProcessError if
    its exit code is not 0."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return Cost(time.monotonic() - began_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024)


def run(command: Sequence[str], out: Path) -> Cost:
    """Runs `command` to its end, with its output in the file `out`. Returns its cost."""
    began_s = time.monotonic()
    return end(start(command, out), began_s)


def kafka_tool(name: str, *options: str) -> list[str]:
    """Returns the command that runs one of Kafka's own tools, e.g. ProducerPerformance."""
    classpath = ":".join(str(jar) for jar in fetch("kafka-tools-4.3.1"))
    return [f"{java_home()}/bin/java", "-Xmx1g", "-cp", classpath, f"org.apache.kafka.tools.{name}", *options]
