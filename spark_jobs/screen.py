"""The screen: finds stretches of a producer's sequences in which ledger and log agree. Their rows need no matching.

A *stretch* is 2**bits consecutive sequences of one (arm, producer, session). A *bucket* is the part of a stretch in one
partition: the claims (attempts in the ledger) to this partition, and the lines (records in the log) in this partition.
A bucket is *clean* exactly if

* it has as many believable lines as claims, and its claims are all ACKED or all SENT;
* claims and lines have equal fingerprints (sums of the 32-bit halves of a 64-bit hash of sequence, attempt and
  partition sequence);
* offset - partition sequence is the same for each line and each acknowledgement.

Then every attempt of the bucket stands exactly once in the partition, in order, and at its acknowledged offset if it
has one. A stretch is *proven* exactly if

1. each of its buckets is clean (a line in another partition than its claim makes two buckets of the stretch unclean);
2. none of its buckets can be out of order with another bucket, clean or not, of the same producer and partition;
3. none of its sequences is in the ledger twice (because it was resent, or because the ledger contradicts itself).

All other rows are matched one by one. The result is the same as if all rows were matched, unless the matching refutes
the screen (`astray` in ATTEMPTS). This happens if a line has another partition sequence than its claim, so that (2)
compared wrong numbers. It also happens if the owner of a corrupted line is in a proven stretch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.outcomes import Outcome
from spark_jobs.attempts import KEY, believable
from spark_jobs.schemas import BUCKETS, LEDGER, LOG, STRETCHES, arrow, promise

BITS = 14
"""Ledger and log are compared by stretches of at least 2**BITS sequences. One lost record makes a stretch unproven."""
BOUND = 50_000
"""The screen proves nothing if `Sides.buckets` or `Sides.repeated` has more rows than this."""
WORD = 6
"""The search for sequences that are in the ledger twice packs 2**WORD sequences into one 64-bit word."""
STRETCH = ["arm", "producer", "session", "stretch"]

Row = dict[str, Any]
Stretch = tuple[str, int, int, int]


class Sides(NamedTuple):
    """The counts that `prove` needs. `buckets`: BUCKETS. `repeated`: STRETCHES, the result of `_repeated`."""

    bits: int
    buckets: pa.Table
    repeated: pa.Table


class Screen(NamedTuple):
    """The proven rows, which need no matching: all rows of the arms in `whole` and of the stretches in `stretches`.

    `signatures`: the rows of SIGNATURES by which the books count the proven rows. `counts`: figures for the manifest.
    """

    bits: int
    whole: list[str]
    stretches: pa.Table
    signatures: list[Row]
    counts: dict[str, int]


def width(records: int, partitions: int, bits: int = BITS) -> int:
    """The least b >= `bits` with which there are at most about BOUND / 2 buckets. A stretch has 2**b sequences."""
    while (records >> bits) * partitions > BOUND // 2:
        bits += 1
    return bits


def sides(ledger: DataFrame, log: DataFrame, bits: int) -> Sides:
    """Returns counts of LEDGER and LOG, as two tables. Each table has at most BOUND + 1 rows: `prove` needs no more."""
    repeated = _repeated(ledger, bits).limit(BOUND + 1).toArrow()
    return Sides(bits, _buckets(ledger, log, bits).limit(BOUND + 1).toArrow(), repeated)


def prove(counted: Sides, damaged: Set[tuple[str, int]]) -> Screen | None:
    """Returns what `counted` proves, or None if nothing is proven or one of the tables exceeds BOUND rows.

    `damaged`: every (arm, partition) with corrupted records. In these partitions, condition 2 in the module's docstring
    is checked for claims (rows of LEDGER), too, because a corrupted record may hide the position of an attempt.
    """
    rows: list[Row] = counted.buckets.to_pylist()
    if max(len(rows), counted.repeated.num_rows) > BOUND:
        return None
    dirty = {_stretch(row) for row in [*rows, *counted.repeated.to_pylist()] if "claims" not in row or not _clean(row)}
    dirty |= _out_of_order(rows, damaged)
    proven = [row for row in rows if _stretch(row) not in dirty]
    if not proven:
        return None
    unproven_rows = [row for row in rows if _stretch(row) in dirty]
    partial = {row["arm"] for row in unproven_rows}
    keys = sorted({_stretch(row) for row in proven if row["arm"] in partial})
    return Screen(
        bits=counted.bits,
        whole=sorted({row["arm"] for row in proven} - partial),
        stretches=pa.Table.from_pylist([dict(zip(STRETCH, key, strict=True)) for key in keys], schema=arrow(STRETCHES)),
        signatures=[_signature(row) for row in proven],
        counts={
            "screen/bits": counted.bits,
            "screen/buckets": len(rows),
            "screen/dirty": len(unproven_rows),
            "screen/examined": sum(row["claims"] + row["copies"] for row in unproven_rows),
        },
    )


def unproven(frame: DataFrame, screen: Screen | None, together: bool = False) -> DataFrame:
    """Returns the rows of `frame` (LEDGER or LOG) that the screen has not proven: all rows if `screen` is None.

    `together`: whether all rows are in one Spark partition already; if so, they stay there.
    """
    if screen is None:
        return frame
    remaining = frame.where(~F.col("arm").isin(screen.whole)) if screen.whole else frame
    if not screen.stretches.num_rows:
        return remaining
    stretches = frame.sparkSession.createDataFrame(screen.stretches)
    known = stretches.coalesce(1).hint("shuffle_hash") if together else F.broadcast(stretches)
    return (
        remaining.withColumn("stretch", _number(screen.bits)).join(known, STRETCH, "left_anti").select(*frame.columns)
    )


def _buckets(ledger: DataFrame, log: DataFrame, bits: int) -> DataFrame:
    """Returns BUCKETS. A claim in a transaction counts as neither ACKED nor SENT, so its bucket is never clean."""
    outcome = F.when(F.col("transaction").isNull(), F.col("outcome"))
    claims = promise(ledger, LEDGER).withColumns(
        {"claim": F.lit(1), "claimed": outcome, "position": F.when(F.col("outcome") == Outcome.ACKED, F.col("offset"))}
    )
    lines = believable(promise(log, LOG)).withColumns(
        {"claim": F.lit(0), "claimed": F.lit(None).cast("string"), "position": F.col("offset")}
    )
    names = [*KEY, "partition", "partition_sequence", "claim", "claimed", "position"]
    shift = F.col("position") - F.col("partition_sequence")
    fingerprints = F.xxhash64("sequence", "attempt", "partition_sequence")
    both = (
        claims.select(*names)
        .unionByName(lines.select(*names))
        .withColumns({"stretch": _number(bits), "fingerprint": fingerprints, "shift": shift})
    )
    is_claim, sign = F.col("claim") == 1, F.col("claim") * 2 - 1
    spans = [
        function(F.when(is_of_side, F.col(name))).alias(f"{side}_{name}_{function.__name__}")
        for side, is_of_side in (("claimed", is_claim), ("logged", ~is_claim))
        for name in ("shift", "position", "partition_sequence")
        for function in (F.min, F.max)
    ]
    return promise(
        both.groupBy(*STRETCH, "partition").agg(
            F.count_if(is_claim).alias("claims"),
            F.count_if(~is_claim).alias("copies"),
            F.count_if(F.col("claimed") == Outcome.ACKED).alias("acked"),
            F.count_if(F.col("claimed") == Outcome.SENT).alias("sent"),
            F.sum(sign * F.col("fingerprint").bitwiseAND(0xFFFFFFFF)).alias("low"),
            F.sum(sign * F.shiftright("fingerprint", 32)).alias("high"),
            *spans,
        ),
        BUCKETS,
    )


def _repeated(ledger: DataFrame, bits: int) -> DataFrame:
    """Returns the STRETCHES in which a sequence is in the ledger twice. The result is exact, not an estimate."""
    word = min(WORD, bits)
    bit = F.expr("shiftleft(1L, cast(sequence & 63 as int))")
    by_word = (
        promise(ledger, LEDGER)
        .groupBy("arm", "producer", "session", F.shiftright("sequence", word).alias("word"))
        .agg(F.count(F.lit(1)).alias("claims"), F.bit_or(bit).alias("sequences"))
    )
    twice = by_word.where(F.col("claims") > F.bit_count("sequences"))
    stretches = twice.withColumn("stretch", F.shiftright("word", bits - word))
    return promise(stretches.groupBy(*STRETCH).agg(F.count(F.lit(1)).alias("words")), STRETCHES)


def _clean(row: Row) -> bool:
    """Whether the attempts of a bucket are in the log exactly as acknowledged (*clean*, see the module's docstring)."""
    is_equal = row["claims"] == row["copies"] and row["claims"] in (row["acked"], row["sent"])
    shifts = {row[f"{side}_shift_{end}"] for side in ("claimed", "logged") for end in ("min", "max")}
    return is_equal and row["low"] == row["high"] == 0 and len(shifts - {None}) == 1


def _out_of_order(rows: Iterable[Row], damaged: Set[tuple[str, int]]) -> set[Stretch]:
    """Stretches that may have records out of order (condition 2 in the module docstring). `damaged`: as in `prove`."""
    spans_by_producer: dict[tuple[Any, ...], list[tuple[list[int], Stretch]]] = defaultdict(list)
    for row in rows:
        sides = ("logged", "claimed") if (row["arm"], row["partition"]) in damaged else ("logged",)
        if any(row[f"{side}_position_min"] is not None for side in sides):
            span = [_bound(row, sides, name, end) for end in (min, max) for name in ("partition_sequence", "position")]
            spans_by_producer[row["arm"], row["producer"], row["session"], row["partition"]].append(
                (span, _stretch(row))
            )
    return {stretch for spans in spans_by_producer.values() for stretch in _entangled(sorted(spans))}


def _entangled(spans: list[tuple[list[int], Stretch]]) -> Iterable[Stretch]:
    """Yields each stretch that overlaps another stretch, or is out of order with it, by partition sequence or offset.

    `spans` has ([lowest partition sequence, lowest offset, highest partition sequence, highest offset], stretch) for
    each stretch, ascending. A stretch is in order if earlier spans end before its span, and later spans begin after.
    """
    for low, high in ((0, 2), (1, 3)):  # partition sequences, then offsets
        highest_until = list(accumulate((span[high] for span, _ in spans), max))
        lowest_from = list(accumulate((span[low] for span, _ in reversed(spans)), min))[::-1]
        for index, (span, stretch) in enumerate(spans):
            is_behind = index == 0 or highest_until[index - 1] < span[low]
            is_before = index + 1 == len(spans) or lowest_from[index + 1] > span[high]
            if not (is_behind and is_before):
                yield stretch


def _bound(row: Row, sides: Iterable[str], name: str, end: Any) -> int:
    values = (row[f"{side}_{name}_{end.__name__}"] for side in sides)
    return int(end(value for value in values if value is not None))


def _signature(row: Row) -> Row:
    """The row of SIGNATURES by which the books count the attempts of a proven bucket."""
    return {
        "arm": row["arm"],
        "role": "attempt",
        "producer": row["producer"],
        "session": row["session"],
        "partition": row["partition"],
        "once": True,
        "late": False,
        "astray": False,
        "records": row["claims"],
        "first_partition": row["partition"],
        "outcome": "ACKED" if row["acked"] else "SENT",
        "kind": None,
        "also": [],
    }


def _stretch(row: Row) -> Stretch:
    return row["arm"], row["producer"], row["session"], row["stretch"]


def _number(bits: int) -> Any:
    return F.shiftright("sequence", bits).alias("stretch")
