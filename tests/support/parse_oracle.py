"""The oracle of `spark_jobs.reading.parse`: a slower parse that cuts texts out of texts, and proves every form by a
regular expression. It has no second way for the records of the usual form."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.record import (
    CRC_WIDTH,
    FIELDS,
    HEADER_BYTES,
    HEADER_PATTERN,
    MIN_PAYLOAD_BYTES,
    TRACES,
)
from delivery_verifier.model.scenario import Scenario
from spark_jobs.reading.parse import NUMBERS
from spark_jobs.schemas import LOG, RAW, promise


def parse(raw: DataFrame, scenario: Scenario) -> DataFrame:
    """Returns LOG from RAW, as `spark_jobs.reading.parse.parse` must. All rows get the view `raw`."""
    ordinal = F.create_map(*[F.lit(part) for arm in scenario.arms for part in (arm.name, arm.ordinal)])
    sliced = promise(raw, RAW).withColumns(
        {"parsed": _is_record(F.col("value")), "header": F.substring("value", 1, HEADER_BYTES).cast("string")}
    )
    names = {name: "header_arm" if name == "arm" else name for name in NUMBERS}
    named = sliced.withColumns(
        {
            "view": F.lit("raw"),
            "header_run": _field("run"),
            "crc_ok": F.col("parsed") & _crc_agrees(F.col("value")),
        }
        | {names[name]: _field(name).try_cast(data_type) for name, data_type in NUMBERS.items()}
    )
    other = (F.col("header_run") != scenario.run_token) | ~F.col("header_arm").eqNullSafe(ordinal[F.col("arm")])
    known = F.col("value").cast("string").rlike(f"{TRACES}|{scenario.run_token}")
    foreign = F.when(F.col("parsed"), F.coalesce(other, F.lit(False))).otherwise(~F.coalesce(known, F.lit(False)))
    return promise(named.withColumn("foreign", foreign), LOG)


def _is_record(value: Column) -> Column:
    header = F.substring(value, 1, HEADER_BYTES).cast("string").rlike("^" + HEADER_PATTERN)
    checksum = F.substring(value, -CRC_WIDTH, CRC_WIDTH).cast("string").rlike(f"^[0-9]{{{CRC_WIDTH}}}")
    return F.coalesce((F.length(value) >= MIN_PAYLOAD_BYTES) & header & checksum, F.lit(False))


def _field(name: str) -> Column:
    return F.when(F.col("parsed"), F.substring("header", FIELDS[name].start + 1, FIELDS[name].width))


def _crc_agrees(value: Column) -> Column:
    body = value.substr(F.lit(1), F.length(value) - CRC_WIDTH)
    written = F.substring(value, -CRC_WIDTH, CRC_WIDTH).cast("string").try_cast("bigint")
    return F.coalesce(written == F.crc32(body), F.lit(False))
