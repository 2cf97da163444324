"""Compares the second half of a reconciliation with a bare scan of its files, and with a join by DuckDB.

`python bench/speed/reconciliation.py [--records N] [--pairs K]` makes a run directory with N records in ledger/ and as
many in log/, without a cluster. A few records are lost, and a few are duplicated. Then it measures K rounds in one
Spark session:

* scan: Spark reads all columns of both tables, and counts their values.
* DuckDB: one full outer join counts reported, found, lost and extra records (spark_jobs/checks/second_opinion.py).
* counts: all of the second half. It finds the cases of every anomaly with their evidence, balances the counts, and
  writes the timeline. It also asks DuckDB.

The session has the settings of the Spark Connect server that the local Airflow keeps warm. The first round warms the
JVM: it is in the table, but not in the medians. The ratios are seconds of counts divided by seconds of the other. The
last column is the most memory that the JVM has used so far.

The figures go to docs/results/reconciliation-DATE.md, .json and .svg. The exit code is 1 if a median ratio is a fifth
worse than the committed one (docs/results/ratios.json; `--commit` replaces it), or if the counts do not say how many
records are lost and duplicated. A million records take about two minutes.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from bench.kit import ratios
from bench.kit.saved import option_parser, publish
from bench.kit.spark_jvm import measured, peak_mb, server_session
from bench.speed.second_opinion import ARM, ODD, written
from delivery_verifier.run_directory.run_directory import RunDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main() -> int:
    """Measures the rounds, publishes the figures, and returns the exit code."""
    parser = option_parser(__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=3)
    ratios.add_options(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = written(RunDirectory(Path(folder) / "run"), arguments.records)
        rows = _rounds(run, arguments.records, arguments.pairs)
        wrong = _is_wrong(run)
    warm = rows[1:]
    names = {"counts / bare Parquet scan": "scan s", "counts / DuckDB": "DuckDB s"}
    by_peer = {
        name: round(statistics.median(row["counts s"] / row[other] for row in warm), 1) for name, other in names.items()
    }
    notes = [
        f"Median of the ratios of the warm rounds ({name}, seconds): **{ratio}**." for name, ratio in by_peer.items()
    ]
    notes.append("Round 0 is the first of its JVM, and is in no ratio.")
    bars = {what: statistics.median(row[what] for row in warm) for what in ("scan s", "DuckDB s", "counts s")}
    name, sized = ratios.by_size("reconciliation", by_peer, arguments.records, 1_000_000)
    publish(name, f"The counts of {arguments.records:,} records", rows, bars, notes)
    if wrong:
        print("the counts do not say how many records are lost and duplicated")
        return 1
    return ratios.guard(sized, arguments.commit)


def _rounds(run: RunDirectory, records: int, count: int) -> list[dict[str, Any]]:
    """Measures a round to warm the JVM, and then `count` rounds. Returns one row for each of them."""
    from spark_jobs.checks import second_opinion
    from spark_jobs.reconcile import reconcile

    rows, scenario = [], run.read_scenario()
    with server_session(records) as spark:
        for number in range(count + 1):
            row: dict[str, Any] = {"round": number, "load before": round(os.getloadavg()[0], 1)}
            with tempfile.TemporaryDirectory() as spill:
                works = {
                    "scan": lambda: _scan(spark, run),
                    "DuckDB": lambda spill=spill: second_opinion.count(run.path, scenario, Path(spill)),
                    "counts": lambda: reconcile(run.path, True, spark),
                }
                for name, work in works.items():
                    cost = measured(work)
                    row |= {f"{name} s": cost["s"], f"{name} CPU s": cost["cpu_s"]}
            row["JVM MB"] = peak_mb()
            print(row, flush=True)
            rows.append(row)
    return rows


def _scan(spark: SparkSession, run: RunDirectory) -> None:
    """Reads all columns of ledger/ and log/, and counts the values in each."""
    from pyspark.sql import functions as F

    for folder in ("ledger", "log"):
        frame = spark.read.parquet(str(run.path / folder))
        frame.agg(*(F.count(column) for column in frame.columns)).collect()


def _is_wrong(run: RunDirectory) -> bool:
    """Returns whether the counts miss one of the records that are lost or duplicated, or whether an invariant is
    broken."""
    lines = [line for line in pq.read_table(run.path / "counts/producers.parquet").to_pylist() if line["arm"] == ARM]
    counts = [sum(line[column] for line in lines) for column in ("lost", "duplicated")]
    invariants = pq.read_table(run.path / "counts/invariants.parquet").to_pylist()
    return counts != [ODD, ODD] or any(invariant["left"] != invariant["right"] for invariant in invariants)


if __name__ == "__main__":
    sys.exit(main())
