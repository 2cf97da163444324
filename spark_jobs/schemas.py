"""The schemas: the columns of every table the jobs read, hand on and write, and how to hold frames to
them."""

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
from delivery_verifier.store.books import COUNTS
from delivery_verifier.store.ledger import read_schema

_S, _I, _L, _B, _T = StringType(), IntegerType(), LongType(), BooleanType(), TimestampType()


def _table(required: Mapping[str, DataType], nullable: Mapping[str, DataType] | None = None) -> StructType:
    fields = [StructField(name, kind, nullable=False) for name, kind in required.items()]
    return StructType(fields + [StructField(name, kind) for name, kind in (nullable or {}).items()])


LEDGER = StructType(
    [
        StructField("arm", _S, False),
        StructField("producer", _I, False),
        StructField("session", _I, False),
        StructField("sequence", _L, False),
        StructField("attempt", _I, False),
        StructField("partition", _I, False),
        StructField("partition_sequence", _L, False),
        StructField("outcome", _S, False),
        StructField("offset", _L),
        StructField("transaction", _S),
        StructField("transaction_outcome", _S),
        StructField("sent_at", _T, False),
        StructField("settled_at", _T),
        StructField("error", _S),
        StructField("made_by", _S, False),
    ]
)
"""ledger/: one row per attempt; the same as `delivery_verifier.store.ledger.SCHEMA`, which a test holds equal."""

RAW = _table({"arm": _S, "partition": _I, "offset": _L, "timestamp": _T}, {"value": BinaryType()})
"""What a topic gave: one row per record, before parsing. `value` is null for a record without one."""

HEADER: dict[str, DataType] = {
    "header_run": _S,
    "header_arm": _I,
    "producer": _I,
    "session": _I,
    "sequence": _L,
    "attempt": _I,
    "partition_sequence": _L,
}

LOG = StructType(
    [
        *_table({"arm": _S, "partition": _I, "offset": _L, "view": _S, "timestamp": _T}, HEADER),
        *_table({"parsed": _B, "crc_ok": _B, "foreign": _B}),
    ]
)
"""log/: one row per record found in a view. The header is null where `parsed` is false."""

LOCATION_UNIT = 4096
"""A *location* is offset * LOCATION_UNIT + partition: it sorts by offset. Partitions stop at 1000."""

ATTEMPTS = StructType(
    [
        StructField("arm", _S, False),
        StructField("producer", _I),
        StructField("session", _I),
        StructField("sequence", _L),
        StructField("attempt", _I),
        StructField("partition", _I),
        StructField("partition_sequence", _L),
        StructField("outcome", _S),
        StructField("acked", _L),
        StructField("sent_at", _T),
        StructField("settled_at", _T),
        StructField("error", _S),
        StructField("copies", ArrayType(_L), False),
        StructField("corrupted", _B, False),
        StructField("resent", _B, False),
        StructField("reordered", _B, False),
        StructField("late", _B, False),
        StructField("astray", _B, False),
        StructField("aborted_visible", _B, False),
        StructField("torn", _B, False),
    ]
)
"""One row per attempt key of ledger or log: `acked` and the ascending `copies` are locations; `outcome` is null where
the ledger knows no such attempt; `late` is an INDETERMINATE that would be REORDERED had it been reported; `astray` is
what the screen cannot have been right about: a line with another partition sequence than its claim, or an owned
corrupted line whose claim is missing; `aborted_visible` and `torn` are what `spark_jobs.committed` found."""

SUBJECTS = StructType(
    [
        *ATTEMPTS,
        StructField("line", _B, False),
        StructField("origin", _S),
        StructField("kind", _S),
        StructField("also", ArrayType(_S), False),
    ]
)
"""Whatever can be a case: each attempt of the ledger, and each `line` of the log that nobody made (one copy; `origin`
says what it claims to be). `kind` is null where nothing is wrong."""

SIGNATURES = _table(
    {
        "arm": _S,
        "role": _S,
        "producer": _I,
        "session": _I,
        "partition": _I,
        "once": _B,
        "late": _B,
        "astray": _B,
        "records": _L,
    },
    {"first_partition": _I, "outcome": _S, "kind": _S, "also": ArrayType(_S)},
)
"""Subjects counted by all that the books tell apart. role: attempt, line, extra (a copy beyond the first)."""

STRETCHES = _table({"arm": _S}, {"producer": _I, "session": _I, "stretch": _L})
BUCKETS = _table(
    {"arm": _S, "partition": _I} | dict.fromkeys(("claims", "copies", "acked", "sent", "low", "high"), _L),
    {"producer": _I, "session": _I, "stretch": _L}
    | {
        f"{whose}_{name}_{end}": _L
        for whose in ("claimed", "found")
        for name in ("shift", "place", "partition_sequence")
        for end in ("min", "max")
    },
)
"""Claims and believable lines per stretch of sequences and partition: see `spark_jobs.screen`. low, high: sums of the
halves of fingerprints, claims less lines; place: offset; shift: offset less partition sequence."""

PRODUCERS = _table({"arm": _S, "producer": _I, "session": _I, "partition": _I} | dict.fromkeys(COUNTS, _L))
PARTITIONS = _table(
    {"arm": _S, "topic": _S, "partition": _I}
    | dict.fromkeys(("start", "end", "data_records", "control_records", "tail_records"), _L)
)
LAWS = _table({"law": _S, "arm": _S, "partition": _I, "left_name": _S, "left": _L, "right_name": _S, "right": _L})
CASES = _table({"arm": _S, "kind": _S, "cases": _L, "written": _L, "cut": _B})
EXPOSURE = _table({"arm": _S, "injection": _L, "reported": _L, "outstanding": _L})
GAPS = _table({"arm": _S, "partition": _I}, {"longest_gap_s": DoubleType(), "gap_start_us": _L})
LOAD = _table(
    {"arm": _S, "at_us": _L, "sent": _L, "reported": _L, "indeterminate": _L, "failed": _L},
    {"latency_ms_p50": DoubleType(), "latency_ms_p99": DoubleType()},
)
LATENCY = _table(
    {"arm": _S, "inside": _B, "latency_ms_from": DoubleType(), "latency_ms_until": DoubleType(), "records": _L}
)
"""Reported records by their latency, in log-spaced buckets [from, until) that hold any. inside: under way between the
bite of an injection and its recovery."""
ANOMALIES = _table(
    {"arm": _S, "kind": _S, "also": ArrayType(_S)},
    {
        "producer": _I,
        "session": _I,
        "sequence": _L,
        "attempt": _I,
        "partition": _I,
        "partition_sequence": _L,
        "outcome": _S,
        "acked_offset": _L,
        "offsets": ArrayType(_L),
        "sent_at": _T,
        "settled_at": _T,
        "error": _S,
        "detail": _S,
    },
)


def promise(frame: DataFrame, schema: StructType) -> DataFrame:
    """`frame` with exactly the columns of `schema`, in its order and types. AnalysisException if one lacks.

    Only what differs is cast: each function of a column costs several calls into the JVM.
    """
    found = [(field.name, field.dataType) for field in frame.schema]
    wanted = [(field.name, field.dataType) for field in schema]
    if found == wanted:
        return frame
    return frame.select(
        *[name if (name, kind) in found else F.col(name).cast(kind).alias(name) for name, kind in wanted]
    )


def arrow(schema: StructType) -> pa.Schema:
    """The same schema for tables that are small enough to be written without Spark."""
    return to_arrow_schema(schema, timezone="UTC")


def check_log(file: Path) -> None:
    """Raises BadInput where `file` differs from the log's columns: Spark would read what is missing as null."""
    found, wanted = read_schema(file), arrow(LOG)
    # Spark writes its timestamps in a form of its own, which Arrow reads in another unit.
    kinds = {name: found.field(name).type for name in found.names}
    wrong = [
        f"{field.name}: {kinds.get(field.name, 'missing')}, expected {field.type}"
        for field in wanted
        if kinds.get(field.name) != field.type
        and not (pa.types.is_timestamp(field.type) and field.name in kinds and pa.types.is_timestamp(kinds[field.name]))
    ] + [f"{name}: unknown column" for name in kinds if name not in wanted.names]
    if wrong:
        raise BadInput(f"{file} is no log: " + "; ".join(wrong))
