"""Compares the time that Spark takes to read the topics into log/ with the time of a bare scan of the same topics.

`python bench/read.py [--records N] [--pairs K]` starts a cluster, sends N records, and measures K pairs in one session.
Each pair is one bare scan and one read. The bare scan fetches the same records with the same options, and only counts
them. The read also parses the records, and writes log/. The result is the ratio of each pair, in seconds and in CPU
seconds of Spark's JVM, and the median ratios. The session has the settings of the Spark Connect server that the local
Airflow keeps warm. The first pair warms the JVM, and does not count. The run directory stays in the folder of the runs.

The figures go to docs/results/read-DATE.md, .json and .svg. The exit code is 1 if the median ratio is a fifth worse
than the committed one (docs/results/ratios.json; `--commit` replaces it). A million records take about two minutes.
"""

from __future__ import annotations

import os
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ratios
from saved import option_parser, publish
from spark_jvm import Measurement, measured, server_session

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.run.steps.create_topics import create_topics
from delivery_verifier.run.steps.inject_fault import inject_fault
from delivery_verifier.run.steps.plan import plan_from_params
from delivery_verifier.run.steps.produce import produce
from delivery_verifier.run.steps.settle import settle
from delivery_verifier.run.steps.start_cluster import start_cluster
from delivery_verifier.run.steps.stop_cluster import stop_cluster
from delivery_verifier.store.run_directory import RunDirectory


def main() -> int:
    """Measures the pairs. Prints one line per pair and the median ratios. Returns the exit code."""
    parser = option_parser(__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=3)
    ratios.add_options(parser)
    arguments = parser.parse_args()
    params = {"profile": "idempotent", "fault": "none", "records": arguments.records, "pacing": "flat_out"}
    run_dir = plan_from_params(params, f"bench-read-{os.getpid()}")
    try:
        _load(run_dir)
        with lease.renewed(Cluster.of_run(RunDirectory(run_dir)).socket):
            pairs = _pairs(run_dir, arguments.records, arguments.pairs)
    finally:
        stop_cluster(run_dir)
    rows = [
        {"pair": number, "scan s": pair["scan"]["s"], "read s": pair["read"]["s"], "ratio": pair["ratio"]["s"]}
        | {
            "scan CPU s": pair["scan"]["cpu_s"],
            "read CPU s": pair["read"]["cpu_s"],
            "CPU ratio": pair["ratio"]["cpu_s"],
        }
        for number, pair in enumerate(pairs, 1)
    ]
    ratio = round(statistics.median(pair["ratio"]["s"] for pair in pairs), 2)
    bars = {f"pair {row['pair']}: {what}": float(row[what]) for row in rows for what in ("scan s", "read s")}
    note = f"Median of the ratios (read / bare scan, seconds): **{ratio}**."
    publish("read", f"Reading {arguments.records:,} records", rows, bars, [note])
    return ratios.guard({"read / bare scan": ratio}, arguments.commit)


def _load(run_dir: Path) -> None:
    """Runs the steps up to settle. The fault plan is empty, but settle needs the outcome of the step inject_fault."""
    start_cluster(run_dir)
    create_topics(run_dir)
    with ThreadPoolExecutor(1) as pool:
        injection = pool.submit(inject_fault, run_dir)
        produce(run_dir)
        injection.result()
    settle(run_dir)


def _pairs(run_dir: Path, records: int, count: int) -> list[dict[str, Measurement]]:
    """Measures one pair to warm the JVM, and then `count` pairs. Prints each pair. Returns the `count` pairs."""
    run, pairs = RunDirectory(run_dir), []
    connection = Cluster.of_run(run).connection.spark_options()
    with server_session(records) as spark:
        from spark_jobs.read_topic import read_topics
        from spark_jobs.reconcile import read
        from spark_jobs.write_log import read_offsets_of

        offsets = read_offsets_of(run)
        for number in range(count + 1):
            scan = measured(lambda: read_topics(spark, offsets, connection=connection).count())
            whole = measured(lambda: read(run_dir, spark, connection))
            ratio = {unit: round(whole[unit] / scan[unit], 2) for unit in scan}
            print({"pair": number, "scan": scan, "read": whole, "ratio": ratio}, flush=True)
            pairs.append({"scan": scan, "read": whole, "ratio": ratio})
    return pairs[1:]


if __name__ == "__main__":
    sys.exit(main())
