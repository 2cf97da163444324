"""The census: counts of the ledger and the log, made without any join.

The invariants (see `spark_jobs.checks.invariants`) compare the counts with the census, and the census with what
producers and brokers reported themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.outcomes import Outcome
from spark_jobs.matching.attempts import reported
from spark_jobs.reading.parse import is_marker, is_sound
from spark_jobs.schemas import LEDGER, LOG, promise

_OUTCOMES = [outcome.value.lower() for outcome in Outcome]
_CLAIM_KEYS = ["arm", "producer", "session", "partition"]
_LINE_KEYS = ["arm", "partition"]
_CLAIM_COUNTS = {
    "attempted": "sum",
    "reported": "sum",
    "attempt": "max",
    "in_transactions": "sum",
    **dict.fromkeys(_OUTCOMES, "sum"),
    "from_us": "min",
    "until_us": "max",
}
"""Maps each column of `counts_of_claims` to the function that combines the counts of two sets of claims."""
_LINE_COUNTS = dict.fromkeys(("records", "markers", "corrupted", "foreign"), "sum")
"""Maps each column of `counts_of_lines` to the function that combines the counts of two sets of lines."""


class Census(NamedTuple):
    """The census of a run.

    `ledger`: the columns of `counts_of_claims`, per (arm, producer, session, partition). `log`: the columns of
    `counts_of_lines`, per (arm, partition).
    """

    ledger: pa.Table
    log: pa.Table


def counts_of_claims() -> list[Column]:
    """Returns the counts of a group of rows of LEDGER. Rows whose `outcome` is null are not counted.

    * `attempted`: all rows. `reported`: the rows with outcome ACKED or SENT. `in_transactions`: the rows in a
      transaction.
    * `acked`, `sent`, `failed`, `indeterminate`: the rows that the client reported with this outcome. If no report
      came, the row is INDETERMINATE, but `indeterminate` does not count it.
    * `attempt`: the highest attempt number. It is above 0 if the application sent any record again.
    * `from_us`: the time of the first sending. `until_us`: the time of the last sending or of the last report,
      whichever is later. Both times are in µs since the epoch.
    """
    return [
        F.count("outcome").alias("attempted"),
        F.count_if(reported()).alias("reported"),
        F.max(F.when(F.col("outcome").isNotNull(), F.col("attempt"))).alias("attempt"),
        F.count("transaction").alias("in_transactions"),
        *[F.count_if(_reported_as(outcome)).alias(outcome.value.lower()) for outcome in Outcome],
        F.unix_micros(F.min("sent_at")).alias("from_us"),
        F.unix_micros(F.greatest(F.max("settled_at"), F.max("sent_at"))).alias("until_us"),
    ]


def counts_of_lines() -> list[Column]:
    """Returns the counts of a group of records in the log, from their columns `marker`, `corrupted` and `foreign`.

    Rows in which these columns are null are not counted.

    * `records`: all records.
    * `markers`: the verifier's own records (see `is_marker`).
    * `corrupted`: records whose header cannot be believed (see `is_sound`).
    * `foreign`: records that are not corrupted, and whose header names another run or another arm.
    """
    flags = {"markers": "marker", "corrupted": "corrupted", "foreign": "foreign"}
    return [
        F.count("marker").alias("records"),
        *[F.count_if(F.col(flag)).alias(name) for name, flag in flags.items()],
    ]


def of_frames(ledger: DataFrame, log: DataFrame) -> Census:
    """Returns the census of LEDGER and LOG, by two queries."""
    lines = promise(log, LOG).select(
        *_LINE_KEYS,
        F.coalesce(is_marker(), F.lit(False)).alias("marker"),
        (~is_sound()).alias("corrupted"),
        (is_sound() & F.col("foreign")).alias("foreign"),
    )
    return Census(
        promise(ledger, LEDGER).groupBy(*_CLAIM_KEYS).agg(*counts_of_claims()).toArrow(),
        lines.groupBy(*_LINE_KEYS).agg(*counts_of_lines()).toArrow(),
    )


def of_buckets(buckets: pa.Table) -> Census:
    """Returns the census. Each count is a sum over `buckets`, which are rows of BUCKETS. No query runs."""
    return Census(
        _added_up(buckets.filter(pc.greater(buckets["attempted"], 0)), _CLAIM_KEYS, _CLAIM_COUNTS),
        _added_up(buckets.filter(pc.greater(buckets["records"], 0)), _LINE_KEYS, _LINE_COUNTS),
    )


def _added_up(table: pa.Table, keys: list[str], counts: dict[str, str]) -> pa.Table:
    grouped = table.group_by(keys).aggregate(list(counts.items()))
    return grouped.select([*keys, *[f"{name}_{how}" for name, how in counts.items()]]).rename_columns([*keys, *counts])


def _reported_as(outcome: Outcome) -> Column:
    """Returns a column that is true for an attempt that the client reported with `outcome`."""
    return (F.col("outcome") == outcome.value) & (F.col("made_by") == "client")
