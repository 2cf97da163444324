"""Reading: reads the records of every topic from Kafka.

The *snapshot* of a partition is the range of offsets that is judged. The step settle recorded the bounds of this range
once, after the load. A *marker* is a record that settle wrote behind the load, to prove where the snapshot ends. The
*tail* is all records behind the snapshot.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path

import msgspec
import pyarrow.compute as pc
from pyarrow import dataset
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.record import MARKER_PRODUCER
from delivery_verifier.model.scenario import RAW as RAW_VIEW
from delivery_verifier.model.scenario import Isolation
from delivery_verifier.model.snapshot import Offsets, PartitionSnapshot
from delivery_verifier.model.unreadable import count_unreadable
from spark_jobs.literals import literal
from spark_jobs.reading import unreadable
from spark_jobs.schemas import RAW, promise

CONSUMER = {
    "failOnDataLoss": "true",
    # how long a read waits for a record of the snapshot, in ms; Spark's own default is two minutes
    "kafkaConsumer.pollTimeoutMs": "30000",
    # how long Spark asks the brokers for offsets before it tries again (three times), in ms; Kafka's own is a minute
    "kafka.default.api.timeout.ms": "30000",
    # Spark asks the broker for the bounds of the log at every poll, so polls should be few and large. But the records
    # of a larger poll overflow the survivor spaces of the JVM's heap, and the JVM then collects its whole heap often.
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(4 << 20),
    "kafka.fetch.max.bytes": str(64 << 20),
    # how long a broker holds back the answer about an end of the log, in ms; Spark's next question about the bounds of
    # the log waits behind this answer; Kafka's own is 500, for each task
    "kafka.fetch.max.wait.ms": "10",
}
"""Options of Spark's Kafka source for every read."""
TASKS, LEAST_OF_TASK = 16, 250_000
"""A read has about TASKS tasks, each with at least LEAST_OF_TASK records. If these were fewer tasks than partitions,
each task reads one partition. Reason: a topic with three large partitions would keep one of two cores waiting."""
SNAPSHOT, TAIL = "raw", "tail"
"""Values of the column `view` in LOG: for records in the snapshot, and for records behind the snapshot."""
COMMITTED, COMMITTED_TAIL = "committed", "committed_tail"
"""The same two values for records that a read_committed consumer sees."""
_Bounds = Mapping[str, Mapping[str, int]]
"""Maps a topic and the number of a partition, as text, to an offset. The offset -1 is the end of the log."""
ArmPartition = tuple[str, int]
"""The name of an arm and the number of a partition."""


def read_topics(
    spark: SparkSession, offsets: Offsets, isolation: Isolation = RAW_VIEW, connection: Mapping[str, str] | None = None
) -> DataFrame:
    """Returns RAW: the snapshot and the tail of every partition. Reads up to the end that the partition has now.

    `offsets`: the bounds of the snapshot. `isolation`: the isolation level of the consumer. `connection`: options by
    which Spark's Kafka source reaches the brokers (`spark_options.granted`). If it is None, Spark connects to the
    addresses in `offsets` without encryption.

    The read fails if the brokers no longer hold the whole range: Spark never returns only a part of it. Only the
    offsets that `offsets` calls unreadable are left out.
    """
    arms = {part.topic: part.arm for part in offsets.partitions}
    records = sum(part.end - part.start for part in offsets.partitions)
    reader = (
        spark.read.format("kafka")
        .options(**CONSUMER)
        .option("minPartitions", max(1, min(TASKS, records // LEAST_OF_TASK)))
        .option("kafka.isolation.level", isolation)
        .options(**(connection or {"kafka.bootstrap.servers": offsets.bootstrap_servers}))
    )
    loaded = reduce(
        DataFrame.union,
        [
            reader.option(*selected)
            .option("startingOffsets", json.dumps(starts))
            .option("endingOffsets", json.dumps(ends) if ends else "latest")
            .load()
            for selected, starts, ends in _reads(offsets, isolation)
        ],
    )
    return promise(loaded.withColumn("arm", literal(arms, "map<string,string>")[F.col("topic")]), RAW)


def _reads(offsets: Offsets, isolation: Isolation) -> Iterator[tuple[tuple[str, str], _Bounds, _Bounds]]:
    """Yields one item for each read: (selection, first offsets, ends). A selection is an option of Spark's Kafka source
    and its value.

    If all offsets can be read, one read takes whole topics. Its ends are empty, i.e. the present ends of the
    partitions. If unreadable offsets divide a partition into ranges, each read takes at most one range of every
    partition. If an open transaction holds back a partition, a committed read ends at the last stable offset, because
    it would wait in vain for the records behind it.
    """
    bounded = [part for part in offsets.partitions if part.held_back and isolation != RAW_VIEW]
    ranges = {
        (part.topic, str(part.partition)): unreadable.readable(part, part.visible_end if part in bounded else -1)
        for part in offsets.partitions
    }
    is_whole = not bounded and not any(part.unreadable for part in offsets.partitions)
    for number in range(max(map(len, ranges.values()))):
        starts, ends = defaultdict[str, dict[str, int]](dict), defaultdict[str, dict[str, int]](dict)
        for (topic, partition), of_partition in ranges.items():
            if number < len(of_partition):
                starts[topic][partition], ends[topic][partition] = of_partition[number]
        if is_whole:
            yield ("subscribe", ",".join(starts)), starts, {}
        else:
            selected = {topic: [int(partition) for partition in of_topic] for topic, of_topic in starts.items()}
            yield ("assign", json.dumps(selected)), starts, ends


def read_committed(
    spark: SparkSession, offsets: Offsets, arms: Sequence[str], connection: Mapping[str, str] | None = None
) -> DataFrame:
    """Returns RAW: the records of `arms` that a read_committed consumer sees now, i.e. the records before the last
    stable offset.

    The markers are the last records of each partition. The last stable offset should be behind the markers, because
    every earlier transaction had ended when the snapshot was taken. `check_committed` checks this afterwards. If a
    transaction had stayed open, its partition is read up to the last stable offset of the snapshot. `connection`:
    options by which Spark reaches the brokers (see `read_topics`).
    """
    selected = [part for part in offsets.partitions if part.arm in arms]
    return read_topics(spark, msgspec.structs.replace(offsets, partitions=selected), "read_committed", connection)


def view(offsets: Offsets, snapshot_view: str = SNAPSHOT, tail_view: str = TAIL) -> Column:
    """Returns the column `view` for the rows of RAW: `snapshot_view` for records in the snapshot, and `tail_view` for
    records behind it.

    Which records are in the snapshot depends only on its bounds in `offsets`. So a repeated read finds the same records
    in the snapshot, even if other records were written meanwhile.
    """
    ends: dict[str, list[int]] = defaultdict(list)
    for part in sorted(offsets.partitions, key=lambda part: part.partition):
        ends[part.arm].append(part.end)
    end = literal(ends, "map<string,array<bigint>>")[F.col("arm")][F.col("partition")]
    return F.when(F.col("offset") < end, F.lit(snapshot_view)).otherwise(F.lit(tail_view))


def count_tail(log: Path, offsets: Offsets) -> dict[ArmPartition, int]:
    """Maps (arm, partition) to the number of records behind the snapshot. Markers are not counted. `log`: the folder
    log/.

    Raises StepFailed if a marker was not read, because the read is then incomplete.
    """
    records, markers = _count_behind_snapshot(log, TAIL)
    _require_markers(markers, offsets.partitions)
    return records


def check_committed(log: Path, offsets: Offsets, arms: Sequence[str], tail: str) -> None:
    """Raises StepFailed if the read_committed consumer of `arms` missed a marker, because the read is then incomplete.

    `log`: the folder log/. `tail`: the value of the column `view` for records that the consumer saw behind the
    snapshot.

    Markers are in no transaction. So a consumer misses a marker only if the last stable offset, where the consumer's
    read ends, is before the marker. A new leader can report such a low offset for a moment. The consumer may then also
    have missed records of the snapshot. In a partition that an open transaction holds back, no consumer sees the
    markers. There, the law `view_rows` alone shows that the read was complete.
    """
    _, markers = _count_behind_snapshot(log, tail)
    selected = [part for part in offsets.partitions if part.arm in arms and part.held_back is None]
    _require_markers(markers, selected, " by a consumer that reads committed")


def _count_behind_snapshot(log: Path, view: str) -> tuple[dict[ArmPartition, int], dict[ArmPartition, int]]:
    """Returns two counts per (arm, partition) of the records whose column `view` has the value `view`. The first count
    is that of all records but the markers. The second count is that of the markers.

    `log`: the folder log/. `view`: a value that stands for records behind the snapshot.
    """
    names = ["arm", "partition", "producer", "crc_ok", "foreign"]
    groups = dataset.dataset(log).to_table(columns=names, filter=pc.field("view") == view).group_by(names)
    records: Counter[ArmPartition] = Counter()
    markers: Counter[ArmPartition] = Counter()
    for row in groups.aggregate([([], "count_all")]).to_pylist():
        marker = row["crc_ok"] and not row["foreign"] and row["producer"] == MARKER_PRODUCER
        (markers if marker else records)[row["arm"], row["partition"]] += row["count_all"]
    return dict(records), dict(markers)


def _require_markers(markers: Mapping[ArmPartition, int], parts: Sequence[PartitionSnapshot], reader: str = "") -> None:
    """Raises StepFailed if markers of a partition are missing. `reader` names the consumer in the error."""
    for part in parts:
        lacking = count_unreadable(part.unreadable, part.end, part.live_end)
        count, expected = markers.get((part.arm, part.partition), 0), part.live_end - part.end - lacking
        if count < expected:
            raise StepFailed(
                f"{part.topic}, partition {part.partition}: {count} of {expected} markers were read behind the "
                f"snapshot{reader}: the read is incomplete"
            )
