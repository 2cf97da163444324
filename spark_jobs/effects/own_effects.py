"""The effects of user applications, i.e. of programs that the user brings. Such effects keep neither the partition nor
the offset of a record. This module finds the partitions, so that the effects can be counted per partition.

The partition of a record of the load comes from the ledger. The partition of a marker comes from the marker's header,
which also names the marker's round.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.snapshot import Offsets
from spark_jobs.matching.attempts import KEY
from spark_jobs.reading.parse import is_marker
from spark_jobs.schemas import EFFECTS, LEDGER, promise


def with_places(effects: DataFrame, ledger: DataFrame, scenario: Scenario, offsets: Offsets) -> DataFrame:
    """Returns `effects` (rows of EFFECTS), with a partition in each row of a user application that had none. Other
    rows stay unchanged.

    If the effect names no attempt, or an attempt that the ledger lacks, the partition is 0. The offset stays -1, with
    one exception: the marker of the last round. This marker shows that its partition is drained, so the row of this
    marker also gets the marker's offset.
    """
    own = [arm.name for arm in scenario.loaded if arm.application and arm.application.discipline == "own"]
    if not own:
        return effects
    is_lost = F.col("arm").isin(*own) & (F.col("offset") < 0)
    others, lost = effects.where(~is_lost), promise(effects, EFFECTS).where(is_lost)
    markers = lost.where(is_marker()).withColumn("partition", F.col("attempt"))
    is_last = F.col("sequence") == offsets.rounds - 1
    markers = markers.withColumn("offset", F.when(is_last, _last_offset(offsets, own)).otherwise(F.col("offset")))
    markers = markers.withColumn("offset", F.coalesce("offset", F.lit(-1)))
    of_ledger = promise(ledger, LEDGER).select(*KEY, F.col("partition").alias("sent_to")).where(F.col("arm").isin(*own))
    records = lost.where(~is_marker()).join(of_ledger, KEY, "left")
    records = records.withColumn("partition", F.coalesce("sent_to", F.lit(0)))
    return others.unionByName(markers).unionByName(records.select(*effects.columns))


def _last_offset(offsets: Offsets, arms: list[str]) -> Column:
    """Returns the offset of the last marker in the partition of a row; null if the snapshot does not have the
    partition."""
    parts = [part for part in offsets.partitions if part.arm in arms]
    places = F.create_map(
        *[F.lit(entry) for part in parts for entry in (f"{part.arm}/{part.partition}", part.live_end - 1)]
    )
    last: Column = places[F.concat_ws("/", "arm", "partition")].cast("bigint")
    return last
