"""The first half of a reconciliation: reads the records of all topics, and writes them to log/.

The manifest read_topic.json names each file of log/ with the SHA-256 of the file. So a later change of a file is
noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets, read_offsets
from delivery_verifier.run_directory.run_directory import RunDirectory
from spark_jobs.reading import unreadable
from spark_jobs.reading.parse import parse
from spark_jobs.reading.read_topic import (
    COMMITTED,
    COMMITTED_TAIL,
    SNAPSHOT,
    check_committed,
    count_tail,
    read_committed,
    read_topics,
    view,
)

READ: Final = "read_topic"
"""The name of the step that writes log/."""

MAX_FILES = 64
"""The most files that log/ has."""

ENCODING: Final = {"parquet.writer.version": "v2"} | {
    f"parquet.enable.dictionary#{name}": "false" for name in ("offset", "timestamp", "sequence", "partition_sequence")
}
"""Options of the Parquet writer: delta encoding for numbers that hardly repeat. Spark would first build a dictionary of
them, and give it up later. Writing takes a tenth less CPU time, and dense numbers take less space."""


def write_log(
    run: RunDirectory, scenario: Scenario, spark: SparkSession, connection: Mapping[str, str] | None = None
) -> None:
    """Reads the snapshot of every topic, and all records behind the snapshot, from Kafka into log/.

    Unreadable offsets of the snapshot are not requested. Each of them gets an empty row. The topics of the arms in
    `Scenario.transactional` are read twice: as a read_uncommitted consumer sees them, and as a read_committed consumer
    sees them. `connection`: options by which Spark reaches the brokers. Raises the errors of `read_topics` and
    `check_committed`.
    """
    offsets = read_offsets_of(run)
    with run.writing(READ) as output:
        raw_counts = Observation("read")
        views = view(offsets)
        counters = [F.count_if((F.col("arm") == arm) & (views == SNAPSHOT)).alias(arm) for arm in scenario.arm_names]
        raw = read_topics(spark, offsets, connection=connection).observe(raw_counts, *counters)
        committed_counts = Observation("read_committed")
        lines = parse(raw, scenario, views)
        if scenario.transactional:
            lines = lines.unionByName(_committed(spark, scenario, offsets, committed_counts, connection))
        if (unread := unreadable.lines(spark, offsets)) is not None:
            lines = lines.unionByName(unread)
        with output.timed("read"):
            # coalesce needs no shuffle; without coalesce, every Kafka partition would be a task
            lines.coalesce(MAX_FILES).write.options(**ENCODING).parquet(str(output.staging / "log"))
        tail = count_tail(output.staging / "log", offsets)
        output.counts |= {f"read/{arm}": int(count) for arm, count in raw_counts.get.items()}
        if scenario.transactional:
            check_committed(output.staging / "log", offsets, scenario.transactional, COMMITTED_TAIL)
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
    """Returns rows of LOG: the records of the arms in `Scenario.transactional` that a read_committed consumer sees.

    The column `view` is `COMMITTED` or `COMMITTED_TAIL`. When the result is computed, `counts` receives, per arm,
    the number of rows of view `COMMITTED` that came from Kafka.
    """
    arms = scenario.transactional
    # Behind the last stable offset of the snapshot, the committed view is not judged.
    parts = [msgspec.structs.replace(part, end=part.visible_end) for part in offsets.partitions]
    views = view(msgspec.structs.replace(offsets, partitions=parts), COMMITTED, COMMITTED_TAIL)
    counters = [F.count_if((F.col("arm") == arm) & (views == COMMITTED)).alias(arm) for arm in arms]
    raw = read_committed(spark, offsets, arms, connection).observe(counts, *counters)
    return parse(raw, scenario, views)


def read_offsets_of(run: RunDirectory) -> Offsets:
    """Reads the bounds of the run's snapshot from offsets.json."""
    return read_offsets((run.path / "offsets.json").read_bytes())
