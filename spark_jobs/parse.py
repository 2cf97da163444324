"""Parsing: from the bytes of a record's value to its header, by fixed positions and without a UDF.

The *header* is the beginning of the value: it names run, arm, producer and attempt (`delivery_verifier.model.record`).
It has nothing to do with Kafka's record headers. Parsing never fails: bytes without a header give a row that says so.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.record import (
    CRC_WIDTH,
    FIELDS,
    HEADER_BYTES,
    HEADER_PATTERN,
    MARKER_PRODUCER,
    MIN_PAYLOAD_BYTES,
    traces,
)
from delivery_verifier.model.scenario import Scenario
from spark_jobs.schemas import LOG, RAW, promise

NUMBERS = {
    "arm": "int",
    "producer": "int",
    "session": "int",
    "sequence": "bigint",
    "attempt": "int",
    "partition_sequence": "bigint",
}
"""The numeric fields of the header, with their types in LOG."""


def parse(raw: DataFrame, scenario: Scenario, view: Column | None = None) -> DataFrame:
    """Returns LOG from RAW. `view` gives the value of the column `view`; if it is None, all rows get the view `raw`.

    A header names its run by a token and its arm by a number. The scenario says which token and numbers these are. The
    result agrees with `delivery_verifier.model.record.parse` on every byte string. The column `foreign` marks a parsed
    record whose header names another run, or another arm than the arm to which the topic belongs. It also marks bytes
    of a stranger (see `is_of_stranger`).
    """
    ordinal = F.create_map(*[F.lit(part) for arm in scenario.arms for part in (arm.name, arm.ordinal)])
    sliced = promise(raw, RAW).withColumns(
        {"parsed": _is_record(F.col("value")), "header": F.substring("value", 1, HEADER_BYTES).cast("string")}
    )
    names = {name: "header_arm" if name == "arm" else name for name in NUMBERS}
    named = sliced.withColumns(
        {
            "view": F.lit("raw") if view is None else view,
            "header_run": _field("run"),
            "crc_ok": F.col("parsed") & _crc_agrees(F.col("value")),
        }
        | {names[name]: _field(name).try_cast(kind) for name, kind in NUMBERS.items()}
    )
    other = (F.col("header_run") != scenario.run_token) | ~F.col("header_arm").eqNullSafe(ordinal[F.col("arm")])
    known = F.col("value").cast("string").rlike(traces(scenario.run_token))
    foreign = F.when(F.col("parsed"), F.coalesce(other, F.lit(False))).otherwise(~F.coalesce(known, F.lit(False)))
    return promise(named.withColumn("foreign", foreign), LOG)


def is_marker() -> Column:
    """True on a row of LOG that is a marker of this run.

    Markers are records that the verifier itself writes behind the load, to prove where the snapshot of a partition
    ends.
    """
    is_of_verifier: Column = F.col("producer") == MARKER_PRODUCER
    return F.col("crc_ok") & ~F.col("foreign") & is_of_verifier


def is_sound() -> Column:
    """True on a row of LOG whose header can be believed: the record is parsed, and its checksum agrees."""
    return F.col("parsed") & F.col("crc_ok")


def is_of_stranger() -> Column:
    """True on a row of LOG whose bytes have no trace of a record of this run (see `record.is_of_stranger`).

    A log of format version 1 has no such row.
    """
    return ~F.col("parsed") & F.col("foreign")


def _is_record(value: Column) -> Column:
    """True if the bytes have the form of a record: a header, and a checksum of digits. The checksum may be wrong."""
    header = F.substring(value, 1, HEADER_BYTES).cast("string").rlike("^" + HEADER_PATTERN)
    checksum = F.substring(value, -CRC_WIDTH, CRC_WIDTH).cast("string").rlike(f"^[0-9]{{{CRC_WIDTH}}}")
    return F.coalesce((F.length(value) >= MIN_PAYLOAD_BYTES) & header & checksum, F.lit(False))


def _field(name: str) -> Column:
    """The text of a header field; null if the bytes are no record."""
    return F.when(F.col("parsed"), F.substring("header", FIELDS[name].start + 1, FIELDS[name].width))


def _crc_agrees(value: Column) -> Column:
    """True if the checksum at the end of the bytes is the CRC-32 of all bytes before it."""
    body = value.substr(F.lit(1), F.length(value) - CRC_WIDTH)
    written = F.substring(value, -CRC_WIDTH, CRC_WIDTH).cast("string").try_cast("bigint")
    return F.coalesce(written == F.crc32(body), F.lit(False))
