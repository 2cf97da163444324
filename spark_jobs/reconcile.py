"""Reconciliation: what the ledger claims is compared with what the topics hold, record by record.

The first half reads the snapshot from Kafka into log/, sealed by read_topic.json. The second half turns ledger/ and
log/ into anomalies/, books/ and timeline/, sealed by reconcile.json. The second half is a pure function of the run
directory: it can be repeated years later, when the cluster is long gone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from delivery_verifier.model.history import Offsets, read_injections, read_offsets
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.store import ledger as ledger_file
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory, StepOutput
from spark_jobs import anomalies, books, census, committed, laws, screen, timeline
from spark_jobs.exposure import every_injection, exposure
from spark_jobs.matching import MatchingInputs, match
from spark_jobs.parse import parse
from spark_jobs.read_topic import SNAPSHOT, check_committed, count_tail, read_committed, read_topics, view
from spark_jobs.schemas import EXPOSURE, LEDGER, LOG, arrow, check_log
from spark_jobs.session import end, local_session

DESCRIPTION = """Reconciles the ledger of a run with what its topics hold. Needs a run directory in which
produce, inject_fault and settle have finished. Writes log/ (with read_topic.json), then anomalies/, books/
and timeline/ (with reconcile.json)."""
EPILOG = """The exit code says whether the job finished, not what it found: `conclude` gives the verdict.
Example: spark-submit spark_jobs/reconcile.py --run-dir runs/my-run --from-log"""
READ: Final = "read_topic"
RECONCILE: Final = "reconcile"
MAX_FILES = 64
SMALL_ROWS = 500_000
"""Up to so many rows of ledger and log every query is one task: a shuffle would cost more than it saves."""


def reconcile(
    run_dir: Path,
    from_log: bool,
    spark: SparkSession,
    exhaustive: bool = False,
    bits: int = screen.BITS,
    connection: Mapping[str, str] | None = None,
) -> None:
    """Reconciles one run. The result is in the run directory, whatever it is; an error means that there is no result.

    `exhaustive` matches every record, without the screen; the stretches of the screen have 2**bits sequences.
    Raises IncompleteRun where an earlier step is missing or altered, ValueError for a ledger or log with other columns,
    and whatever Spark raises, for example if records disappeared between the snapshot and the read.
    """
    run = RunDirectory(run_dir)
    scenario = run.read_scenario()
    scenario.fail_if_asked(RECONCILE)
    run.require("produce", "inject_fault", "settle")
    for file in _files(run, "ledger"):
        ledger_file.check_schema(file)
    if not from_log:
        write_log(run, scenario, spark, connection)
    run.require(READ)
    for file in _files(run, "log"):
        check_log(file)
    with run.writing(RECONCILE) as output:
        write_books(run, scenario, output, spark, exhaustive=exhaustive, bits=bits)


def read(run_dir: Path, spark: SparkSession, connection: Mapping[str, str] | None = None) -> None:
    """Only the first half: log/ and read_topic.json. The cluster is not needed afterwards. Raises as `reconcile`."""
    run = RunDirectory(run_dir)
    run.require("produce", "inject_fault", "settle")
    write_log(run, run.read_scenario(), spark, connection)


def _files(run: RunDirectory, folder: str) -> list[Path]:
    files = sorted((run.path / folder).glob("*.parquet"))
    if not files:
        raise IncompleteRun(f"{run.path / folder} holds no Parquet file")
    return files


def write_log(
    run: RunDirectory, scenario: Scenario, spark: SparkSession, connection: Mapping[str, str] | None = None
) -> None:
    """First half: reads the topics into log/, snapshot and tail, and those of transactional arms in both views."""
    offsets = _offsets(run)
    with run.writing(READ) as output:
        raw_counts = Observation("read")
        views = view(offsets)
        counters = [F.count_if((F.col("arm") == arm) & (views == SNAPSHOT)).alias(arm) for arm in scenario.arm_names]
        raw = read_topics(spark, offsets, connection=connection).observe(raw_counts, *counters)
        committed_counts = Observation("read_committed")
        lines = parse(raw, scenario, views)
        if scenario.transactional:
            lines = lines.unionByName(_committed(spark, scenario, offsets, committed_counts, connection))
        with _timed(output, "read"):
            files = min(MAX_FILES, len(offsets.partitions))  # without a shuffle; else one task per Kafka partition
            lines.coalesce(files).write.parquet(str(output.staging / "log"))
        tail = count_tail(output.staging / "log", offsets)
        output.counts |= {f"read/{arm}": int(count) for arm, count in raw_counts.get.items()}
        if scenario.transactional:
            check_committed(output.staging / "log", offsets, scenario.transactional, committed.TAIL)
            output.counts |= {f"read_committed/{arm}": int(count) for arm, count in committed_counts.get.items()}
        output.counts |= {
            f"tail/{part.arm}/{part.partition}": tail.get((part.arm, part.partition), 0) for part in offsets.partitions
        }


def _committed(
    spark: SparkSession,
    scenario: Scenario,
    offsets: Offsets,
    counts: Observation,
    connection: Mapping[str, str] | None,
) -> DataFrame:
    """LOG of view committed and of what stands behind it, for the arms that write transactions.

    `counts` observes how many rows of view committed came from Kafka.
    """
    arms = scenario.transactional
    views = view(offsets, committed.VIEW, committed.TAIL)
    counters = [F.count_if((F.col("arm") == arm) & (views == committed.VIEW)).alias(arm) for arm in arms]
    raw = read_committed(spark, offsets, arms, connection).observe(counts, *counters)
    return parse(raw, scenario, views)


def write_books(
    run: RunDirectory,
    scenario: Scenario,
    output: StepOutput,
    spark: SparkSession,
    bound: int = anomalies.BOUND,
    exhaustive: bool = False,
    bits: int = screen.BITS,
) -> None:
    """Second half: ledger/ and log/ to anomalies/, books/ and timeline/.

    Spark's driver plans a query with one thread: queries that do not depend on each other run side by side.
    """
    ledger = spark.read.schema(LEDGER).parquet(str(run.path / "ledger"))
    whole = spark.read.schema(LOG).parquet(str(run.path / "log"))
    together = _rows(run, "ledger") + _rows(run, "log") <= SMALL_ROWS
    if together:
        ledger, whole = ledger.coalesce(1), whole.coalesce(1)
    log, visible = whole.where(F.col("view") == "raw"), whole.where(F.col("view") == committed.VIEW)
    arms = scenario.transactional
    with ThreadPoolExecutor(2, "spark-query") as pool:
        with _timed(output, "census"):
            log_job = pool.submit(lambda: census.count_log(log).toArrow())
            views_job = pool.submit(committed.count, ledger, log, visible, arms) if arms else None
            sides_job = None if exhaustive else pool.submit(_sides, ledger, log, run, scenario, bits)
            ledger_census, log_census = census.count_ledger(ledger).toArrow(), log_job.result()
            views = views_job.result() if views_job else committed.NONE
        load_job = pool.submit(_write_load, ledger, ledger_census, run, scenario, output)
        with _timed(output, "screen"):
            damaged = {(row["arm"], row["partition"]) for row in log_census.to_pylist() if row["corrupted"]}
            proven = None if sides_job is None else screen.judge(sides_job.result(), damaged)
            output.counts |= proven.counts if proven else {}
        with _timed(output, "match"):
            inputs = MatchingInputs(ledger, log, visible, ledger_census, log_census, scenario, output, bound, together)
            producers, written = match(inputs, proven)
        with _timed(output, "timeline_left"):
            load_job.result()
    evidence = laws.LawInputs(
        scenario=scenario,
        offsets=_offsets(run),
        producers=producers,
        ledger_census=ledger_census,
        log_census=log_census,
        announced=run.manifest("produce").counts | run.manifest("settle").counts,
        read=run.manifest(READ).counts,
        written=written,
        bound=bound,
        views=views,
    )
    output.write_table("books/producers", producers)
    output.write_table("books/partitions", books.partitions(evidence.offsets, log_census, evidence.read))
    output.write_table("books/cases", books.cases(producers, written, bound))
    output.write_table("books/laws", laws.laws(evidence))


def _sides(ledger: DataFrame, log: DataFrame, run: RunDirectory, scenario: Scenario, bits: int) -> screen.Sides:
    return screen.sides(ledger, log, screen.width(_rows(run, "ledger"), scenario.load.partitions, bits))


def _rows(run: RunDirectory, folder: str) -> int:
    return sum(pq.read_metadata(file).num_rows for file in (run.path / folder).glob("*.parquet"))


def _write_load(
    ledger: DataFrame, ledger_census: pa.Table, run: RunDirectory, scenario: Scenario, output: StepOutput
) -> None:
    loaded = ledger.where(F.col("arm").isin([arm.name for arm in scenario.loaded]))
    injections = read_injections((run.path / "injections.json").read_bytes())
    exposed = exposure(loaded, injections, scenario).toArrow() if injections else arrow(EXPOSURE).empty_table()
    output.write_table("books/exposure", every_injection(exposed, injections, scenario))
    silences = timeline.gaps(loaded, run.manifest("produce").counts.get(ledger_file.LOAD_BEGAN, 0))
    output.write_table("books/gaps", timeline.every_partition(silences.toArrow(), scenario))
    width_us = timeline.interval_us(*_span(ledger_census))
    load, latency = timeline.both(timeline.load(loaded, width_us), timeline.latency(loaded, injections))
    output.write_table("timeline/load", timeline.filled(load, width_us))
    output.write_table("timeline/latency", latency.sort_by([(name, "ascending") for name in latency.column_names[:3]]))


def _span(ledger_census: pa.Table) -> tuple[int, int]:
    """First and last moment of the load, in µs since the epoch; (0, 0) if there was no load."""
    if not ledger_census.num_rows:
        return 0, 0
    return min(ledger_census["from_us"].to_pylist()), max(ledger_census["until_us"].to_pylist())


def _offsets(run: RunDirectory) -> Offsets:
    return read_offsets((run.path / "offsets.json").read_bytes())


@contextmanager
def _timed(output: StepOutput, phase: str) -> Iterator[None]:
    """Notes in the manifest how long a phase took, in ms."""
    begun = time.monotonic()
    yield
    output.counts[f"{phase}_ms"] = round((time.monotonic() - begun) * 1000)


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `spark-submit`. Returns 0 when the job has finished, whatever it found; or else raises."""
    parser = argparse.ArgumentParser(prog="reconcile.py", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--run-dir", type=Path, required=True, help="the run directory, e.g. runs/<run id>")
    parser.add_argument(
        "--from-log",
        action="store_true",
        help="do not read Kafka: start from log/, as an earlier read left it",
    )
    parser.add_argument(
        "--exhaustive",
        action="store_true",
        help="match every record by itself: the same result, without the screen for stretches that agree",
    )
    options = parser.parse_args(argv)
    spark = local_session()
    try:
        reconcile(options.run_dir, options.from_log, spark, exhaustive=options.exhaustive)
    finally:
        end(spark)
    return 0


if __name__ == "__main__":
    sys.exit(main())
