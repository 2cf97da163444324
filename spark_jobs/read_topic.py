"""Reading: the snapshot of every topic, between offsets that were taken once, and what stands behind the snapshot."""

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
    # how long a read waits for a record that should be there; Spark's own default is two minutes
    "kafkaConsumer.pollTimeoutMs": "30000",
    # how long it asks brokers for offsets before it tries again, three times; Kafka's own default is a minute
    "kafka.default.api.timeout.ms": "30000",
    # Spark asks the broker for the bounds of the log at every poll: few, large polls
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
}
SNAPSHOT, TAIL = "raw", "tail"
Place = tuple[str, int]
"""Arm and partition."""


def read_topics(
    spark: SparkSession, offsets: Offsets, isolation: Isolation = RAW_VIEW, connection: Mapping[str, str] | None = None
) -> DataFrame:
    """RAW rows of every partition, from the snapshot's start to the partition's end now: the snapshot and its tail.

    `connection`: options of Spark's Kafka source by which it reaches the brokers (`Connection.spark_options`); without
    them it reads in plain text from the addresses in `offsets`.
    Fails, rather than reads less, where the brokers no longer hold that range.
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

    That offset is behind the markers: the snapshot was taken when no transaction before them was undecided any more.
    `check_committed` checks it.
    """
    of_arms = [part for part in offsets.partitions if part.arm in arms]
    return read_topics(spark, msgspec.structs.replace(offsets, partitions=of_arms), "read_committed", connection)


def view(offsets: Offsets, inside: str = SNAPSHOT, behind: str = TAIL) -> Column:
    """Per row of RAW: `inside` for a record in the snapshot's [start, end), `behind` for a record behind it.

    What the snapshot holds depends only on its bounds: a repeated read takes the same records, whatever came since.
    """
    ends: dict[str, list[int]] = defaultdict(list)
    for part in sorted(offsets.partitions, key=lambda part: part.partition):
        ends[part.arm].append(part.end)
    end = _literal(ends, "map<string,array<bigint>>")[F.col("arm")][F.col("partition")]
    return F.when(F.col("offset") < end, F.lit(inside)).otherwise(F.lit(behind))


def count_tail(log: Path, offsets: Offsets) -> dict[Place, int]:
    """Records of view `tail` in log/ that are not markers, per (arm, partition).

    Raises RuntimeError unless at least the snapshot's own markers were read: a read of nothing shows nothing.
    """
    records, markers = _behind(log, TAIL)
    _require_markers(markers, offsets.partitions)
    return records


def check_committed(log: Path, offsets: Offsets, arms: Sequence[str], tail: str) -> None:
    """Raises RuntimeError unless view `tail` has the snapshot's own markers.

    `tail` is what a read_committed consumer of `arms` saw behind the snapshot. The markers are in no transaction. A
    consumer that does not see them was given a last stable offset before them, for example by a new leader; what it did
    not see of the snapshot may well be in the log.
    """
    _, markers = _behind(log, tail)
    of_arms = [part for part in offsets.partitions if part.arm in arms]
    _require_markers(markers, of_arms, " by a consumer that reads committed")


def _behind(log: Path, view: str) -> tuple[dict[Place, int], dict[Place, int]]:
    """Records of a view behind the snapshot that are no markers, and the markers, each per (arm, partition)."""
    names = ["arm", "partition", "producer", "crc_ok", "foreign"]
    groups = dataset.dataset(log).to_table(columns=names, filter=pc.field("view") == view).group_by(names)
    records: Counter[Place] = Counter()
    markers: Counter[Place] = Counter()
    for row in groups.aggregate([([], "count_all")]).to_pylist():
        marker = row["crc_ok"] and not row["foreign"] and row["producer"] == MARKER_PRODUCER
        (markers if marker else records)[row["arm"], row["partition"]] += row["count_all"]
    return dict(records), dict(markers)


def _require_markers(markers: Mapping[Place, int], parts: Sequence[PartitionSnapshot], reader: str = "") -> None:
    for part in parts:
        count, expected = markers.get((part.arm, part.partition), 0), part.live_end - part.end
        if count < expected:
            raise StepFailed(
                f"{part.topic}, partition {part.partition}: {count} of {expected} markers were read behind the "
                f"snapshot{reader}: the read is incomplete"
            )


def _literal(value: object, kind: str) -> Column:
    """One literal for any number of partitions: a map built column by column would cost a call to the JVM per part."""
    return F.from_json(F.lit(json.dumps(value)), kind)
