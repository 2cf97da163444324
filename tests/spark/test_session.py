"""Tests of the Spark session after its JVM was killed."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from pyspark import SparkContext
from spark_jobs.session import SparkGone, end, living_session, local_session, naming_jvm_end

first = local_session()
assert living_session(first) is first
SparkContext._gateway.proc.kill()
try:
    with naming_jvm_end():
        first.range(3).count()
except SparkGone as error:
    print(error)
second = living_session(first)
assert second is not first
try:
    with naming_jvm_end():
        assert second.range(3).count() == 3
        raise KeyError("not Spark's fault")
except KeyError as error:
    print(error)
end(second)
assert SparkContext._gateway is None
"""


def test_a_killed_jvm_is_named_as_what_ended_and_the_next_session_has_another() -> None:
    """The test runs in a process of its own, so that the session of the other tests stays alive."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [
        "Spark's Java process has ended with exit code -9 (killed by SIGKILL): was the memory short? `kdv doctor` "
        "says what a run needs",
        '"not Spark\'s fault"',
    ]
