"""Effects: joins log and effects by attempt, and derives the anomalies from the counts per attempt.

A *line* is a record in the view of the arm: in the committed view if the arm writes transactions, else in the raw view.
Only lines that name an attempt of the arm count. They count even if the ledger lacks this attempt: a record that nobody
sent is an anomaly of the log, but an application that applies the record does nothing wrong. An effect that names no
attempt of the arm is *unparsed*, unless the application applied a marker of the verifier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import EFFECTS as KINDS
from delivery_verifier.model.anomalies import Anomaly, subset
from delivery_verifier.model.outcomes import Outcome
from spark_jobs.matching.anomalies import of_copies
from spark_jobs.matching.attempts import BY_KEY, KEY, location
from spark_jobs.reading.parse import is_marker
from spark_jobs.schemas import ANOMALIES, EFFECTS, LEDGER, LOCATION_UNIT, promise

Partitions = Set[tuple[str, int]]
"""Pairs of an arm and one of its partitions."""


class Places(NamedTuple):
    """What is known of the partitions of the arms.

    * `drained`: the partitions in which the application has applied a marker that was written at the end of the
      snapshot or later.
    * `hidden`: the partitions of which not all lines are known, e.g. because offsets are unreadable. A record that is
      not known may be a further copy of an attempt.
    * `lowest`: the lowest offset of each partition from which a record was applied.
    """

    drained: Partitions
    hidden: Partitions
    lowest: Mapping[tuple[str, int], int]


def is_of_attempt() -> Column:
    """Returns a column that is true for a row of EFFECTS or of LOG, if the row names an attempt of the arm."""
    return F.col("parsed") & F.col("crc_ok") & ~F.col("foreign") & ~is_marker()


def applied_attempts(effects: DataFrame, lines: DataFrame, places: Places) -> DataFrame:
    """Returns one row per attempt that `effects` (rows of EFFECTS) or `lines` (rows of LOG) name. The columns are KEY
    and:

    * `copies`: the locations of the attempt's lines, ascending.
    * `effects`: an array of structs in the order of time, one per effect. `at` is the location of the applied record;
      null if the application does not keep the location. `behind`: whether a record with a higher offset of the
      partition was applied earlier.
    * `partition`: the partition of the first copy. If there is no copy, the partition of the first effect.
    * `lowest`: of a SKIPPED attempt, the lowest offset of the partition from which a record was applied.
    * `drained`, `hidden`: whether the partition is in the set of `places` with this name.
    * `kind`: the anomaly of the attempt. `also`: OVERTAKEN if the attempt shows it beside another anomaly.
    """
    copies = lines.where(is_of_attempt()).select(*KEY, location("offset", "partition").alias("copy"))
    spot = F.when(F.col("offset") >= 0, location("offset", "partition")).alias("at")
    landed = F.struct("order", spot, "member", "incarnation", "applied_at", "behind", "partition")
    applied = _behind(promise(effects, EFFECTS)).where(is_of_attempt()).select(*KEY, landed.alias("effect"))
    both = copies.withColumn("effect", F.lit(None).cast(applied.schema["effect"].dataType)).unionByName(
        applied.withColumn("copy", F.lit(None).cast("bigint"))
    )
    attempts = both.groupBy(*BY_KEY).agg(
        F.sort_array(F.collect_list("copy")).alias("copies"), F.sort_array(F.collect_list("effect")).alias("effects")
    )
    of_copy = (F.get("copies", F.lit(0)) % LOCATION_UNIT).cast("int")
    placed = attempts.withColumn("partition", F.coalesce(of_copy, F.get("effects", F.lit(0))["partition"]))
    known = {"drained": _is_in(places.drained), "hidden": _is_in(places.hidden)}
    kinds = placed.withColumns(known).withColumn("kind", _kind()).withColumn("also", _also())
    return kinds.withColumn("lowest", F.when(F.col("kind") == Anomaly.SKIPPED.value, _lowest(places.lowest)))


def census(effects: DataFrame, taken_at_us: int) -> DataFrame:
    """Returns the counts of EFFECTS per (arm, partition), without any join.

    * `effects`: all effects. `markers`: applied markers. `unparsed`: effects that name neither an attempt nor a marker.
    * `in_time`: the effects that name an attempt, and were applied before `taken_at_us`, the time of the snapshot (µs
      since the epoch).
    * `last_marker`: the highest offset of an applied marker; null if there is none.
    * `lowest`: the lowest offset from which a record was applied; null if there is none.
    """
    return (
        promise(effects, EFFECTS)
        .groupBy("arm", "partition")
        .agg(
            F.count(F.lit(1)).alias("effects"),
            F.count_if(is_marker()).alias("markers"),
            F.max(F.when(is_marker(), F.col("offset"))).alias("last_marker"),
            F.min(F.when(is_of_attempt() & (F.col("offset") >= 0), F.col("offset"))).alias("lowest"),
            F.count_if((F.unix_micros("applied_at") < taken_at_us) & is_of_attempt()).alias("in_time"),
            F.count_if(~is_of_attempt() & ~is_marker()).alias("unparsed"),
        )
    )


def lines_census(lines: DataFrame) -> DataFrame:
    """Returns the column `lines` per (arm, partition): the number of `lines` that name an attempt."""
    return lines.where(is_of_attempt()).groupBy("arm", "partition").agg(F.count(F.lit(1)).alias("lines"))


def counts(attempts: DataFrame) -> DataFrame:
    """Returns counts of attempts, effects and copies, per arm, producer, session, partition, kind and `also`.
    `attempts`: the result of `applied_attempts`."""
    copies, effects = F.size("copies"), F.size("effects")
    is_visible, is_applied = copies > 0, effects > 0
    return attempts.groupBy("arm", "producer", "session", "partition", "kind", "also").agg(
        F.count(F.lit(1)).alias("attempts"),
        F.count_if(is_visible).alias("visible"),
        F.count_if(is_visible & is_applied).alias("applied"),
        F.count_if(is_visible & ~is_applied & ~F.col("drained")).alias("pending"),
        F.sum(F.when(is_visible & is_applied, effects - 1).otherwise(0)).alias("again"),
        F.sum(F.when(is_visible, F.greatest(_extra(), F.lit(0))).otherwise(0)).alias("extra"),
        F.count_if(_is_skipped_behind()).alias("skipped_behind"),
        F.count_if((copies > 1) & (effects == copies) & ~_reapplied()).alias("carried"),
        F.sum(F.when(~is_visible, effects).otherwise(0)).alias("ghost_effects"),
        F.sum(copies).alias("copies"),
    )


def cases(attempts: DataFrame, ledger: DataFrame, bound: int) -> DataFrame:
    """Returns ANOMALIES: at most `bound` cases of each arm and kind among `attempts`, with their evidence.

    `attempts`: the result of `applied_attempts`. `ledger`: LEDGER. If there are more than `bound` cases, takes the
    first cases in the order of partition, sequence, attempt number and producer.
    """
    order = [F.col("partition"), F.col("sequence"), F.col("attempt"), F.col("producer")]
    rank = F.row_number().over(Window.partitionBy("arm", "kind").orderBy(*order))
    flagged = attempts.where(F.col("kind").isNotNull()).withColumn("rank", rank).where(F.col("rank") <= bound)
    acked = F.when(F.col("outcome") == Outcome.ACKED, F.col("offset"))
    claims = promise(ledger, LEDGER).select(
        *KEY, "partition_sequence", "outcome", acked.alias("acked_offset"), "sent_at", "settled_at", "error"
    )
    sent = claims.join(flagged.hint("broadcast"), KEY)
    unsent = flagged.join(sent.select(*KEY).hint("broadcast"), KEY, "left_anti")
    unknown = {name: F.lit(None).cast(claims.schema[name].dataType) for name in claims.columns if name not in KEY}
    both = sent.unionByName(unsent.withColumns(unknown))
    return promise(both.withColumns(of_copies() | {"detail": _detail()}), ANOMALIES)


def _behind(effects: DataFrame) -> DataFrame:
    """Adds the column `behind` to effects: whether a record with a higher offset of the partition was applied earlier.
    The column is false if the application does not keep offsets."""
    in_time = Window.partitionBy("arm", "partition").orderBy("order", "offset")
    highest = F.max("offset").over(in_time.rowsBetween(Window.unboundedPreceding, -1))
    is_behind = (highest > F.col("offset")) & (F.col("offset") >= 0)
    return effects.withColumn("behind", F.coalesce(is_behind, F.lit(False)))


def _extra() -> Column:
    """Returns how many effects of an attempt are too many: the number of effects, minus the number of justified
    effects.

    Each copy of the attempt in the log justifies one effect. Each different location that the effects name also
    justifies one effect. The number of justified effects is the lower of these two numbers. If the application does not
    keep locations, it is the number of copies.
    """
    locations = F.array_compact(F.transform("effects", lambda effect: effect["at"]))
    different = F.when(F.size(locations) > 0, F.size(F.array_distinct(locations)))
    return F.size("effects") - F.least(F.size("copies"), different)


def _reapplied() -> Column:
    """Returns a column that is true for an attempt with a copy, if it has more effects than copies, or more than one
    effect at one location."""
    return (F.size("copies") > 0) & (_extra() > 0)


def _is_skipped_behind() -> Column:
    """Returns a column that is true for a SKIPPED attempt, if a copy of the attempt stands behind an applied record of
    the partition."""
    last = F.floor(F.array_max("copies") / LOCATION_UNIT)
    return last > F.col("lowest")


DETECTORS: dict[Anomaly, Callable[[], Column]] = subset(
    "the kinds of the log are detected in `spark_jobs.matching.anomalies`",
    {
        Anomaly.SKIPPED: lambda: (F.size("copies") > 0) & (F.size("effects") == 0) & F.col("drained"),
        Anomaly.REAPPLIED: lambda: _reapplied() & ~F.col("hidden"),
        Anomaly.GHOST: lambda: (F.size("effects") > 0) & (F.size("copies") == 0) & ~F.col("hidden"),
        Anomaly.OVERTAKEN: lambda: F.coalesce(F.get("effects", F.lit(0))["behind"], F.lit(False)),
    },
)
"""Maps each kind of effects to a function that returns whether an attempt shows this kind, regardless of the other
kinds. The kinds are in order of precedence."""
assert tuple(DETECTORS) == KINDS


def _kind() -> Column:
    """Returns the anomaly of effects that an attempt shows; null if it shows none. If several apply, the first in order
    of precedence counts."""
    return F.coalesce(*[F.when(applies(), kind.value) for kind, applies in DETECTORS.items()])


def _also() -> Column:
    hidden = DETECTORS[Anomaly.OVERTAKEN]() & (F.col("kind") != Anomaly.OVERTAKEN.value)
    return F.array_compact(F.array(F.when(hidden, Anomaly.OVERTAKEN.value)))


def _is_in(partitions: Partitions) -> Column:
    names = [f"{arm}/{partition}" for arm, partition in sorted(partitions)]
    return F.concat_ws("/", "arm", "partition").isin(names) if names else F.lit(False)


def _lowest(offsets: Mapping[tuple[str, int], int]) -> Column:
    """Returns the offset of a row's partition in `offsets`; null if `offsets` lacks the partition."""
    if not offsets:
        return F.lit(None).cast("bigint")
    entries = [entry for (arm, partition), low in sorted(offsets.items()) for entry in (f"{arm}/{partition}", low)]
    known = F.create_map(*map(F.lit, entries))
    lowest: Column = known[F.concat_ws("/", "arm", "partition")].cast("bigint")
    return lowest


def _detail() -> Column:
    """A case in words, e.g. `in the log at 0:17; applied at 0:17 by member 0 in incarnation 0`. 0:17 is partition 0,
    offset
    17. `by a member` stands where nobody saw which."""

    def landed(effect: Column) -> Column:
        located = F.concat(F.lit("at "), _location_text(effect["at"]), F.lit(" "))
        return F.concat(
            F.when(effect["at"].isNull(), F.lit("")).otherwise(located),
            F.when(effect["member"] < 0, F.lit("by a member")).otherwise(
                F.concat(F.lit("by member "), effect["member"])
            ),
            F.lit(" in incarnation "),
            effect["incarnation"],
        )

    copies = F.concat(F.lit("in the log at "), F.array_join(F.transform("copies", _location_text), ", "))
    effects = F.concat(F.lit("applied "), F.array_join(F.transform("effects", landed), ", "))
    behind = F.when(DETECTORS[Anomaly.OVERTAKEN](), "behind a record at a higher offset")
    return F.concat_ws(
        "; ",
        F.when(F.size("copies") == 0, "at no offset that consumers see").otherwise(copies),
        F.when(F.size("effects") == 0, "never applied").otherwise(effects),
        behind,
        F.when(F.col("outcome").isNull(), "never attempted"),
    )


def _location_text(copy: Column) -> Column:
    """Returns a location as text: partition:offset."""
    return F.concat_ws(":", copy % LOCATION_UNIT, F.floor(copy / LOCATION_UNIT))
