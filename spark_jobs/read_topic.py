"""Reading: the snapshot of every topic, between offsets that were taken once, and what came after it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from delivery_verifier.injection import Offsets, PartitionSnapshot
from delivery_verifier.scenario import Scenario
from spark_jobs.parse import is_marker, parse
from spark_jobs.schemas import RAW, promise

CONSUMER = {
    # No scenario writes transactions yet, so that the committed view is the raw one, and `raw` alone is read.
    "kafka.isolation.level": "read_uncommitted",
    "failOnDataLoss": "true",
    # how long a read waits for a record that should be there; Spark's own default is two minutes
    "kafkaConsumer.pollTimeoutMs": "30000",
    # Spark asks the broker for the bounds of the log at every poll: few, large polls
    "kafka.max.poll.records": "50000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
}


def read_snapshot(spark: SparkSession, offsets: Offsets) -> DataFrame:
    """RAW rows of every partition in [start, end). Never `latest`: a retried task must read the same records.

    Fails, rather than reads less, where the brokers no longer hold that range.
    """
    at_start = {part: part.start for part in offsets.partitions}
    return _read(spark, offsets, at_start, _json((part, part.end) for part in offsets.partitions))


def count_tail(spark: SparkSession, offsets: Offsets, scenario: Scenario) -> dict[tuple[str, int], int]:
    """Records at or behind the snapshot's end that are not markers, per (arm, partition).

    Raises RuntimeError unless at least the snapshot's own markers were read: a read of nothing shows nothing.
    """
    at_end = {part: part.end for part in offsets.partitions}
    behind = parse(_read(spark, offsets, at_end, "latest"), scenario)
    counted = behind.groupBy("arm", "partition").agg(
        F.count_if(is_marker()).alias("markers"), F.count_if(~is_marker()).alias("records")
    )
    found = {(row["arm"], row["partition"]): row for row in counted.collect()}  # one row per partition
    for part in offsets.partitions:
        row = found.get((part.arm, part.partition))
        if row is None or row["markers"] < part.live_end - part.end:
            raise RuntimeError(
                f"{part.topic}, partition {part.partition}: {row['markers'] if row else 0} of "
                f"{part.live_end - part.end} markers were read behind the snapshot: the read is incomplete"
            )
    return {place: row["records"] for place, row in found.items()}


def _read(spark: SparkSession, offsets: Offsets, start: dict[PartitionSnapshot, int], end: str) -> DataFrame:
    arms = F.create_map(*[F.lit(part) for pair in _topics(offsets).items() for part in pair])
    reader = spark.read.format("kafka").options(**CONSUMER)
    loaded = (
        reader.option("kafka.bootstrap.servers", offsets.bootstrap_servers)
        .option("subscribe", ",".join(_topics(offsets)))
        .option("startingOffsets", _json(start.items()))
        .option("endingOffsets", end)
        .load()
    )
    return promise(loaded.withColumn("arm", arms[F.col("topic")]), RAW)


def _topics(offsets: Offsets) -> dict[str, str]:
    return {part.topic: part.arm for part in offsets.partitions}


def _json(bounds: Iterable[tuple[PartitionSnapshot, int]]) -> str:
    topics: dict[str, dict[str, int]] = defaultdict(dict)
    for part, offset in bounds:
        topics[part.topic][str(part.partition)] = offset
    return json.dumps(topics)
