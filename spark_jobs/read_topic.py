"""Reading: the snapshot of every topic, between offsets that were taken once, and the records behind the snapshot."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pyarrow.compute as pc
from pyarrow import dataset
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.history import Offsets, PartitionSnapshot
from delivery_verifier.model.record import MARKER_PRODUCER
from delivery_verifier.model.scenario import RAW as RAW_VIEW
from delivery_verifier.model.scenario import Isolation
from spark_jobs.schemas import RAW, promise

CONSUMER = {
    "failOnDataLoss": "true",
    # how long a read waits for a record of the snapshot; Spark's own default is two minutes
    "kafkaConsumer.pollTimeoutMs": "30000",
    # how long it asks brokers for offsets before it tries again, three times; Kafka's own default is a minute
    "kafka.default.api.timeout.ms": "30000",
    # Spark asks the broker for the bounds of the log at every poll: few, large polls
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
}
SNAPSHOT, TAIL = "raw", "tail"
ArmPartition = tuple[str, int]
"""Arm and partition."""


def read_topics(
    spark: SparkSession, offsets: Offsets, isolation: Isolation = RAW_VIEW, connection: Mapping[str, str] | None = None
) -> DataFrame:
    """RAW rows of every partition, from the snapshot's start to the partition's end now: the snapshot and its tail.

    `connection`: options of Spark's Kafka source by which it reaches the brokers (`Connection.spark_options`); without
    them it reads in plain text from the addresses in `offsets`.
    Fails if the brokers no longer hold the whole range: it never reads less.
    """
    arms = {part.topic: part.arm for part in offsets.partitions}
    starts: dict[str, dict[str, int]] = defaultdict(dict)
    for part in offsets.partitions:
        starts[part.topic][str(part.partition)] = part.start
    loaded = (
        spark.read.format("kafka")
        .options(**CONSUMER)
        .option("kafka.isolation.level", isolation)
        .options(**(connection or {"kafka.bootstrap.servers": offsets.bootstrap_servers}))
        .option("subscribe", ",".join(arms))
        .option("startingOffsets", json.dumps(starts))
        .option("endingOffsets", "latest")
        .load()
    )
    return promise(loaded.withColumn("arm", _literal(arms, "map<string,string>")[F.col("topic")]), RAW)


def read_committed(
    spark: SparkSession, offsets: Offsets, arms: Sequence[str], connection: Mapping[str, str] | None = None
) -> DataFrame:
    """RAW rows of `arms` as a read_committed consumer sees them, up to the last stable offset now.

    The last stable offset is behind the markers: when the snapshot was taken, every transaction before them was
    decided. `check_committed` checks this.
    """
    selected = [part for part in offsets.partitions if part.arm in arms]
    return read_topics(spark, msgspec.structs.replace(offsets, partitions=selected), "read_committed", connection)


def view(offsets: Offsets, snapshot_view: str = SNAPSHOT, tail_view: str = TAIL) -> Column:
    """The view of each row of RAW: `snapshot_view` in the snapshot's [start, end), `tail_view` behind the snapshot.

    The records of the snapshot depend only on its bounds: a repeated read takes the same records, whatever was written
    since.
    """
    ends: dict[str, list[int]] = defaultdict(list)
    for part in sorted(offsets.partitions, key=lambda part: part.partition):
        ends[part.arm].append(part.end)
    end = _literal(ends, "map<string,array<bigint>>")[F.col("arm")][F.col("partition")]
    return F.when(F.col("offset") < end, F.lit(snapshot_view)).otherwise(F.lit(tail_view))


def count_tail(log: Path, offsets: Offsets) -> dict[ArmPartition, int]:
    """Records of view `tail` in log/ that are not markers, per (arm, partition).

    Raises StepFailed unless the snapshot's own markers were read: an incomplete read proves nothing.
    """
    records, markers = _count_behind_snapshot(log, TAIL)
    _require_markers(markers, offsets.partitions)
    return records


def check_committed(log: Path, offsets: Offsets, arms: Sequence[str], tail: str) -> None:
    """Raises StepFailed unless view `tail` has the snapshot's own markers.

    `tail`: the view that a read_committed consumer of `arms` had behind the snapshot. The markers are in no
    transaction. A consumer that does not see them got a last stable offset before them, for example from a new leader.
    Records of the snapshot that it did not see may be in the log all the same.
    """
    _, markers = _count_behind_snapshot(log, tail)
    selected = [part for part in offsets.partitions if part.arm in arms]
    _require_markers(markers, selected, " by a consumer that reads committed")


def _count_behind_snapshot(log: Path, view: str) -> tuple[dict[ArmPartition, int], dict[ArmPartition, int]]:
    """Counts the rows of `view`: records that are no markers, and markers, each per (arm, partition)."""
    names = ["arm", "partition", "producer", "crc_ok", "foreign"]
    groups = dataset.dataset(log).to_table(columns=names, filter=pc.field("view") == view).group_by(names)
    records: Counter[ArmPartition] = Counter()
    markers: Counter[ArmPartition] = Counter()
    for row in groups.aggregate([([], "count_all")]).to_pylist():
        marker = row["crc_ok"] and not row["foreign"] and row["producer"] == MARKER_PRODUCER
        (markers if marker else records)[row["arm"], row["partition"]] += row["count_all"]
    return dict(records), dict(markers)


def _require_markers(markers: Mapping[ArmPartition, int], parts: Sequence[PartitionSnapshot], reader: str = "") -> None:
    for part in parts:
        count, expected = markers.get((part.arm, part.partition), 0), part.live_end - part.end
        if count < expected:
            raise StepFailed(
                f"{part.topic}, partition {part.partition}: {count} of {expected} markers were read behind the "
                f"snapshot{reader}: the read is incomplete"
            )


def _literal(value: object, kind: str) -> Column:
    """`value` as one literal. A map that is built column by column would cost a call to the JVM for each entry."""
    return F.from_json(F.lit(json.dumps(value)), kind)
