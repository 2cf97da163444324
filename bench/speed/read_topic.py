"""Compares the time that Spark takes to read the topics into log/ with the time of a bare scan of the same topics.

`python bench/speed/read_topic.py [--records N] [--pairs K]` starts a cluster, sends N records, and measures K pairs in
one session. Each pair is two bare scans and one read. A bare scan fetches the same records, and only counts them: once
with the options of the read, and once with Spark's own defaults, i.e. with the older one of Spark's two Kafka sources
and the consumer's default sizes. The read also parses the records, and writes log/. The result is the ratio of each
pair, in seconds, the median ratios, and the CPU seconds of Spark's JVM. The session has the settings of the Spark
Connect server that the local Airflow keeps warm. The first pair warms the JVM, and does not count. The run directory
stays in the folder of the runs.

The figures go to docs/results/read-topic-DATE.md, .json and .svg. The exit code is 1 if the median ratio is a fifth
worse than the committed one (docs/results/ratios.json; `--commit` replaces it). A million records take about two
minutes.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from bench.kit import ratios
from bench.kit.saved import option_parser, publish
from bench.kit.spark_jvm import Measurement, measured, server_session
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from delivery_verifier.model.snapshot import Offsets

SCANS = ("bare scan", "bare scan by default")
NAMES = (*SCANS, "read")
DEFAULT_SOURCES = "avro,csv,json,kafka,orc,parquet,text"
"""Spark's own value of `spark.sql.sources.useV1SourceList`: the formats that it reads with its older sources."""


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
        {"pair": number}
        | {f"{name} {unit}": pair[name][key] for unit, key in (("s", "s"), ("CPU s", "cpu_s")) for name in NAMES}
        | {f"read / {scan}": round(pair["read"]["s"] / pair[scan]["s"], 2) for scan in SCANS}
        for number, pair in enumerate(pairs, 1)
    ]
    by_scan = {f"read / {scan}": statistics.median(row[f"read / {scan}"] for row in rows) for scan in SCANS}
    bars = {f"pair {row['pair']}: {name} s": float(row[f"{name} s"]) for row in rows for name in NAMES}
    notes = [f"Median of the ratios ({name}, seconds): **{ratio}**." for name, ratio in by_scan.items()]
    name, sized = ratios.by_size("read-topic", by_scan, arguments.records, 1_000_000)
    publish(name, f"Reading {arguments.records:,} records", rows, bars, notes)
    return ratios.guard(sized, arguments.commit)


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
    connection = {"kafka.bootstrap.servers": Cluster.of_run(run).connection.bootstrap_servers}
    with server_session(records) as spark:
        from spark_jobs.reading.read_topic import read_topics
        from spark_jobs.reading.write_log import read_offsets_of
        from spark_jobs.reconcile import read

        offsets = read_offsets_of(run)
        for number in range(count + 1):
            own = measured(lambda: read_topics(spark, offsets, connection=connection).count())
            whole = measured(lambda: read(run_dir, spark, connection))
            default = measured(lambda: _count_by_default(spark, offsets, connection))
            pairs.append(dict(zip(NAMES, (own, default, whole), strict=True)))
            print({"pair": number, **pairs[-1]}, flush=True)
    return pairs[1:]


def _count_by_default(spark: SparkSession, offsets: Offsets, connection: Mapping[str, str]) -> int:
    """Counts the records of all topics of `offsets` with Spark's own defaults."""
    setting = "spark.sql.sources.useV1SourceList"
    ours = spark.conf.get(setting)
    spark.conf.set(setting, DEFAULT_SOURCES)
    try:
        topics = ",".join(sorted({part.topic for part in offsets.partitions}))
        return spark.read.format("kafka").options(**connection).option("subscribe", topics).load().count()
    finally:
        spark.conf.set(setting, ours)


if __name__ == "__main__":
    sys.exit(main())
