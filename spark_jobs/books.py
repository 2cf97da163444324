"""The books: subjects counted per arm, producer, session and partition, with a row for all that was planned.

Spark counts the subjects by signature, which is a small table however many records there are; what the books say is
then arithmetic over signatures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import REPORTED, Anomaly, Outcome, also_column, column
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.store.books import COUNTS
from spark_jobs.anomalies import OWN
from spark_jobs.schemas import LOCATION_UNIT, PRODUCERS, SIGNATURES, SUBJECTS, arrow, promise

SESSIONS = 1
"""Sessions of a producer: nothing restarts a producer yet."""
NOBODY = -1
"""Producer and session of the lines that no planned producer owns."""

Place = tuple[str, int, int, int]
"""(arm, producer, session, partition)."""


def planned(scenario: Scenario) -> list[Place]:
    """Every place the books must have a row for: partitions * (producers * sessions + 1) of each arm."""
    return [
        (arm.name, producer, session, partition)
        for arm in scenario.arms
        for producer, session in [*_producers(arm), (NOBODY, NOBODY)]
        for partition in range(scenario.load.partitions)
    ]


def signatures(subjects: DataFrame, scenario: Scenario) -> DataFrame:
    """SUBJECTS -> SIGNATURES: how many subjects there are of each sort, and copies beyond the first."""
    promised = promise(subjects, SUBJECTS)
    partition_of = (F.get("copies", F.lit(0)) % LOCATION_UNIT).cast("int")
    counted = promised.withColumns(
        {
            "role": F.when(F.col("line"), "line").otherwise("attempt"),
            "first_partition": partition_of,
            "once": F.size("copies") == 1,
            "astray": F.coalesce("astray", F.lit(False)),
        }
        | _owner(scenario)
    )
    extra = (
        promised.where(~F.col("line") & (F.size("copies") > 1))
        .withColumn("copy", F.explode(F.slice("copies", 2, F.size("copies"))))
        .withColumns(
            {
                "role": F.lit("extra"),
                "partition": (F.col("copy") % LOCATION_UNIT).cast("int"),
                "first_partition": F.lit(None).cast("int"),
                "once": F.lit(False),
                "late": F.lit(False),
                "astray": F.lit(False),
                "outcome": F.lit(None).cast("string"),
                "kind": F.lit(None).cast("string"),
                "also": F.array().cast("array<string>"),
            }
        )
    )
    names = [name for name in SIGNATURES.names if name != "records"]
    rows = counted.select(*names).unionByName(extra.select(*names))
    return promise(rows.groupBy(*names).agg(F.count(F.lit(1)).alias("records")), SIGNATURES)


def producers(counted: Iterable[dict[str, Any]], census: pa.Table, scenario: Scenario) -> pa.Table:
    """Rows of SIGNATURES and the ledger's census -> PRODUCERS.

    `attempted` and `reported` come from the census, everything else from the subjects: so the two sides of the laws
    were counted by different queries.
    """
    books: defaultdict[Place, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for place in planned(scenario):
        books[place]["attempted"] += 0
    for row in census.to_pylist():
        for name in ("attempted", "reported"):
            books[_place(row, row["partition"])][name] += row[name]
    for row in counted:
        for place, name in _entries(row):
            books[place][name] += row["records"]
    return pa.Table.from_pylist([_row(place, books[place]) for place in sorted(books)], schema=arrow(PRODUCERS))


def _entries(row: dict[str, Any]) -> Iterator[tuple[Place, str]]:
    """What one signature adds to: the place and the column."""
    if row["role"] == "extra":
        yield from ((_place(row, row["partition"]), name) for name in ("extra_copies", "log_records"))
        return
    names = list(_of_line(row) if row["role"] == "line" else _of_attempt(row))
    if row["kind"] is not None:
        names += [column(Anomaly(row["kind"]))] if row["kind"] != Anomaly.LOST else []
        names += [also_column(Anomaly(kind)) for kind in row["also"]]
    yield from ((_place(row, row["partition"]), name) for name in names)
    if row["role"] == "attempt" and row["first_partition"] is not None:
        yield from ((_place(row, row["first_partition"]), name) for name in ("first_copies", "log_records"))


def _of_line(row: dict[str, Any]) -> Iterator[str]:
    yield "log_records"
    yield "unattributed" if row["kind"] == Anomaly.CORRUPTED else "phantoms"


def _of_attempt(row: dict[str, Any]) -> Iterator[str]:
    yield Outcome(row["outcome"]).value.lower()
    present = row["first_partition"] is not None
    if row["outcome"] in REPORTED:
        yield "found" if present else "lost"
    if row["outcome"] == Outcome.INDETERMINATE and not present:
        yield "resolved_absent"
    if row["outcome"] == Outcome.INDETERMINATE and row["once"]:
        yield "resolved_present"
        if row["late"]:
            yield "resolved_late"


def _row(place: Place, counts: dict[str, int]) -> dict[str, object]:
    names = ("arm", "producer", "session", "partition")
    return dict(zip(names, place, strict=True)) | {name: counts.get(name, 0) for name in COUNTS}


def _place(row: dict[str, Any], partition: int) -> Place:
    return row["arm"], row["producer"], row["session"], partition


def _producers(arm: Arm) -> list[tuple[int, int]]:
    return [(producer, session) for producer in range(arm.producers) for session in range(SESSIONS)]


def _owner(scenario: Scenario) -> dict[str, Column]:
    """Lines of a producer that was not planned, or of none, are nobody's."""
    limit = F.create_map(*[F.lit(part) for arm in scenario.arms for part in (arm.name, arm.producers)])
    is_planned = (F.col("origin") == OWN) & (F.col("producer") < limit[F.col("arm")]) & (F.col("session") < SESSIONS)
    mine = ~F.col("line") | F.col("outcome").isNotNull() | F.coalesce(is_planned, F.lit(False))
    return {name: F.when(mine, F.col(name)).otherwise(F.lit(NOBODY)) for name in ("producer", "session")}
