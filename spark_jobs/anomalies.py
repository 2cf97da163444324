"""Anomalies: the detectors, one per kind, and the first that applies to each subject."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import SECONDARY, TRANSACTIONAL, Anomaly, Outcome, column, subset
from spark_jobs.attempts import location, reported
from spark_jobs.schemas import ANOMALIES, ATTEMPTS, LOCATION_UNIT, SUBJECTS, promise

BOUND = 10_000
"""Most cases written per arm and kind."""
_OF_ATTEMPTS = subset(
    "flags of ATTEMPTS that can be true of an attempt, and never of a line: what follows from copies alone has no flag",
    ("resent", "reordered", "late", *map(column, TRANSACTIONAL)),
)
OWN = "this run and arm"
"""`origin` of a line whose header is of this run and arm, though nobody made it."""


def _copied() -> Column:
    """True on an attempt whose copies are its own. Others are lines nobody made."""
    return F.coalesce(F.col("outcome") != Outcome.FAILED, F.lit(False))


def _displaced() -> Column:
    return F.col("acked").isNotNull() & (F.size("copies") > 0) & ~F.array_contains("copies", F.col("acked"))


DETECTORS: dict[Anomaly, Callable[[], Column]] = {
    Anomaly.CORRUPTED: lambda: F.col("corrupted"),
    Anomaly.PHANTOM: lambda: F.col("line") & ~F.col("corrupted"),
    Anomaly.LOST: lambda: ~F.col("line") & reported() & (F.size("copies") == 0),
    Anomaly.DUPLICATED: lambda: ~F.col("line") & (F.size("copies") > 1),
    Anomaly.RESENT: lambda: F.col("resent"),
    Anomaly.MISPLACED: lambda: ~F.col("line") & _displaced(),
    Anomaly.REORDERED: lambda: F.col("reordered"),
    Anomaly.ABORTED_VISIBLE: lambda: ~F.col("line") & F.col("aborted_visible"),
    Anomaly.TORN: lambda: ~F.col("line") & F.col("torn"),
}
"""Whether a subject is a case of a kind, regardless of precedence."""


def subjects(attempts: DataFrame, aliens: DataFrame | None, unattributed: DataFrame | None) -> DataFrame:
    """ATTEMPTS, foreign lines of LOG -> SUBJECTS: every attempt of the ledger and every line nobody made, each with its
    kind.

    A line nobody made is a subject of its own: each copy of an attempt that is unknown or FAILED, each foreign record,
    each corrupted line without an owner (`unattributed`: arm, partition, offset).
    """
    rows = [promise(attempts, ATTEMPTS).withColumn("one", F.explode(_parts())).withColumns(_of_part())]
    if aliens is not None:
        origin = F.format_string("run %s, arm %d", "header_run", "header_arm")
        rows.append(_nobodys(aliens.withColumn("origin", origin), corrupted=False))
    if unattributed is not None:
        rows.append(_nobodys(unattributed.withColumn("origin", F.lit("illegible")), corrupted=True))
    wanted = [name for name in SUBJECTS.names if name not in ("kind", "also")]
    every = reduce(DataFrame.unionByName, [frame.select(*wanted) for frame in rows])
    return promise(every.withColumn("kind", _kind()).withColumn("also", _also()), SUBJECTS)


def cases(subjects: DataFrame, bound: int = BOUND) -> DataFrame:
    """SUBJECTS -> ANOMALIES: the cases with their evidence, at most `bound` of a kind, lowest first."""
    first = F.get("copies", F.lit(0))
    order = [F.col("partition"), F.col("sequence").asc_nulls_last(), F.col("attempt"), first]
    rank = F.row_number().over(Window.partitionBy("arm", "kind").orderBy(*order))
    kept = promise(subjects, SUBJECTS).where(F.col("kind").isNotNull()).withColumn("rank", rank)
    evidence = {
        "offsets": F.transform("copies", lambda copy: F.floor(copy / LOCATION_UNIT)),
        "acked_offset": F.floor(F.col("acked") / LOCATION_UNIT),
        "detail": _detail(),
    }
    return promise(kept.where(F.col("rank") <= bound).withColumns(evidence), ANOMALIES)


def _parts() -> Column:
    """What one attempt comes to: itself, where the ledger names it, and a line for each copy that is not its own."""
    none = F.array().cast("array<bigint>")
    own, stray = F.when(_copied(), F.col("copies")).otherwise(none), F.when(_copied(), none).otherwise(F.col("copies"))
    claim = F.struct(F.lit(False).alias("line"), own.alias("copies"))
    claims = F.when(F.col("outcome").isNotNull(), F.array(claim)).otherwise(F.slice(F.array(claim), 1, 0))
    return F.concat(
        claims, F.transform(stray, lambda copy: F.struct(F.lit(True).alias("line"), F.array(copy).alias("copies")))
    )


def _of_part() -> dict[str, Column]:
    """Of a line only its place is certain, and who its header says that it is."""
    line, copies = F.col("one.line"), F.col("one.copies")
    spared = {name: F.col(name) & ~line for name in ("corrupted", *_OF_ATTEMPTS)}
    return spared | {
        "line": line,
        "copies": copies,
        "partition": F.when(line, (F.get(copies, F.lit(0)) % LOCATION_UNIT).cast("int")).otherwise(F.col("partition")),
        "acked": F.when(~line, F.col("acked")),
        "origin": F.when(line, OWN),
    }


def _nobodys(lines: DataFrame, corrupted: bool) -> DataFrame:
    """Subjects of one copy each, from lines (arm, partition, offset, origin) that no ledger of this run can know."""
    known = {
        "copies": F.array(location("offset", "partition")),
        "corrupted": F.lit(corrupted),
        "line": F.lit(True),
    } | {name: F.lit(False) for name in (*_OF_ATTEMPTS, "astray")}
    given = {*lines.columns, *known}
    return lines.withColumns(
        known | {one.name: F.lit(None).cast(one.dataType) for one in ATTEMPTS if one.name not in given}
    )


def _kind() -> Column:
    first = None
    for kind, applies in DETECTORS.items():
        test = F.coalesce(applies(), F.lit(False))
        first = F.when(test, kind.value) if first is None else first.when(test, kind.value)
    assert first is not None
    return first


def _also() -> Column:
    hidden = [
        F.when(F.coalesce(DETECTORS[kind](), F.lit(False)) & (F.col("kind") != kind.value), kind.value)
        for kind in SECONDARY
    ]
    none = F.array().cast("array<string>")
    return F.when(F.col("kind").isNull(), none).otherwise(F.array_compact(F.array(*hidden)))


def _detail() -> Column:
    places = F.array_join(
        F.transform("copies", lambda copy: F.concat_ws(":", copy % LOCATION_UNIT, F.floor(copy / LOCATION_UNIT))),
        ", ",
    )
    ack = F.concat_ws(":", F.col("acked") % LOCATION_UNIT, F.floor(F.col("acked") / LOCATION_UNIT))
    found = F.when(F.size("copies") == 0, "in no offset of the log").otherwise(F.concat(F.lit("found at "), places))
    told = F.when(F.col("line") & F.col("outcome").isNull(), F.concat(F.lit("never attempted; claims "), "origin"))
    told = told.when(F.col("acked").isNotNull(), F.concat(F.lit("ACKED at "), ack)).otherwise(F.col("outcome"))
    shown = F.when(F.col("aborted_visible"), "in the committed view, though its transaction was aborted")
    shown = shown.when(F.col("torn"), "not in the committed view, where its transaction is")
    return F.concat_ws("; ", told, found, shown)
