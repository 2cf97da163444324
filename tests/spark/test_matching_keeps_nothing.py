"""Tests that a reconciliation leaves nothing in Spark's memory for the next one, which may share its session."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from support.run_directories import canary_lines, scenario, table, write

from delivery_verifier import canary
from spark_jobs.reconcile import reconcile


def test_frames_of_corrupted_records_of_transactions_and_of_cases_are_given_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = scenario(["one"], partitions=2, transactional=["one"])
    layout = canary.lay_out(made)
    lines, offsets = canary_lines(made, layout)
    run = write(tmp_path, made, canary.ledger_table(made, layout, offsets).to_pylist(), lines)
    kept = spark.sparkContext._jsc.getPersistentRDDs().size()
    reconcile(run.path, True, spark)
    assert {"CORRUPTED", "TORN", "LOST"} <= {row["kind"] for row in table(run, "anomalies")}
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == kept
