"""Parsing: reads the header from the bytes of a record's value, at fixed positions and without a UDF.

The *header* is the beginning of the value: it names run, arm, producer and attempt (`delivery_verifier.model.record`).
This header has nothing to do with Kafka's record headers. Parsing never fails: if the bytes have no header, the column
`parsed` of the row is false.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.record import (
    CRC_WIDTH,
    FIELDS,
    HEADER_BYTES,
    HEADER_PATTERN,
    MAGIC,
    MARKER_PRODUCER,
    MIN_PAYLOAD_BYTES,
    TRACES,
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
DIGITS = "0123456789"


def parse(raw: DataFrame, scenario: Scenario, view: Column | None = None) -> DataFrame:
    """Returns LOG from RAW. `view` is an expression for the value of the column `view`. If `view` is None, all rows get
    the value `raw`.

    The header of a record names the run by its token, and the arm by its number. `scenario` has this token and these
    numbers. The result agrees with `delivery_verifier.model.record.parse` on every byte string. The column `foreign` is
    true in two cases:

    * The record is parsed, and its header names another run, or another arm than the arm to which the topic belongs.
    * The bytes are those of a foreign writer (see `is_of_foreign_writer`).

    Nearly all records have the usual form (see `is_usual`), which cheap comparisons of bytes prove. All other records
    are parsed with regular expressions.
    """
    proven = promise(raw, RAW).withColumns(sliced_columns()).withColumn("usual", is_usual(scenario))
    decided = proven.withColumn("parsed", F.col("usual") | _is_record())
    named = decided.withColumns(
        {
            "view": F.lit("raw") if view is None else view,
            "header_run": F.when(F.col("parsed"), _slice("run")),
            "crc_ok": F.col("parsed") & F.col("checksum_agrees"),
        }
        | {
            "header_arm" if name == "arm" else name: F.when(F.col("parsed"), F.col(f"number_{name}"))
            for name in NUMBERS
        }
    )
    return promise(named.withColumn("foreign", _is_foreign(scenario)), LOG)


def sliced_columns() -> dict[str, Column]:
    """Returns columns that are computed from RAW, by name: each number of the header, and whether the checksum agrees.

    If the value is no record, the columns are meaningless. The column of a number is null if the number's bytes cannot
    be cast.
    """
    numbers = {f"number_{name}": _slice(name).try_cast(data_type) for name, data_type in NUMBERS.items()}
    return numbers | {"checksum_agrees": _checksum_agrees()}


def is_usual(scenario: Scenario) -> Column:
    """Returns a column that is true for a sound record of this run and of the topic's arm, in the form that nearly all
    records have.

    In this form, session and attempt are 0, and three other numbers begin with the digit 0: producer, sequence and
    partition sequence. If the column is false, the value may still be a record, in another form.

    The condition proves that a number consists of digits: its first and last byte are digits, and the cast to a number
    succeeds. The cast alone proves less, because it ignores blanks, control characters and a sign at the ends of a
    text.
    """
    beginnings = F.create_map(
        *[
            F.lit(part)
            for arm in scenario.arms
            for part in (arm.name, f"{MAGIC.decode()} {scenario.run_token} {arm.ordinal:04d} 0".encode())
        ]
    )
    beginning = F.substring("value", 1, FIELDS["producer"].start + 1) == beginnings[F.col("arm")]
    checksum = F.col("checksum_agrees") & _text(-CRC_WIDTH, 1).isin(*DIGITS) & _text(-1, 1).isin(*DIGITS)
    between = _ends("producer", " 0000 0") & _ends("sequence", " 0000 0") & _ends("partition_sequence", " ")
    numbers = [F.col(f"number_{name}").isNotNull() for name in ("producer", "sequence", "partition_sequence")]
    legible = reduce(Column.__and__, numbers)
    return F.coalesce((F.length("value") >= MIN_PAYLOAD_BYTES) & beginning & between & legible & checksum, F.lit(False))


def is_marker() -> Column:
    """Returns a column that is true for a row of LOG that is a marker of this run.

    Markers are records that the verifier itself writes behind the load, to prove where the snapshot of a partition
    ends.
    """
    is_of_verifier: Column = F.col("producer") == MARKER_PRODUCER
    return F.col("crc_ok") & ~F.col("foreign") & is_of_verifier


def is_sound() -> Column:
    """Returns a column that is true for a row of LOG whose header can be believed: the record is parsed, and its
    checksum agrees."""
    return F.col("parsed") & F.col("crc_ok")


def is_of_foreign_writer() -> Column:
    """Returns a column that is true for a row of LOG whose bytes have no trace of a record of this run (see
    `record.is_of_foreign_writer`)."""
    return ~F.col("parsed") & F.col("foreign")


def _ends(name: str, follows: str) -> Column:
    """Returns a column that is true if the last byte of the header field `name` is a digit, and the bytes behind the
    field are `follows`."""
    last = FIELDS[name].start + FIELDS[name].width
    return _text(last, 1 + len(follows)).isin(*[digit + follows for digit in DIGITS])


def _is_record() -> Column:
    """Returns a column that is true if the value has the form of a record: a header, and a checksum of digits. The
    checksum may be wrong."""
    header = _text(1, HEADER_BYTES).rlike("^" + HEADER_PATTERN)
    checksum = _text(-CRC_WIDTH, CRC_WIDTH).rlike(f"^[0-9]{{{CRC_WIDTH}}}")
    return F.coalesce((F.length("value") >= MIN_PAYLOAD_BYTES) & header & checksum, F.lit(False))


def _is_foreign(scenario: Scenario) -> Column:
    """Returns the column `foreign` of LOG: true if the header names another run or another arm, or if a foreign writer
    wrote the bytes."""
    ordinal = F.create_map(*[F.lit(part) for arm in scenario.arms for part in (arm.name, arm.ordinal)])
    other = (F.col("header_run") != scenario.run_token) | ~F.col("header_arm").eqNullSafe(ordinal[F.col("arm")])
    text = F.col("value").cast("string")
    # Spark writes a regular expression into the code of a query. With the token, the code would differ from run to run,
    # and each run would compile it anew (see `spark_jobs.literals`).
    known = F.contains(text, F.lit(scenario.run_token)) | text.rlike(TRACES)
    return (
        F.when(F.col("usual"), F.lit(False))
        .when(F.col("parsed"), F.coalesce(other, F.lit(False)))
        .otherwise(~F.coalesce(known, F.lit(False)))
    )


def _checksum_agrees() -> Column:
    """Returns a column that is true if the checksum at the end of the value is the CRC-32 of all bytes before the
    checksum."""
    body = F.col("value").substr(F.lit(1), F.length("value") - CRC_WIDTH)
    written = _text(-CRC_WIDTH, CRC_WIDTH).try_cast("bigint")
    return F.coalesce(written == F.crc32(body), F.lit(False))


def _slice(name: str) -> Column:
    """Returns, as text, the bytes at the fixed position of the header field `name` in a Kafka record's value. If the
    value does not have this project's format, the text has no meaning."""
    return _text(FIELDS[name].start + 1, FIELDS[name].width)


def _text(position: int, width: int) -> Column:
    """Returns `width` bytes of the value as text, beginning at `position`. 1 is the position of the first byte, and -1
    of the last byte.

    The bytes are sliced first, and the slice then becomes text. The other order would be slower, because Spark finds a
    position in a text only by counting its characters from the beginning.
    """
    return F.substring("value", position, width).cast("string")
