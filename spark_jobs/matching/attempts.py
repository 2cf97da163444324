"""Attempts: ledger and log joined by attempt, with the copies of each attempt and their order. Terms of this package:

* A *claim* is what the ledger says of one attempt. A *line* is one record in the log. A *copy* is a line that holds an
  attempt.
* A *sequence* is the number of an item that the application sends. If the application sends the item again, this is
  another attempt of the same sequence.
* A *partition sequence* numbers the attempts of a producer to one partition, in the order of sending.
* Each *session* of a producer has sequences of its own, from 0. A producer that is killed and started again keeps its
  session.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import TRANSACTIONAL, column
from delivery_verifier.model.outcomes import REPORTED, Outcome
from delivery_verifier.model.scenario import Scenario
from spark_jobs.literals import literal
from spark_jobs.reading.parse import is_marker, is_of_foreign_writer, is_sound
from spark_jobs.schemas import ATTEMPTS, LEDGER, LOCATION_UNIT, LOG, promise

SEQUENCE_KEY = ["arm", "producer", "session", "sequence"]
"""The columns that identify a sequence."""
KEY = [*SEQUENCE_KEY, "attempt"]
"""The columns that identify an attempt."""
BY_KEY = ["sequence", "attempt", "producer", "session", "arm"]
"""The columns of KEY in another order, by which Spark groups rows. Spark sorts the rows that it groups. `sequence`
stands first, because most rows differ in this column. So nearly every comparison of two rows needs only one column."""
CLAIMED = {
    "partition": "int",
    "partition_sequence": "bigint",
    "outcome": "string",
    "acked": "bigint",
    "sent_at": "timestamp",
    "settled_at": "timestamp",
    "error": "string",
}
"""The columns of an attempt that come only from the ledger, with their types."""


def location(offset: str | Column, partition: str | Column) -> Column:
    """Returns the location of a copy: one number made of offset and partition. Locations sort by offset first (see
    `LOCATION_UNIT`)."""
    offset_column, partition_column = (F.col(name) if isinstance(name, str) else name for name in (offset, partition))
    return offset_column * LOCATION_UNIT + partition_column


def reported() -> Column:
    """Returns a column that is true for an attempt that the client reported as written: ACKED or SENT."""
    return F.coalesce(F.col("outcome").isin(*REPORTED), F.lit(False))


def attempts(
    ledger: DataFrame,
    lines: DataFrame,
    owned: DataFrame | None,
    resends: bool,
    together: bool = False,
    boundaries: DataFrame | None = None,
    routed: bool = True,
) -> DataFrame:
    """Returns ATTEMPTS: one row per attempt that the ledger or the log names.

    `ledger`: LEDGER. `lines`: rows of LOG that `believable` has selected. `owned`: corrupted lines whose attempt is
    known, from `owned_copies`; None if there are none. `resends`: whether the application sent any sequence more than
    once; if not, the column `resent` is false everywhere. `together`: whether all rows are in one Spark partition
    already; if so, they are not shuffled. `boundaries`: rows of BOUNDARIES, or None. A boundary is the last record of a
    range that the screen has proven. The rows of this range are missing from `ledger` and `lines`, and the boundary
    stands for them when the order of the other rows is checked. `routed`: whether the ledger says to which partition
    each attempt was sent. In an audit, it says only where an attempt was acknowledged.
    """
    rows = _claims(ledger).unionByName(_copies(promise(lines, LOG), corrupted=False))
    if owned is not None:
        rows = rows.unionByName(owned)
    # Rows are partitioned by sequence, not by attempt: then grouping and counting resends need no further shuffle.
    matched = (
        (rows if together else rows.repartition(*SEQUENCE_KEY))
        .groupBy(*BY_KEY)
        .agg(
            F.max(F.when(F.col("outcome").isNotNull(), F.struct(*CLAIMED))).alias("claim"),
            F.max("corrupted").alias("corrupted"),
            F.sort_array(F.collect_list("copy")).alias("copies"),
            F.min("numbered").alias("lowest"),
            F.max("numbered").alias("highest"),
        )
        .select(*KEY, "claim.*", "corrupted", "copies", _astray().alias("astray"))
    )
    views = {name: F.lit(False) for name in map(column, TRANSACTIONAL)}  # `committed.with_flags` sets their values
    rows = _resent_or_given_up(_first_copies(matched, routed), resends)
    ordered = _ordered(rows) if boundaries is None else _ordered_with(boundaries, rows, together)
    return promise(ordered.withColumns(views), ATTEMPTS)


def believable(log: DataFrame) -> DataFrame:
    """Returns the rows of LOG whose header can be believed, if the header names this run and the arm to which the topic
    belongs.

    Leaves out markers, which are the verifier's own records (see `is_marker`). Each returned row is a copy of the
    attempt that its header names.
    """
    return log.where(is_sound() & ~F.col("foreign") & ~is_marker())


def corrupted(log: DataFrame) -> DataFrame:
    """Returns the rows of LOG whose checksum is wrong, or whose bytes do not have the form of a record of the load.

    Nothing in these records can be believed, not even which attempt they hold.
    """
    return promise(log, LOG).where(~is_sound())


def foreign(log: DataFrame, scenario: Scenario) -> DataFrame:
    """Returns the rows of LOG whose checksum is right, but whose header names another run, or another arm than the arm
    to which the topic belongs. The column `misrouted` says whether the header names another arm of this run."""
    lines = promise(log, LOG).where(is_sound() & F.col("foreign"))
    is_planned = F.array_contains(literal([arm.ordinal for arm in scenario.arms], "array<int>"), F.col("header_arm"))
    return lines.withColumn("misrouted", (F.col("header_run") == scenario.run_token) & is_planned)


def attribute(
    ledger: DataFrame,
    log: DataFrame,
    arms: Sequence[str],
    few: bool,
    together: bool = False,
    foreign_writers_have_owners: bool = True,
) -> DataFrame:
    """Returns each corrupted record in LOG with its owner: the attempt that was acknowledged at the offset of the
    record.

    The columns of the owner are null if no attempt was acknowledged at this offset. If an earlier record at this offset
    was truncated, two attempts may have been acknowledged there. The owner is then the attempt that settled last. The
    column `foreign_writer` says whether another client wrote the record (see `is_of_foreign_writer`).

    `arms`: the arms with corrupted records. `few`: whether these records fit in memory; if so, the ledger is not
    shuffled. `together`: whether all rows are in one Spark partition already; if so, nothing is shuffled.
    `foreign_writers_have_owners`: whether a record that another client wrote can have an owner. In an audit it cannot:
    nothing shows that it was a record of the ledger.
    """
    location_columns = ["arm", "partition", "offset"]
    lines = corrupted(log).where(F.col("arm").isin(*arms))
    damaged = lines.select(*location_columns, is_of_foreign_writer().alias("foreign_writer"))
    acked = ledger.where((F.col("outcome") == Outcome.ACKED) & F.col("offset").isNotNull() & F.col("arm").isin(*arms))
    if not together:
        acked = acked.join(F.broadcast(damaged) if few else damaged, location_columns, "left_semi")
    latest = acked.groupBy(*location_columns).agg(
        F.max(F.struct("settled_at", *KEY[1:])).alias("owner"),
    )
    joined = damaged.join(latest.hint("shuffle_hash") if together else latest, location_columns, "left")
    owner = F.col("owner") if foreign_writers_have_owners else F.when(~F.col("foreign_writer"), F.col("owner"))
    return joined.select(*location_columns, "foreign_writer", *[owner[name].alias(name) for name in KEY[1:]])


def owned_copies(attributed: DataFrame) -> DataFrame:
    """Returns the corrupted records that have an owner, as copies of this owner. `attributed`: the result of
    `attribute`."""
    return _copies(attributed.where(F.col("sequence").isNotNull()), corrupted=True)


def unowned(attributed: DataFrame) -> DataFrame:
    """Returns the columns arm, partition, offset and foreign writer of each corrupted record without an owner.
    `attributed`: the result of `attribute`."""
    return attributed.where(F.col("sequence").isNull()).select("arm", "partition", "offset", "foreign_writer")


def _claims(ledger: DataFrame) -> DataFrame:
    """Returns the rows of LEDGER (claims), with the same columns as the result of `_copies`. So the two results can be
    united.

    The columns about a copy in the log are null or false in these rows.
    """
    acked = F.when(F.col("outcome") == Outcome.ACKED, location("offset", "partition"))
    no_copy = {"copy": F.lit(None).cast("bigint"), "corrupted": F.lit(False)}
    no_copy["numbered"] = F.lit(None).cast("bigint")
    return promise(ledger, LEDGER).withColumns({"acked": acked} | no_copy).select(*KEY, *CLAIMED, *no_copy)


def _copies(lines: DataFrame, corrupted: bool) -> DataFrame:
    """Returns `lines` (copies), with the same columns as the result of `_claims`. So the two results can be united.

    The columns that only the ledger can fill are null in these rows.
    """
    numbered = F.lit(None).cast("bigint") if corrupted else F.col("partition_sequence")
    copy = {"copy": location("offset", "partition"), "corrupted": F.lit(corrupted), "numbered": numbered}
    no_claim = [F.lit(None).cast(kind).alias(name) for name, kind in CLAIMED.items()]
    return lines.select(*KEY, *[value.alias(name) for name, value in copy.items()], *no_claim)


def _astray() -> Column:
    """Returns a column that is true for an attempt that refutes `spark_jobs.matching.screen`. There are two such cases:

    * A record of the attempt in the log has another partition sequence than the ledger says.
    * The attempt owns a corrupted record, although the screen had proven the ledger's row of the attempt.
    """
    claimed = F.col("claim").isNotNull()
    expected = F.col("claim.partition_sequence")
    differs = claimed & ((F.col("lowest") != expected) | (F.col("highest") != expected))
    return F.coalesce(differs, F.lit(False)) | (~claimed & F.col("corrupted"))


def _resent_or_given_up(frame: DataFrame, resends: bool) -> DataFrame:
    """Adds the columns `resent` and `given_up` of ATTEMPTS. `resends`: whether the application sent any sequence more
    than once.

    FAILED attempts do not count as present in the log, because their copies are phantoms.
    """
    is_open = F.col("outcome").isin(Outcome.INDETERMINATE, Outcome.FAILED) & (F.size("copies") == 0)
    error = F.coalesce("error", F.lit(""))
    if not resends:
        return frame.withColumns({"resent": F.lit(False), "given_up": F.when(is_open, error)})
    present = F.col("outcome").isNotNull() & (F.col("outcome") != Outcome.FAILED) & (F.size("copies") > 0)
    present_attempts = F.count_if(present).over(Window.partitionBy(*SEQUENCE_KEY))
    return frame.withColumns(
        {
            "resent": F.coalesce(present, F.lit(False)) & (present_attempts >= 2),
            "given_up": F.when(is_open & (present_attempts == 0), error),
        }
    )


def _first_copies(frame: DataFrame, routed: bool) -> DataFrame:
    """Adds the column `misrouted` of ATTEMPTS, and `first`: the location of the attempt's first copy in the partition
    to which it was sent; null if there is none. `routed`: as in `attempts`. If it is false, every partition counts.

    FAILED attempts are not misrouted, because their copies are phantoms.
    """
    if not routed:
        return frame.withColumns({"misrouted": F.lit(False), "first": F.get("copies", F.lit(0))})
    own = F.filter("copies", lambda copy: copy % LOCATION_UNIT == F.col("partition"))
    with_own = frame.withColumn("own", own)
    strays = (F.col("outcome") != Outcome.FAILED) & (F.size("own") < F.size("copies"))
    return with_own.withColumns({"misrouted": F.coalesce(strays, F.lit(False)), "first": F.get("own", F.lit(0))})


def _ordered(frame: DataFrame) -> DataFrame:
    """Adds the columns `reordered` (a reported attempt was overtaken) and `late` (an INDETERMINATE attempt was
    overtaken).

    An attempt was overtaken if its first copy (see `_first_copies`) stands behind the first copy of a reported attempt
    with a higher partition sequence, of the same producer and session, in the same partition.
    """
    first = F.col("first")
    by_partition = Window.partitionBy("arm", "producer", "session", first % LOCATION_UNIT).orderBy(first)
    before = by_partition.rowsBetween(Window.unboundedPreceding, -1)
    overtaker = F.max(F.when(reported() & first.isNotNull(), F.col("partition_sequence"))).over(before)
    behind = F.coalesce(first.isNotNull() & (F.col("partition_sequence") < overtaker), F.lit(False))
    return frame.withColumn("behind", behind).withColumns(
        {
            "reordered": F.col("behind") & reported(),
            "late": F.col("behind") & F.coalesce(F.col("outcome") == Outcome.INDETERMINATE, F.lit(False)),
        }
    )


def _ordered_with(boundaries: DataFrame, frame: DataFrame, together: bool) -> DataFrame:
    """Like `_ordered`, but a reported attempt of `boundaries` can also have overtaken an attempt of `frame`.

    `boundaries`: BOUNDARIES, i.e. the last records of the ranges that the screen has proven. The result has only the
    rows of `frame`. `together`: whether `frame` is in one Spark partition. If so, the result is in one Spark partition,
    too.
    """
    known = {
        "first": location("offset", "partition"),
        "outcome": F.lit(Outcome.SENT.value),
        "is_boundary": F.lit(True),
    }
    names = ["arm", "producer", "session", "partition_sequence", *known]
    rows = frame.withColumn("is_boundary", F.lit(False)).unionByName(
        boundaries.withColumns(known).select(*names), allowMissingColumns=True
    )
    ordered = _ordered(rows.coalesce(1) if together else rows)
    return ordered.where(~F.col("is_boundary")).drop("is_boundary")
