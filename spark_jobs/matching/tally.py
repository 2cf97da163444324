"""The counts: small tables of exact counts, by which a run is judged.

The tables of counts have subjects (see `spark_jobs.matching.anomalies`): attempts, and records in the log that no
attempt accounts for. Spark counts the subjects by *summary row*. A summary row is one combination of values in the
columns of SUMMARY_ROWS, without the column `records`. The table of summary rows is small, even if there are many
records.

Each count in the counts is a sum over summary rows. The counts have a row for each planned combination of arm,
producer, session and partition, so that a missing row is noticed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import Anomaly, also_column, column
from delivery_verifier.model.outcomes import REPORTED, Outcome
from delivery_verifier.model.scenario import Arm, Scenario
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.run_directory.tally import COUNTS, FOREIGN_WRITERS
from spark_jobs.matching.anomalies import OWN
from spark_jobs.schemas import CASES, LOCATION_UNIT, PARTITIONS, PRODUCERS, SUBJECTS, SUMMARY_ROWS, arrow, promise

SESSIONS = 1
"""The number of sessions of a producer. A producer numbers its attempts within a session. If it is killed and started
again, it continues these numbers and so stays in its session."""
NOBODY = -1
"""The value of the columns producer and session in rows that count records of no planned producer."""

TallyKey = tuple[str, int, int, int]
"""The key of one row of the counts: (arm, producer, session, partition)."""


def planned_keys(scenario: Scenario) -> list[TallyKey]:
    """Returns the keys of all rows that the table PRODUCERS must have.

    For each arm, there are partitions * (producers * sessions + 1) keys. The `+ 1` stands for NOBODY: each partition
    has one row for records that no planned producer sent.
    """
    return [
        (arm.name, producer, session, partition)
        for arm in scenario.arms
        for producer, session in [*_producers(arm), (NOBODY, NOBODY)]
        for partition in range(scenario.load.partitions)
    ]


def summary_rows(subjects: DataFrame, scenario: Scenario) -> DataFrame:
    """Returns SUMMARY_ROWS from SUBJECTS: how many subjects have each combination of values (summary row).

    Copies of an attempt beyond the first copy are counted in rows of their own (`role` is `extra`). The scenario says
    which producers were planned.
    """
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
                "given_up": F.lit(None).cast("string"),
            }
        )
    )
    names = [name for name in SUMMARY_ROWS.names if name != "records"]
    rows = counted.select(*names).unionByName(extra.select(*names))
    return promise(rows.groupBy(*names).agg(F.count(F.lit(1)).alias("records")), SUMMARY_ROWS)


def producers(counted: Iterable[dict[str, Any]], census: pa.Table, scenario: Scenario) -> pa.Table:
    """Returns PRODUCERS. `counted`: rows of SUMMARY_ROWS. `census`: `Census.ledger`.

    The columns `attempted` and `reported` come from the census. All other columns are sums over `counted`. For matched
    rows, `counted` and the census come from different queries. For proven rows, both come from the query of
    `spark_jobs.matching.buckets`.
    """
    tally: defaultdict[TallyKey, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for key in planned_keys(scenario):
        tally[key]["attempted"] += 0
    for row in census.to_pylist():
        for name in ("attempted", "reported"):
            tally[_tally_key(row, row["partition"])][name] += row[name]
    for row in counted:
        for key, name in _entries(row):
            tally[key][name] += row["records"]
    return pa.Table.from_pylist([_row(key, tally[key]) for key in sorted(tally)], schema=arrow(PRODUCERS))


def foreign_writers(counted: Iterable[dict[str, Any]], scenario: Scenario) -> dict[str, int]:
    """Returns the counts `foreign_writers/<arm>` for the manifest: the number of records in each arm's topic that
    another client wrote.

    `counted`: rows of SUMMARY_ROWS. The records of other clients are the rows with the role `line` and no kind of
    anomaly. Every other row with the role `line` has a kind.
    """
    counts = dict.fromkeys((FOREIGN_WRITERS + arm.name for arm in scenario.arms), 0)
    for row in counted:
        if row["role"] == "line" and row["kind"] is None:
            counts[FOREIGN_WRITERS + row["arm"]] += row["records"]
    return counts


def partitions(offsets: Offsets, log_census: pa.Table, read: Mapping[str, int]) -> pa.Table:
    """Returns PARTITIONS: the bounds of the snapshot, and the counts of the records in the log.

    `offsets`: the snapshot, i.e. the range of each partition that is judged. `log_census`: `Census.log`. `read`: the
    counts of read_topic.json. The column `control_records` counts the verifier's own markers (see `is_marker`) and the
    control records of transactions. No consumer shows control records of transactions. So the step settle counted them
    in the batches of the partition's leader.
    """
    census = {(row["arm"], row["partition"]): row for row in log_census.to_pylist()}
    rows = []
    for part in offsets.partitions:
        counted = census.get((part.arm, part.partition), {"records": 0, "markers": 0})
        rows.append(
            {
                "arm": part.arm,
                "topic": part.topic,
                "partition": part.partition,
                "start": part.start,
                "end": part.end,
                "data_records": counted["records"] - counted["markers"],
                "control_records": counted["markers"] + part.control_records,
                "tail_records": read.get(f"tail/{part.arm}/{part.partition}", -1),
            }
        )
    return pa.Table.from_pylist(rows, schema=arrow(PARTITIONS))


def cases(producers: pa.Table, written: Mapping[tuple[str, str], int], bound: int) -> pa.Table:
    """Returns CASES: per arm and kind of anomaly, how many cases the tables of counts have and how many rows anomalies/
    has.

    `producers`: PRODUCERS. `written`: the number of rows of anomalies/ per (arm, kind). `bound`: the maximum number of
    cases that are written per arm and kind.
    """
    totals: Counter[tuple[str, Anomaly]] = Counter()
    for row in producers.to_pylist():
        for kind in Anomaly:
            totals[row["arm"], kind] += row[column(kind)]
    rows = [
        {
            "arm": arm,
            "kind": kind.value,
            "cases": totals[arm, kind],
            "written": written.get((arm, kind.value), 0),
            "cut": totals[arm, kind] > bound,
        }
        for arm in sorted({arm for arm, _ in totals})
        for kind in Anomaly
    ]
    return pa.Table.from_pylist(rows, schema=arrow(CASES))


def _entries(row: dict[str, Any]) -> Iterator[tuple[TallyKey, str]]:
    """Yields (key, column) for each count in the counts that one row of SUMMARY_ROWS increases. `row`: the row of
    SUMMARY_ROWS. The key names a row of the counts."""
    if row["role"] == "extra":
        yield from ((_tally_key(row, row["partition"]), name) for name in ("extra_copies", "log_records"))
        return
    names = list(_line_columns(row) if row["role"] == "line" else _attempt_columns(row))
    if row["kind"] is not None:
        names += [column(Anomaly(row["kind"]))] if row["kind"] != Anomaly.LOST else []
        names += [also_column(Anomaly(kind)) for kind in row["also"]]
    yield from ((_tally_key(row, row["partition"]), name) for name in names)
    if row["role"] == "attempt" and row["first_partition"] is not None:
        yield from ((_tally_key(row, row["first_partition"]), name) for name in ("first_copies", "log_records"))


def _line_columns(row: dict[str, Any]) -> Iterator[str]:
    """Yields the columns of the counts that count a record in the log that no attempt accounts for. `row`: the row of
    SUMMARY_ROWS with this record."""
    yield "log_records"
    yield "unattributed" if row["kind"] in (None, Anomaly.CORRUPTED) else "phantoms"


def _attempt_columns(row: dict[str, Any]) -> Iterator[str]:
    """Yields the columns of the counts that count an attempt by its outcome and its presence in the log. `row`: the row
    of SUMMARY_ROWS with this attempt."""
    yield Outcome(row["outcome"]).value.lower()
    present = row["first_partition"] is not None
    if row["outcome"] in REPORTED and (present or row["kind"] == Anomaly.LOST):
        yield "found" if present else "lost"  # else it must be missing (see `unreadable.missing`)
    if row["outcome"] == Outcome.INDETERMINATE and not present:
        yield "resolved_absent"
    if row["outcome"] == Outcome.INDETERMINATE and row["once"]:
        yield "resolved_present"
        if row["late"]:
            yield "resolved_late"


def _row(key: TallyKey, counts: dict[str, int]) -> dict[str, object]:
    names = ("arm", "producer", "session", "partition")
    return dict(zip(names, key, strict=True)) | {name: counts.get(name, 0) for name in COUNTS}


def _tally_key(row: dict[str, Any], partition: int) -> TallyKey:
    return row["arm"], row["producer"], row["session"], partition


def _producers(arm: Arm) -> list[tuple[int, int]]:
    return [(producer, session) for producer in range(arm.producers) for session in range(SESSIONS)]


def _owner(scenario: Scenario) -> dict[str, Column]:
    """Returns the columns producer and session of a subject. If the subject is a record in the log whose header names
    no planned producer, both columns are NOBODY."""
    limit = F.create_map(*[F.lit(part) for arm in scenario.arms for part in (arm.name, arm.producers)])
    is_planned = (F.col("origin") == OWN) & (F.col("producer") < limit[F.col("arm")]) & (F.col("session") < SESSIONS)
    is_owned = ~F.col("line") | F.col("outcome").isNotNull() | F.coalesce(is_planned, F.lit(False))
    return {name: F.when(is_owned, F.col(name)).otherwise(F.lit(NOBODY)) for name in ("producer", "session")}
