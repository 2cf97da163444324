"""The buckets: counts of the ledger and the log, computed by one query.

A chunk is a range of consecutive sequences of one producer. A bucket is the part of a chunk in one partition (see
`spark_jobs.matching.screen`). The query reads the ledger and the log once each. The census (see
`spark_jobs.matching.census`) and the screen are computed from the result of this query, without Spark.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.outcomes import Outcome
from spark_jobs.matching import census
from spark_jobs.matching.attempts import KEY
from spark_jobs.reading.parse import is_marker, is_sound
from spark_jobs.schemas import BUCKETS, LEDGER, LOG, promise

BITS = 12
"""A chunk has at least 2**BITS sequences. If a single record is lost, the whole chunk of this record must be
matched."""
BOUND = 50_000
"""The greatest number of rows of BUCKETS that are used. If there are more, census and matching read the ledger and the
log themselves. The screen of effects uses at most as many groups of effects."""
CHUNK = ["arm", "producer", "session", "chunk"]
"""The columns that identify a chunk: a numbered range of consecutive sequences of one producer."""
Row = dict[str, Any]
"""A row of BUCKETS."""
Chunk = tuple[str, int, int, int]
"""The values of the columns CHUNK."""
_OF_LINES = {"marker": "boolean", "corrupted": "boolean", "foreign": "boolean"}
"""The columns that are null in the row of a claim (row of LEDGER), with their types."""
_OF_CLAIMS = {
    "outcome": "string",
    "transaction": "string",
    "made_by": "string",
    "sent_at": "timestamp",
    "settled_at": "timestamp",
}
"""The columns that are null in the row of a line (row of LOG), with their types."""


class Buckets(NamedTuple):
    """The result of `count`: `table` has rows of BUCKETS. Each row belongs to a chunk of 2**`bits` sequences."""

    bits: int
    table: pa.Table


def width(records: int, partitions: int, bits: int = BITS) -> int:
    """Returns the value of the parameter `bits` of `count`. If the result is b, a chunk has 2**b sequences.

    The result is the least b >= `bits` with which `records` records make at most about BOUND / 2 buckets.
    """
    while (records >> bits) * partitions > BOUND // 2:
        bits += 1
    return bits


def number(bits: int) -> Column:
    """Returns the column `chunk`: the number of the chunk to which a sequence belongs."""
    return F.shiftright("sequence", bits).alias("chunk")


def fingerprint() -> Column:
    """Returns the fingerprint of an attempt's copy or effect. The sums of fingerprints are compared, so ledger, log and
    effects must all have this one."""
    return F.xxhash64("sequence", "attempt", "partition_sequence")


def chunk_of(row: Row) -> Chunk:
    """Returns the chunk to which a row of BUCKETS belongs."""
    return row["arm"], row["producer"], row["session"], row["chunk"]


def count(ledger: DataFrame, log: DataFrame, bits: int) -> Buckets | None:
    """Returns the buckets of LEDGER and LOG, or None if there are more than BOUND buckets.

    Corrupted records, foreign records and markers are copies of no attempt. They are counted per partition, in rows
    without producer, session and chunk.
    """
    table = _union(ledger, log, bits).groupBy(*CHUNK, "partition").agg(*_sums(), *_spans())
    rows = promise(table, BUCKETS).limit(BOUND + 1).toArrow()
    return None if rows.num_rows > BOUND else Buckets(bits, rows)


def _union(ledger: DataFrame, log: DataFrame, bits: int) -> DataFrame:
    """Returns claims (rows of LEDGER) and lines (rows of LOG) with equal columns. In the row of a claim, the column
    `position` is the acknowledged offset. In the row of a line, it is the offset of the line."""
    names = [*KEY, "partition", "partition_sequence", "position", *_OF_CLAIMS, *_OF_LINES]
    acked = F.when(F.col("outcome") == Outcome.ACKED, F.col("offset"))
    claims = promise(ledger, LEDGER).withColumns({"position": acked} | _nulls(_OF_LINES))
    lines = promise(log, LOG).withColumns(
        {
            "position": F.col("offset"),
            "marker": F.coalesce(is_marker(), F.lit(False)),
            "corrupted": ~is_sound(),
            "foreign": is_sound() & F.col("foreign"),
        }
        | _nulls(_OF_CLAIMS)
    )
    believable = ~(F.col("corrupted") | F.col("foreign") | F.col("marker"))  # as `attempts.believable`
    nameless = {name: F.when(believable, F.col(name)) for name in (*KEY[1:], "partition_sequence", "position")}
    rows = claims.select(*names).unionByName(lines.select(*names).withColumns(nameless))
    return rows.withColumns(
        {
            "chunk": number(bits),
            "shift": F.col("position") - F.col("partition_sequence"),
            "fingerprint": fingerprint(),
            "sequence_hash": F.xxhash64("sequence"),
        }
    )


def _nulls(columns: dict[str, str]) -> dict[str, Column]:
    return {name: F.lit(None).cast(data_type) for name, data_type in columns.items()}


def _is_claim() -> Column:
    return F.col("outcome").isNotNull()


def _is_copy() -> Column:
    return F.col("marker").isNotNull() & F.col("sequence").isNotNull()


def _sums() -> list[Column]:
    sign = F.when(_is_claim(), 1).when(_is_copy(), -1).otherwise(0)
    copied = F.when(_is_copy(), F.col("fingerprint"))
    claimed_hash = F.when(_is_claim(), F.col("sequence_hash"))
    return [
        *census.counts_of_claims(),
        F.count_if(_is_copy()).alias("copies"),
        *census.counts_of_lines(),
        F.sum(sign * F.col("fingerprint").bitwiseAND(0xFFFFFFFF)).alias("low"),
        F.sum(sign * F.shiftright("fingerprint", 32)).alias("high"),
        F.sum(copied.bitwiseAND(0xFFFFFFFF)).alias("logged_low"),
        F.sum(F.shiftright(copied, 32)).alias("logged_high"),
        F.sum(claimed_hash.bitwiseAND(0xFFFFFFFF)).alias("sequences_low"),
        F.sum(F.shiftright(claimed_hash, 32)).alias("sequences_high"),
    ]


def _spans() -> list[Column]:
    """Returns columns with the least and the greatest value of each measure. Each measure has two columns for the
    claims. Each measure that copies also have has two more columns for the copies."""
    measured: dict[str, tuple[Any, tuple[str, ...]]] = {
        "claimed": (_is_claim(), ("shift", "position", "partition_sequence", "sequence")),
        "logged": (_is_copy(), ("shift", "position", "partition_sequence")),
    }
    return [
        function(F.when(is_of_side, F.col(name))).alias(f"{side}_{name}_{function.__name__}")
        for side, (is_of_side, names) in measured.items()
        for name in names
        for function in (F.min, F.max)
    ]
