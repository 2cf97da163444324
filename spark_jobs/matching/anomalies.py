"""Anomalies: one detector per kind of anomaly.

* A *line* is one record in the log.
* A *subject* is, in this package, not an arm, but whatever can be a case of an anomaly: an attempt of the ledger, or a
  line that no attempt accounts for.
* A *copy* of an attempt is a line that holds the attempt.

A subject to which several kinds of anomaly apply is a case of only one of them: the first in order of precedence (see
`Anomaly`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import SECONDARY, TRANSACTIONAL, Anomaly, column, subset
from delivery_verifier.model.outcomes import Outcome
from spark_jobs.matching.attempts import location, reported
from spark_jobs.schemas import ANOMALIES, ATTEMPTS, LOCATION_UNIT, SUBJECTS, promise

BOUND = 10_000
"""The greatest number of cases that are written to anomalies/ for each arm and kind of anomaly."""
_FLAGS_OF_ATTEMPTS = subset(
    "flags of ATTEMPTS that can be true of an attempt, but not of a line; kinds that follow from copies have no flag",
    ("resent", "reordered", "late", *map(column, TRANSACTIONAL)),
)
_FLAGS_OF_BOTH = subset(
    "flags that can be true of an attempt, and of a line that no attempt accounts for", ("corrupted", "misrouted")
)
OWN = "this run and arm"
"""A value of the column `origin` in SUBJECTS: no attempt accounts for the record in the log, but the header of the
record names this run and the arm of the topic."""
FOREIGN_WRITER = "a foreign writer"
"""A value of the column `origin` in SUBJECTS: another client wrote the record in the log. The record is no case of any
anomaly, because it says nothing about Kafka. It causes a doubt in the judgement."""


def _owns_copies() -> Column:
    """Returns a column that is true for an attempt that is in the ledger and is not FAILED. Such an attempt owns its
    copies (records in the log).

    If any other attempt has copies, the copies count as records that nobody sent.
    """
    return F.coalesce(F.col("outcome") != Outcome.FAILED, F.lit(False))


def _displaced() -> Column:
    """Returns a column that is true for an attempt that has copies in the log, but no copy at its acknowledged
    location."""
    return F.col("acked").isNotNull() & (F.size("copies") > 0) & ~F.array_contains("copies", F.col("acked"))


DETECTORS: dict[Anomaly, Callable[[], Column]] = subset(
    "the kinds of effects are detected in `spark_jobs.effects.effect_attempts`",
    {
        Anomaly.CORRUPTED: lambda: F.col("corrupted"),
        Anomaly.MISROUTED: lambda: F.col("misrouted"),
        Anomaly.PHANTOM: lambda: F.col("line") & ~F.col("corrupted") & ~F.col("origin").eqNullSafe(FOREIGN_WRITER),
        Anomaly.LOST: lambda: ~F.col("line") & reported() & (F.size("copies") == 0),
        Anomaly.DUPLICATED: lambda: ~F.col("line") & (F.size("copies") > 1),
        Anomaly.RESENT: lambda: F.col("resent"),
        Anomaly.MISPLACED: lambda: ~F.col("line") & _displaced(),
        Anomaly.REORDERED: lambda: F.col("reordered"),
        Anomaly.ABORTED_VISIBLE: lambda: ~F.col("line") & F.col("aborted_visible"),
        Anomaly.TORN: lambda: ~F.col("line") & F.col("torn"),
    },
)
"""Maps each kind of anomaly, in order of precedence, to a function. The function returns a column that says whether the
kind applies to a subject. The column ignores all other kinds."""


def subjects(attempts: DataFrame, aliens: DataFrame | None, unattributed: DataFrame | None) -> DataFrame:
    """Returns SUBJECTS: the attempts of the ledger, and the records in the log that no attempt accounts for.

    `attempts`: ATTEMPTS. `aliens`: the result of `attempts.foreign`; None if there are none.
    `unattributed`: arm, partition, offset and foreign writer of each corrupted record at whose offset no attempt was
    acknowledged; None if there are none. If an attempt FAILED, or the ledger does not know it, each of its copies is a
    subject of its own.
    """
    rows = [promise(attempts, ATTEMPTS).withColumn("part", F.explode(_parts())).withColumns(_columns_of_part())]
    if aliens is not None:
        origin = F.format_string("run %s, arm %d", "header_run", "header_arm")
        rows.append(_ownerless(aliens.withColumn("origin", origin), F.lit(False)))
    if unattributed is not None:
        origin = F.when(F.col("foreign_writer"), FOREIGN_WRITER).otherwise("illegible")
        unowned = unattributed.withColumns({"origin": origin, "misrouted": F.lit(False)})
        rows.append(_ownerless(unowned, ~F.col("foreign_writer")))
    names = [name for name in SUBJECTS.names if name not in ("kind", "also")]
    union = reduce(DataFrame.unionByName, [frame.select(*names) for frame in rows])
    return promise(union.withColumn("kind", _kind()).withColumn("also", _also()), SUBJECTS)


def cases(subjects: DataFrame, bound: int = BOUND) -> DataFrame:
    """Returns ANOMALIES from SUBJECTS: at most `bound` cases of each arm and kind, with their evidence.

    If there are more than `bound` cases, takes those that come first when sorted by partition, sequence, attempt number
    and the offset of the first copy.
    """
    first = F.get("copies", F.lit(0))
    order = [F.col("partition"), F.col("sequence").asc_nulls_last(), F.col("attempt"), first]
    rank = F.row_number().over(Window.partitionBy("arm", "kind").orderBy(*order))
    ranked = promise(subjects, SUBJECTS).where(F.col("kind").isNotNull()).withColumn("rank", rank)
    evidence = {"acked_offset": F.floor(F.col("acked") / LOCATION_UNIT), "detail": _detail()}
    return promise(ranked.where(F.col("rank") <= bound).withColumns(evidence | of_copies()), ANOMALIES)


def of_copies() -> dict[str, Column]:
    """Maps the columns of ANOMALIES that are about the copies of a record to their values. `copies` has the locations.

    The columns to which `spark_jobs.matching.append_times` gives values are null.
    """
    return {
        "offsets": F.transform("copies", lambda copy: F.floor(copy / LOCATION_UNIT)),
        "partitions": F.transform("copies", lambda copy: copy % LOCATION_UNIT),
    } | dict.fromkeys(("overwritten", "appended_after", "appended_before"), F.lit(None))


def _parts() -> Column:
    """Turns one row of ATTEMPTS into an array of subjects: the attempt, and each copy that the attempt does not own.

    The attempt is left out if the ledger does not name it.
    """
    none = F.array().cast("array<bigint>")
    own, stray = (
        F.when(_owns_copies(), F.col("copies")).otherwise(none),
        F.when(_owns_copies(), none).otherwise(F.col("copies")),
    )
    attempt = F.struct(F.lit(False).alias("line"), own.alias("copies"))
    attempts = F.when(F.col("outcome").isNotNull(), F.array(attempt)).otherwise(F.slice(F.array(attempt), 1, 0))
    return F.concat(
        attempts, F.transform(stray, lambda copy: F.struct(F.lit(True).alias("line"), F.array(copy).alias("copies")))
    )


def _columns_of_part() -> dict[str, Column]:
    """Maps the name of a column of SUBJECTS to an expression for its value, as `DataFrame.withColumns` needs the
    mapping.

    A part (see `_parts`) is an attempt or a line, i.e. one record in the log. The mapping has only columns that can
    have one value in the row of a line, and another value in the row of the attempt that the line names.
    """
    line, copies = F.col("part.line"), F.col("part.copies")
    flags = {name: F.col(name) & ~line for name in (*_FLAGS_OF_BOTH, *_FLAGS_OF_ATTEMPTS)}
    return flags | {
        "line": line,
        "copies": copies,
        "partition": F.when(line, (F.get(copies, F.lit(0)) % LOCATION_UNIT).cast("int")).otherwise(F.col("partition")),
        "acked": F.when(~line, F.col("acked")),
        "origin": F.when(line, OWN),
    }


def _ownerless(lines: DataFrame, corrupted: Column) -> DataFrame:
    """Returns a row of SUBJECTS for each of `lines`, i.e. records in the log that no attempt accounts for.

    The columns `kind` and `also` are still missing. `lines` has at least the columns arm, partition, offset,
    origin and misrouted. `corrupted` is true on a corrupted line.
    """
    known = {
        "copies": F.array(location("offset", "partition")),
        "corrupted": corrupted,
        "line": F.lit(True),
    } | {name: F.lit(False) for name in (*_FLAGS_OF_ATTEMPTS, "astray")}
    present = {*lines.columns, *known}
    return lines.withColumns(
        known | {field.name: F.lit(None).cast(field.dataType) for field in ATTEMPTS if field.name not in present}
    )


def _kind() -> Column:
    """Returns the kind of anomaly of a subject: of the kinds that apply, the first in order of precedence. Null if no
    kind applies."""
    first = None
    for kind, applies in DETECTORS.items():
        first = F.when(applies(), kind.value) if first is None else first.when(applies(), kind.value)
    assert first is not None
    return first


def _also() -> Column:
    """Returns the kinds in SECONDARY that apply to a subject, but have a lower precedence than the subject's own
    kind."""
    hidden = [
        F.when(DETECTORS[kind]() & (F.col("kind") != kind.value), kind.value) for kind in SECONDARY if kind in DETECTORS
    ]
    none = F.array().cast("array<string>")
    return F.when(F.col("kind").isNull(), none).otherwise(F.array_compact(F.array(*hidden)))


def _detail() -> Column:
    """Returns a case in words, e.g. `ACKED at 0:17; found at 0:18`. Each pair of numbers is partition:offset."""
    locations = F.array_join(
        F.transform("copies", lambda copy: F.concat_ws(":", copy % LOCATION_UNIT, F.floor(copy / LOCATION_UNIT))),
        ", ",
    )
    ack = F.concat_ws(":", F.col("acked") % LOCATION_UNIT, F.floor(F.col("acked") / LOCATION_UNIT))
    presence = F.when(F.size("copies") == 0, "in no offset of the log").otherwise(
        F.concat(F.lit("found at "), locations)
    )
    sent_here = F.when(F.col("misrouted"), "sent to the topic of another arm").otherwise("never attempted")
    claim = F.when(F.col("line") & F.col("outcome").isNull(), F.concat(sent_here, F.lit("; claims "), "origin"))
    claim = claim.when(F.col("acked").isNotNull(), F.concat(F.lit("ACKED at "), ack)).otherwise(F.col("outcome"))
    route = F.when(F.col("misrouted") & ~F.col("line"), F.concat(F.lit("sent to partition "), "partition"))
    visibility = F.when(F.col("aborted_visible"), "in the committed view, though its transaction was aborted")
    visibility = visibility.when(F.col("torn"), "not in the committed view, where its transaction is")
    return F.concat_ws("; ", claim, presence, route, visibility)
