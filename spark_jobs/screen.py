"""The screen: stretches of a producer's sequences in which both sides agree, and which nobody need match row by row.

A *stretch* is 2**bits consecutive sequences of one (arm, producer, session); a *bucket* is what of it lies in one
partition: by the ledger's word for claims, by where they stand for lines. A bucket is clean iff it has as many
believable lines as claims, all ACKED or all SENT; if the fingerprints of both sides (sums of 32-bit halves of a 64-bit
hash of sequence, attempt and partition sequence) are equal; and if offset - partition sequence is the same for each
line and each acknowledgement. Then every attempt of it stands exactly once in the partition, where it was said to, in
order. A stretch is *proven* iff

1. each of its buckets is clean: a copy in another partition, or of a claim elsewhere, is in the same stretch;
2. none of its buckets may be out of order with another of its producer in that partition, clean or not;
3. no sequence of it is in the ledger twice: resends, and ledgers that contradict themselves.

What is not proven is matched row by row, so that the result is that of matching everything, but for two things which
can only be seen there, and which refute the screen (`astray` in ATTEMPTS): a line whose partition sequence is not its
claim's, so that (2) compared the wrong numbers; and a corrupted line whose owner was screened away.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from delivery_verifier.model.anomalies import Outcome
from spark_jobs.attempts import believable
from spark_jobs.schemas import BUCKETS, LEDGER, LOG, STRETCHES, arrow, promise

BITS = 14
"""Sequences per stretch, as a power of two: so much is matched row by row for one loss."""
BOUND = 50_000
"""Most buckets, and most stretches with repeated sequences, that come to the driver."""
WORD = 6
"""Sequences per 64-bit word, as a power of two, where repetitions are looked for."""
STRETCH = ["arm", "producer", "session", "stretch"]

Row = dict[str, Any]
Stretch = tuple[str, int, int, int]


class Sides(NamedTuple):
    """What Spark counts for the screen: BUCKETS, and the STRETCHES in which a sequence was claimed twice."""

    bits: int
    buckets: pa.Table
    repeated: pa.Table


class Screen(NamedTuple):
    """What need not be matched: `whole` arms, and the proven `stretches` of the others. `signatures` are the rows of
    SIGNATURES that all of it adds to the books; `counts` go to the manifest."""

    bits: int
    whole: list[str]
    stretches: pa.Table
    signatures: list[Row]
    counts: dict[str, int]


def width(records: int, partitions: int, bits: int = BITS) -> int:
    """Bits, `bits` or more, with which so many claims, each stretch in every partition, fill at most half of BOUND."""
    while (records >> bits) * partitions > BOUND // 2:
        bits += 1
    return bits


def sides(ledger: DataFrame, log: DataFrame, bits: int) -> Sides:
    """Counts both sides per bucket: two aggregations, of which at most BOUND + 1 rows each come here."""
    found = _repeated(ledger, bits).limit(BOUND + 1).toArrow()
    return Sides(bits, _buckets(ledger, log, bits).limit(BOUND + 1).toArrow(), found)


def judge(counted: Sides, damaged: Set[tuple[str, int]]) -> Screen | None:
    """What is proven, or None if that is nothing, or if there are more buckets than can be looked at.

    `damaged` are the (arm, partition) with corrupted lines: there, an acknowledged place may hold a copy that is no
    believable line.
    """
    rows: list[Row] = counted.buckets.to_pylist()
    if max(len(rows), counted.repeated.num_rows) > BOUND:
        return None
    dirty = {_stretch(row) for row in [*rows, *counted.repeated.to_pylist()] if "claims" not in row or not _clean(row)}
    dirty |= _out_of_order(rows, damaged)
    proven = [row for row in rows if _stretch(row) not in dirty]
    if not proven:
        return None
    left = [row for row in rows if _stretch(row) in dirty]
    partial = {row["arm"] for row in left}
    keys = sorted({_stretch(row) for row in proven if row["arm"] in partial})
    return Screen(
        bits=counted.bits,
        whole=sorted({row["arm"] for row in proven} - partial),
        stretches=pa.Table.from_pylist([dict(zip(STRETCH, key, strict=True)) for key in keys], schema=arrow(STRETCHES)),
        signatures=[_signature(row) for row in proven],
        counts={
            "screen/bits": counted.bits,
            "screen/buckets": len(rows),
            "screen/dirty": len(left),
            "screen/examined": sum(row["claims"] + row["copies"] for row in left),
        },
    )


def unproven(frame: DataFrame, screen: Screen | None, together: bool = False) -> DataFrame:
    """The rows of LEDGER or LOG that the screen does not vouch for; also those it knows nothing of.

    `together`: all of them are in one partition, and stay there.
    """
    if screen is None:
        return frame
    left = frame.where(~F.col("arm").isin(screen.whole)) if screen.whole else frame
    if not screen.stretches.num_rows:
        return left
    stretches = frame.sparkSession.createDataFrame(screen.stretches)
    known = stretches.coalesce(1).hint("shuffle_hash") if together else F.broadcast(stretches)
    return left.withColumn("stretch", _number(screen.bits)).join(known, STRETCH, "left_anti").select(*frame.columns)


def _buckets(ledger: DataFrame, log: DataFrame, bits: int) -> DataFrame:
    """LEDGER, LOG -> BUCKETS."""
    told = F.when(F.col("transaction").isNull(), F.col("outcome"))
    claims = promise(ledger, LEDGER).withColumns(
        {"claim": F.lit(1), "told": told, "place": F.when(F.col("outcome") == Outcome.ACKED, F.col("offset"))}
    )
    lines = believable(promise(log, LOG)).withColumns(
        {"claim": F.lit(0), "told": F.lit(None).cast("string"), "place": F.col("offset")}
    )
    names = [
        "arm",
        "producer",
        "session",
        "sequence",
        "attempt",
        "partition",
        "partition_sequence",
        "claim",
        "told",
        "place",
    ]
    prints = F.xxhash64("sequence", "attempt", "partition_sequence")
    both = (
        claims.select(*names)
        .unionByName(lines.select(*names))
        .withColumns({"stretch": _number(bits), "print": prints, "shift": F.col("place") - F.col("partition_sequence")})
    )
    claimed, sign = F.col("claim") == 1, F.col("claim") * 2 - 1
    spans = [
        function(F.when(side, F.col(name))).alias(f"{whose}_{name}_{function.__name__}")
        for whose, side in (("claimed", claimed), ("found", ~claimed))
        for name in ("shift", "place", "partition_sequence")
        for function in (F.min, F.max)
    ]
    return promise(
        both.groupBy(*STRETCH, "partition").agg(
            F.count_if(claimed).alias("claims"),
            F.count_if(~claimed).alias("copies"),
            F.count_if(F.col("told") == Outcome.ACKED).alias("acked"),
            F.count_if(F.col("told") == Outcome.SENT).alias("sent"),
            F.sum(sign * F.col("print").bitwiseAND(0xFFFFFFFF)).alias("low"),
            F.sum(sign * F.shiftright("print", 32)).alias("high"),
            *spans,
        ),
        BUCKETS,
    )


def _repeated(ledger: DataFrame, bits: int) -> DataFrame:
    """LEDGER -> STRETCHES: those with fewer sequences than claims, counted exactly in one bit per sequence."""
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
    even = row["claims"] == row["copies"] and row["claims"] in (row["acked"], row["sent"])
    shifts = {row[f"{whose}_shift_{end}"] for whose in ("claimed", "found") for end in ("min", "max")}
    return even and row["low"] == row["high"] == 0 and len(shifts - {None}) == 1


def _out_of_order(rows: Iterable[Row], damaged: Set[tuple[str, int]]) -> set[Stretch]:
    """Stretches with a bucket that does not lie wholly before or wholly behind each other bucket of its producer in
    its partition, in partition sequences and in offsets alike."""
    places: dict[tuple[Any, ...], list[tuple[list[int], Stretch]]] = defaultdict(list)
    for row in rows:
        sides = ("found", "claimed") if (row["arm"], row["partition"]) in damaged else ("found",)
        if any(row[f"{whose}_place_min"] is not None for whose in sides):
            span = [_end(row, sides, name, end) for end in (min, max) for name in ("partition_sequence", "place")]
            places[row["arm"], row["producer"], row["session"], row["partition"]].append((span, _stretch(row)))
    return {stretch for spans in places.values() for stretch in _entangled(sorted(spans))}


def _entangled(spans: list[tuple[list[int], Stretch]]) -> Iterable[Stretch]:
    """`spans` are ([lowest sequence, lowest offset, highest sequence, highest offset], stretch), ascending."""
    for of in (0, 1):
        before = list(accumulate((span[of + 2] for span, _ in spans), max))
        behind = list(accumulate((span[of] for span, _ in reversed(spans)), min))[::-1]
        for at, (span, stretch) in enumerate(spans):
            if (at and before[at - 1] >= span[of]) or (at + 1 < len(spans) and behind[at + 1] <= span[of + 2]):
                yield stretch


def _end(row: Row, sides: Iterable[str], name: str, end: Any) -> int:
    values = (row[f"{whose}_{name}_{end.__name__}"] for whose in sides)
    return int(end(value for value in values if value is not None))


def _signature(row: Row) -> Row:
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
