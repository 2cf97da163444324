"""The census: ledger and log counted without any join, so that the laws have an independent side."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.attempts import reported
from spark_jobs.parse import is_marker, is_sound
from spark_jobs.schemas import LEDGER, LOG, promise


def count_ledger(ledger: DataFrame) -> DataFrame:
    """LEDGER, counted per (arm, producer, session, partition).

    attempted, reported, in_transactions: rows. attempt: the highest attempt number. from_us, until_us: first and last
    moment, in µs since the epoch.
    """
    return (
        promise(ledger, LEDGER)
        .groupBy("arm", "producer", "session", "partition")
        .agg(
            F.count(F.lit(1)).alias("attempted"),
            F.count_if(reported()).alias("reported"),
            F.max("attempt").alias("attempt"),
            F.count("transaction").alias("in_transactions"),
            F.unix_micros(F.min("sent_at")).alias("from_us"),
            F.unix_micros(F.greatest(F.max("settled_at"), F.max("sent_at"))).alias("until_us"),
        )
    )


def count_log(log: DataFrame) -> DataFrame:
    """LOG, counted per (arm, partition): all records, and of them own markers, corrupted ones and foreign ones."""
    return (
        promise(log, LOG)
        .groupBy("arm", "partition")
        .agg(
            F.count(F.lit(1)).alias("records"),
            F.count_if(is_marker()).alias("markers"),
            F.count_if(~is_sound()).alias("corrupted"),
            F.count_if(is_sound() & F.col("foreign")).alias("foreign"),
        )
    )
