"""Reconciliation: compares what the ledger claims with what the topics hold, record by record.

The first half reads the snapshot from Kafka into log/, and seals log/ with read_topic.json. The second half turns
ledger/ and log/ into anomalies/, books/ and timeline/, and seals them with reconcile.json. To seal files means to name
each file with its SHA-256 in the step's manifest, here read_topic.json or reconcile.json. The second half is a pure
function of the run directory: it can be repeated years later, when the cluster is long gone."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delivery_verifier.model.history import read_injections
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.store import ledger as ledger_file
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory, StepOutput
from spark_jobs.checks import law, laws, second_opinion, shared_offsets
from spark_jobs.effects import effect_books
from spark_jobs.matching import anomalies, books, buckets, census, committed, screen
from spark_jobs.matching.match import MatchingInputs, match
from spark_jobs.reading.read_topic import COMMITTED
from spark_jobs.reading.write_log import READ, read_offsets_of, write_log
from spark_jobs.schemas import LEDGER, LOG, check_log
from spark_jobs.session import progress
from spark_jobs.session.classic import end, local_session, where
from spark_jobs.summaries import silences, timeline
from spark_jobs.summaries.exposure import exposure
from spark_jobs.summaries.summary import summarize

DESCRIPTION = """Reconciles the ledger of a run with what its topics hold. Needs a run directory in which
produce, inject_fault and settle have finished. Writes log/ (with read_topic.json), then anomalies/, books/
and timeline/ (with reconcile.json)."""
EPILOG = """The exit code says whether the job finished, not what it found: `conclude` gives the verdict.
Example: spark-submit spark_jobs/reconcile.py --run-dir runs/my-run --from-log"""
RECONCILE: Final = "reconcile"
SMALL_ROWS = 500_000
"""Up to this number of rows in ledger and log together, every query is one task, because a shuffle would cost more time
than several tasks would save."""


def reconcile(
    run_dir: Path,
    from_log: bool,
    spark: SparkSession,
    exhaustive: bool = False,
    bits: int = buckets.BITS,
    connection: Mapping[str, str] | None = None,
) -> None:
    """Reconciles the run in `run_dir`, and writes the result to `run_dir`. Anomalies in the result are no error.

    `from_log`: whether log/ exists already; if so, Kafka is not read. `exhaustive`: whether every record is matched,
    without the screen (see `spark_jobs.matching.screen`). `bits`: each stretch of the screen has at least 2**bits
    sequences. `connection`: options by which Spark reaches the brokers. Raises IncompleteRun if an earlier step is
    missing or altered, BadInput if ledger or log have wrong columns, and StepFailed if Kafka was not read completely.
    Raises every error of Spark, e.g. if records disappeared between the snapshot and the read. After an error, there is
    no result.
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
        output.notes["spark"] = where(spark)
        write_books(run, scenario, output, spark, exhaustive=exhaustive, bits=bits)


def read(run_dir: Path, spark: SparkSession, connection: Mapping[str, str] | None = None) -> None:
    """Runs only the first half of a reconciliation: writes log/ and read_topic.json. Afterwards, no cluster is needed.

    Raises IncompleteRun, StepFailed and errors of Spark as `reconcile` does.
    """
    run = RunDirectory(run_dir)
    run.require("produce", "inject_fault", "settle")
    write_log(run, run.read_scenario(), spark, connection)


def _files(run: RunDirectory, folder: str) -> list[Path]:
    """Returns the Parquet files of a folder of the run directory. Raises IncompleteRun if there are none."""
    files = sorted((run.path / folder).glob("*.parquet"))
    if not files:
        raise IncompleteRun(f"{run.path / folder} holds no Parquet file")
    return files


def write_books(
    run: RunDirectory,
    scenario: Scenario,
    output: StepOutput,
    spark: SparkSession,
    bound: int = anomalies.BOUND,
    exhaustive: bool = False,
    bits: int = buckets.BITS,
) -> None:
    """Runs the second half of a reconciliation: writes anomalies/, books/ and timeline/ from ledger/ and log/ of `run`.

    `bound`: the maximum number of cases that are written per arm and kind. `exhaustive`, `bits`: see `reconcile`."""
    ledger, both_views, together = _frames(spark, run)
    log, visible = both_views.where(F.col("view") == "raw"), both_views.where(F.col("view") == COMMITTED)
    arms, offsets = scenario.transactional, read_offsets_of(run)
    with ThreadPoolExecutor(3, "query") as pool:  # because the driver plans each query with only one thread
        with output.timed("census"):
            views_job = pool.submit(committed.count, ledger, log, visible, arms) if arms else None
            counted = None if exhaustive else buckets.count(ledger, log, _width(run, scenario, bits))
            counts = census.of_buckets(counted.table) if counted else census.of_frames(ledger, log)
            views = views_job.result() if views_job else committed.NONE
        load_job = pool.submit(_write_load, ledger, counts.ledger, run, scenario, output)
        opinion_job = pool.submit(second_opinion.opinion, scenario, offsets, output)
        shared_job = pool.submit(shared_offsets.write, scenario, offsets, output)
        with output.timed("screen"):
            proven = screen.prove(counted, _damaged(counts.log)) if counted else None
            output.counts |= proven.counts if proven else {}
        with output.timed("match"):
            inputs = MatchingInputs(ledger, log, visible, counts, scenario, offsets, output, bound, together)
            producers, written = match(inputs, proven)
        with output.timed("timeline_left"):
            summarized = load_job.result()
            shared_job.result()
    producers, effects = effect_books.add(inputs, both_views, spark, run, producers, written, proven)
    evidence = law.LawInputs(
        scenario=scenario,
        offsets=offsets,
        producers=producers,
        ledger_census=counts.ledger,
        log_census=counts.log,
        announced=run.manifest("produce").counts | run.manifest("settle").counts,
        read=run.manifest(READ).counts,
        written=written,
        bound=bound,
        summarized=summarized,
        views=views,
        missing=output.counts,
        effects=effects,
        opinion=opinion_job.result(),
    )
    _write_tables(output, evidence)


def _frames(spark: SparkSession, run: RunDirectory) -> tuple[DataFrame, DataFrame, bool]:
    """Returns LEDGER, LOG, and whether both are small and in one partition. Sets a property of `spark`."""
    together = _rows(run, "ledger") + _rows(run, "log") <= SMALL_ROWS
    # Adaptive execution plans a query anew after each stage. Where no row is shuffled, this gains nothing.
    spark.conf.set("spark.sql.adaptive.enabled", str(not together).lower())
    sides = (("ledger", LEDGER), ("log", LOG))
    frames = [spark.read.schema(schema).parquet(str(run.path / name)) for name, schema in sides]
    ledger, log = (frame.coalesce(1) if together else frame for frame in frames)
    return ledger, log, together


def _write_tables(output: StepOutput, evidence: law.LawInputs) -> None:
    """Writes the tables of the books that follow from counts: producers, partitions, cases and laws."""
    output.write_table("books/producers", evidence.producers)
    output.write_table("books/partitions", books.partitions(evidence.offsets, evidence.log_census, evidence.read))
    output.write_table("books/cases", books.cases(evidence.producers, evidence.written, evidence.bound))
    output.write_table("books/laws", laws.laws(evidence))


def _rows(run: RunDirectory, folder: str) -> int:
    """Returns the number of rows in the Parquet files of a folder of the run directory."""
    return sum(pq.read_metadata(file).num_rows for file in (run.path / folder).glob("*.parquet"))


def _width(run: RunDirectory, scenario: Scenario, bits: int) -> int:
    return buckets.width(_rows(run, "ledger"), scenario.load.partitions, bits)


def _write_load(
    ledger: DataFrame, ledger_census: pa.Table, run: RunDirectory, scenario: Scenario, output: StepOutput
) -> dict[str, tuple[int, int]]:
    """Writes books/exposure, books/gaps and timeline/. These tables are only about the arms that carry load.

    Returns a mapping from each arm to two counts of its attempts, which a law compares (see `LawInputs.summarized`).
    """
    loaded = ledger.where(F.col("arm").isin([arm.name for arm in scenario.loaded]))
    injections = read_injections((run.path / "injections.json").read_bytes())
    span = _span(ledger_census, scenario)
    width_us = timeline.interval_us(*span)
    slot_us = silences.slot_us(*span, len(scenario.loaded) * scenario.load.partitions)
    summary = summarize(loaded, injections, width_us, slot_us)
    began_us = run.manifest("produce").counts.get(ledger_file.LOAD_BEGAN, 0)
    output.write_table("books/exposure", exposure(summary.slots, injections, scenario))
    output.write_table("books/gaps", silences.gaps(summary.slots, began_us, scenario))
    output.write_table("timeline/load", timeline.load(summary.intervals, width_us))
    output.write_table("timeline/latency", timeline.latency(summary.intervals))
    return {arm.name: (_attempts(summary.intervals, arm), _attempts(summary.slots, arm)) for arm in scenario.loaded}


def _damaged(log_census: pa.Table) -> set[tuple[str, int]]:
    """Returns the partitions, as (arm, partition), that have corrupted records. `log_census`: `Census.log`."""
    return {(row["arm"], row["partition"]) for row in log_census.to_pylist() if row["corrupted"]}


def _attempts(table: pa.Table, arm: Arm) -> int:
    return pc.sum(table.filter(pc.equal(table["arm"], arm.name))["attempts"]).as_py() or 0


def _span(ledger_census: pa.Table, scenario: Scenario) -> tuple[int, int]:
    """Returns the first and the last time of the load, in µs since the epoch; (0, 0) if there was no load."""
    loaded = {arm.name for arm in scenario.loaded}
    rows = [row for row in ledger_census.to_pylist() if row["arm"] in loaded]
    return min((row["from_us"] for row in rows), default=0), max((row["until_us"] for row in rows), default=0)


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point of `spark-submit`. Returns 0 if the job has finished, even if it found anomalies. Every failure
    is raised as an exception.

    `argv`: the arguments of the command line. If it is None, the arguments of this process are used.
    """
    parser = argparse.ArgumentParser(prog="reconcile.py", description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False)
    parser.add_argument("--run-dir", type=Path, required=True, help="the run directory, e.g. runs/<run id>")
    parser.add_argument("--from-log", action="store_true", help="do not read Kafka: start from log/, as a read left it")
    exhaustive = "match every record by itself: the same result, without the screen for stretches that agree"
    parser.add_argument("--exhaustive", action="store_true", help=exhaustive)
    reach = "JSON: the options by which Spark reaches the brokers, if they ask for more than their addresses"
    parser.add_argument("--connection", type=Path, metavar="FILE", help=reach)
    options = parser.parse_args(argv)
    connection = None
    if options.connection is not None:
        connection = msgspec.json.decode(options.connection.read_bytes(), type=dict[str, str])
    spark = local_session()
    try:
        with progress.shown(RunDirectory(options.run_dir), spark):
            reconcile(options.run_dir, options.from_log, spark, exhaustive=options.exhaustive, connection=connection)
    finally:
        end(spark)
    return 0


if __name__ == "__main__":
    sys.exit(main())
