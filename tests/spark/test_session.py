"""Tests of the Spark session: its settings, and what happens after its JVM was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import CALL_COMMAND_NAME, REFLECTION_COMMAND_NAME
from pyspark.sql import SparkSession, functions
from support.patience import PATIENCE_S
from support.run_directories import attempt, line, scenario, write

from spark_jobs.reconcile import reconcile

V1_SOURCES = "spark.sql.sources.useV1SourceList"
PROGRAM = """
from pyspark import SparkContext
from pyspark.sql import functions
from spark_jobs.session.classic import SparkGone, end, living_session, local_session, naming_jvm_end

first = local_session()
functions.coalesce(functions.col("a"), functions.abs("b"))
assert living_session(first) is first
SparkContext._gateway.proc.kill()
try:
    with naming_jvm_end():
        first.range(3).count()
except SparkGone as error:
    print(error)
second = living_session(first)
assert second is not first
functions.coalesce(functions.col("a"), functions.abs("b"))
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
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [
        "Spark's Java process has ended with exit code -9 (killed by SIGKILL): was the memory short? `kdv doctor` "
        "says what a run needs",
        '"not Spark\'s fault"',
    ]
    assert [line for line in done.stderr.splitlines() if "incubator" in line or "log level" in line] == []


def test_kafka_alone_is_read_by_the_newer_source(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    default = jvm.org.apache.spark.sql.internal.SQLConf.USE_V1_SOURCE_LIST().defaultValueString()
    assert set(default.split(",")) - set(spark.conf.get(V1_SOURCES).split(",")) == {"kafka"}
    assert set(spark.conf.get(V1_SOURCES).split(",")) < set(default.split(","))


def test_a_function_of_a_column_is_one_command_to_the_jvm(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what the session remembers, the JVM is asked for the class and for the method each time."""
    a, b = functions.col("a"), functions.col("b")
    functions.coalesce(functions.abs("a"), b)
    client, sent = spark._jvm._gateway_client, list[str]()  # type: ignore[union-attr]
    send = client.send_command

    def sending(command: str, *more: Any, **named: Any) -> Any:
        sent.append(command.split("\n")[0])
        return send(command, *more, **named)

    monkeypatch.setattr(client, "send_command", sending)
    functions.abs("a")
    names = {REFLECTION_COMMAND_NAME.strip(), CALL_COMMAND_NAME.strip()}
    assert [name for name in sent if name in names] == [CALL_COMMAND_NAME.strip()] * 2
    functions.coalesce(a, b)
    assert REFLECTION_COMMAND_NAME.strip() not in sent, "a list of columns goes through a class of its own"


def test_a_session_compiles_a_reconciliation_once(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    compilations = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    ledger = [attempt("one", n, offset=n) for n in range(20)]
    run = write(tmp_path, scenario(["one"]), ledger, [line("one", 1, n, n) for n in range(20)])
    counts = [compilations.getCount()]
    for _ in range(2):
        reconcile(run.path, True, spark)
        counts.append(compilations.getCount())
    assert counts[2] == counts[1]
