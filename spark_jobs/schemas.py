"""The schemas: the columns of every frame that the jobs read, pass on and write. `promise` makes a frame conform to a
schema.

The schemas of the run directory's tables are derived from `delivery_verifier.run_directory.tables`, which says what
each column means. All other schemas are internal to the jobs, and are declared here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from delivery_verifier.model.inputs import BadInput
from delivery_verifier.run_directory import effect_tables, tables
from delivery_verifier.run_directory.ledger import column_types
from delivery_verifier.run_directory.table import ColumnType, Table

_STRING, _INT, _LONG, _BOOLEAN, _TIME = StringType(), IntegerType(), LongType(), BooleanType(), TimestampType()
_TYPES: dict[ColumnType, DataType] = {
    "string": _STRING,
    "int32": _INT,
    "int64": _LONG,
    "double": DoubleType(),
    "boolean": _BOOLEAN,
    "timestamp": _TIME,
    "list<string>": ArrayType(_STRING),
    "list<int64>": ArrayType(_LONG),
}


def _declared(table: Table) -> StructType:
    return StructType([StructField(item.name, _TYPES[item.type], item.nullable) for item in table.columns])


def _internal(required: Mapping[str, DataType], nullable: Mapping[str, DataType]) -> StructType:
    """Returns the schema of a frame that only the jobs use: the required columns, then the nullable columns."""
    fields = [StructField(name, data_type, nullable=False) for name, data_type in required.items()]
    return StructType(fields + [StructField(name, data_type) for name, data_type in nullable.items()])


LEDGER = _declared(tables.LEDGER)
LOG = _declared(tables.LOG)
ANOMALIES = _declared(tables.ANOMALIES)
PRODUCERS = _declared(tables.PRODUCERS)
PARTITIONS = _declared(tables.PARTITIONS)
INVARIANTS = _declared(tables.INVARIANTS)
CASES = _declared(tables.CASES)
EXPOSURE = _declared(tables.EXPOSURE)
GAPS = _declared(tables.GAPS)
LOAD = _declared(tables.LOAD)
LATENCY = _declared(tables.LATENCY)
EFFECTS = _declared(effect_tables.EFFECTS)
EFFECT_TALLY = _declared(effect_tables.EFFECT_TALLY)

RAW = _internal(
    {"arm": _STRING, "partition": _INT, "offset": _LONG, "timestamp": _TIME},
    {"value": BinaryType()},
)
"""The records of the topics before parsing, one row per record. `value` is null for a record without a value."""

LOCATION_UNIT = 4096
"""A *location* is the number offset * LOCATION_UNIT + partition. Locations sort by offset. Partition numbers are below
1000, so no two records of a topic have the same location."""

ATTEMPTS = StructType(
    [
        StructField("arm", _STRING, False),
        StructField("producer", _INT),
        StructField("session", _INT),
        StructField("sequence", _LONG),
        StructField("attempt", _INT),
        StructField("partition", _INT),
        StructField("partition_sequence", _LONG),
        StructField("outcome", _STRING),
        StructField("acked", _LONG),
        StructField("sent_at", _TIME),
        StructField("settled_at", _TIME),
        StructField("error", _STRING),
        StructField("copies", ArrayType(_LONG), False),
        StructField("corrupted", _BOOLEAN, False),
        StructField("misrouted", _BOOLEAN, False),
        StructField("resent", _BOOLEAN, False),
        StructField("reordered", _BOOLEAN, False),
        StructField("late", _BOOLEAN, False),
        StructField("astray", _BOOLEAN, False),
        StructField("aborted_visible", _BOOLEAN, False),
        StructField("torn", _BOOLEAN, False),
        StructField("given_up", _STRING),
    ]
)
"""One row per attempt that the ledger or the log names.

* `acked`: the acknowledged location. `copies`: the locations of the records that hold the attempt, ascending.
* `outcome`: null if the ledger does not know the attempt.
* `corrupted`: a record at one of `copies` is corrupted. `misrouted`: one of `copies` is in another partition than the
  ledger says, and the attempt did not fail. `resent`: another attempt of the sequence is in the log, too.
* `reordered`: the attempt was reported, but a reported attempt that was sent later stands before it in the log.
* `late`: the attempt is INDETERMINATE, and would be REORDERED if it were reported.
* `aborted_visible`: a read_committed consumer sees the attempt, though its transaction was aborted. `torn`: no such
  consumer sees the attempt, though its transaction was committed.
* `astray`: the attempt refutes `spark_jobs.matching.screen`. There are two such cases. A record of the attempt has
  another partition sequence than the ledger says. Or the attempt owns a corrupted record, but the ledger's row of the
  attempt is not among the rows that are matched.
* `given_up`: null unless the attempt was given up (see `run_directory.given_up`). Then its error, or an empty text
  without one.
"""

SUBJECTS = StructType(
    [
        *ATTEMPTS,
        StructField("line", _BOOLEAN, False),
        StructField("origin", _STRING),
        StructField("kind", _STRING),
        StructField("also", ArrayType(_STRING), False),
    ]
)
"""Everything that can be a case of an anomaly: each attempt of the ledger, and each line that no attempt accounts for.

* `line`: true in the row of a line (one record in the log) that no attempt accounts for. `copies` then has one
  location: that of the line. `misrouted` is then true if its header names another arm of this run.
* `origin`: which run and arm the header of the line names, `illegible` if the line is corrupted, or `a foreign_writer`
  if another client wrote the line.
* `kind`: the kind of anomaly. Null: nothing is wrong.
* `also`: the kinds in SECONDARY that also apply to the subject, but have a lower precedence than `kind`.
"""

SUMMARY_ROWS = _internal(
    {
        "arm": _STRING,
        "role": _STRING,
        "producer": _INT,
        "session": _INT,
        "partition": _INT,
        "once": _BOOLEAN,
        "late": _BOOLEAN,
        "astray": _BOOLEAN,
        "records": _LONG,
    },
    {"first_partition": _INT, "outcome": _STRING, "kind": _STRING, "also": ArrayType(_STRING), "given_up": _STRING},
)
"""The number of subjects (`records`) per summary row. A summary row is one combination of values in all other columns
of this schema.

`role` is `attempt`, `line`, or `extra` for a copy of an attempt beyond the first. `once`: whether it has exactly one
copy. `first_partition`: that of the first copy; null without one, or for `extra`. The rest is as in SUBJECTS.
"""

CHUNKS = _internal({"arm": _STRING}, {"producer": _INT, "session": _INT, "chunk": _LONG})
"""One row per chunk: a numbered range of consecutive sequences of a producer (see `spark_jobs.matching.screen`)."""

_OF_BOUNDARIES = {"producer": _INT, "session": _INT, "partition": _INT, "partition_sequence": _LONG, "offset": _LONG}
BOUNDARIES = _internal({"arm": _STRING}, _OF_BOUNDARIES)
"""One row per boundary: the last copy in a bucket that is passed (see `spark_jobs.matching.order`)."""

_COUNTS_OF_BUCKETS = (
    *("attempted", "reported", "in_transactions", "acked", "sent", "failed", "indeterminate"),
    *("copies", "records", "markers", "corrupted", "foreign", "low", "high"),
)
_SUMS_OF_BUCKETS = ("logged_low", "logged_high", "sequences_low", "sequences_high")
_SPANS_OF_BUCKETS = [
    f"{side}_{name}_{end}"
    for side, names in (
        ("claimed", ("shift", "position", "partition_sequence", "sequence")),
        ("logged", ("shift", "position", "partition_sequence")),
    )
    for name in names
    for end in ("min", "max")
]
BUCKETS = _internal(
    {"arm": _STRING, "partition": _INT} | dict.fromkeys(_COUNTS_OF_BUCKETS, _LONG),
    {"producer": _INT, "session": _INT, "chunk": _LONG, "attempt": _INT}
    | dict.fromkeys(("from_us", "until_us", *_SUMS_OF_BUCKETS, *_SPANS_OF_BUCKETS), _LONG),
)
"""Counts per chunk and partition. In this table, a claim is a row of the ledger, and a line is a record in the log.
`spark_jobs.matching.screen` defines chunks and fingerprints.

* `attempted` to `indeterminate`, `attempt`, `from_us`, `until_us`: counts of claims. `records` to `foreign`: counts of
  lines. `spark_jobs.matching.census` defines all these counts.
* `copies`: the number of believable lines. Only rows with claims or copies have a producer, a session and a chunk.
* `low`: the sum of the lower halves of the claims' fingerprints, minus this sum for the copies' fingerprints. `high`:
  the same difference for the upper halves. `logged_low`, `logged_high`: these sums for the copies alone.
* `sequences_low`, `sequences_high`: the sums of the halves of the hashes of the claims' sequences.

Every other column holds the least or the greatest of some values. A name that begins with `claimed` is about the
claims, and a name that begins with `logged` is about the copies. For example, `claimed_shift_min` is the least `shift`
of the claims. The `position` of a copy is its offset. The `position` of a claim is its acknowledged offset. The `shift`
is `position` minus the partition sequence.
"""


def promise(frame: DataFrame, schema: StructType) -> DataFrame:
    """Returns `frame` with exactly the columns of `schema`, in the order and with the types of `schema`.

    Raises AnalysisException if a column is missing. Casts a column only if its type differs from the type in `schema`,
    because each cast costs several calls into the JVM."""
    present = [(field.name, field.dataType) for field in frame.schema]
    promised = [(field.name, field.dataType) for field in schema]
    if present == promised:
        return frame
    return frame.select(
        *[
            name if (name, data_type) in present else F.col(name).cast(data_type).alias(name)
            for name, data_type in promised
        ]
    )


def arrow(schema: StructType) -> pa.Schema:
    """Returns `schema` as an Arrow schema, for tables that are small enough to be made without Spark."""
    return to_arrow_schema(schema, timezone="UTC")


def check_log(file: Path) -> None:
    """Checks that the Parquet `file` has exactly the columns of LOG, in any order. Raises BadInput if the columns
    differ.

    Without this check, Spark would read a missing column as null.
    """
    types, expected = column_types(file), arrow(LOG)
    problems = [
        f"{field.name}: {types.get(field.name, 'missing')}, expected {field.type}"
        for field in expected
        if not _agrees(types.get(field.name), field.type)
    ]
    problems += [f"{name}: unknown column" for name in types if name not in expected.names]
    if problems:
        raise BadInput(f"{file} is no log: " + "; ".join(problems))


def _agrees(data_type: pa.DataType | None, expected: pa.DataType) -> bool:
    """Returns whether a column has the expected type. The units of timestamps are ignored: Arrow reads the timestamps
    that Spark wrote in another unit than `expected` has."""
    if data_type is not None and pa.types.is_timestamp(data_type) and pa.types.is_timestamp(expected):
        return True
    return bool(data_type == expected)
