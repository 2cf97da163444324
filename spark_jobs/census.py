"""The census: counts of ledger and log without any join.

The laws (see `spark_jobs.laws`) compare the books, which come from the join of ledger and log, with these counts.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.outcomes import Outcome
from spark_jobs.attempts import reported
from spark_jobs.parse import is_marker, is_sound
from spark_jobs.schemas import LEDGER, LOG, promise


def count_ledger(ledger: DataFrame) -> DataFrame:
    """Returns the counts of LEDGER per (arm, producer, session, partition).

    * `attempted`: all rows. `reported`: the rows with outcome ACKED or SENT. `in_transactions`: the rows in a
      transaction.
    * `acked`, `sent`, `failed`, `indeterminate`: the rows that the client reported with this outcome. A row that is
      INDETERMINATE because no report came is not among them.
    * `attempt`: the highest attempt number. It is above 0 if the application sent anything again.
    * `from_us`: the first sending. `until_us`: the last sending or report, whichever is later. Both times are in µs
      since the epoch.
    """
    return (
        promise(ledger, LEDGER)
        .groupBy("arm", "producer", "session", "partition")
        .agg(
            F.count(F.lit(1)).alias("attempted"),
            F.count_if(reported()).alias("reported"),
            F.max("attempt").alias("attempt"),
            F.count("transaction").alias("in_transactions"),
            *[F.count_if(_reported_as(outcome)).alias(outcome.value.lower()) for outcome in Outcome],
            F.unix_micros(F.min("sent_at")).alias("from_us"),
            F.unix_micros(F.greatest(F.max("settled_at"), F.max("sent_at"))).alias("until_us"),
        )
    )


def _reported_as(outcome: Outcome) -> Column:
    """True on an attempt that the client reported with `outcome`."""
    return (F.col("outcome") == outcome.value) & (F.col("made_by") == "client")


def count_log(log: DataFrame) -> DataFrame:
    """Returns the counts of LOG per (arm, partition).

    `records`: all records. `markers`: the verifier's own records (see `is_marker`). `corrupted`: records whose header
    cannot be believed (see `is_sound`). `foreign`: other records, whose header names another run or arm.
    """
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
