"""The screen of effects: finds chunks whose records were each applied exactly once, and in order. The effects of
these chunks need no matching.

The screen of the log (see `spark_jobs.matching.screen`) compares ledger and log. This screen adds effects as the third
side. A chunk is *applied* exactly if

1. the screen of the log has proven it. Then each of its attempts stands exactly once in the log;
2. it has effects in the partitions of its copies only, and in each partition it has as many effects as copies. Effects
   and copies have equal fingerprints, and the difference offset - partition sequence is the same for each of them. Then
   each copy has exactly one effect, which names the offset of this copy;
3. none of its effects can be behind an effect of a record with a higher offset of the partition.

To prove condition 3, effects are counted in *groups*. The effects of one *series* have the same partition, the same
member and incarnation, and the same difference offset - `nth`. `nth` numbers the effects of an incarnation in a
partition, in the order of the column `order`. So within one series, offsets have the order of application, and no
effect is behind another. A group is the part of a series in one chunk. Groups of different series are compared by the
times and the offsets of their first and last effects.

All other effects and copies are matched one by one. Whether a matched effect is behind may depend on effects that are
not matched. *Boundaries* stand for these: the last effect of each group of an applied chunk.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.effects.effect_attempts import is_of_attempt
from spark_jobs.matching.buckets import BOUND, CHUNK, Chunk, Row, chunk_of, fingerprint, number
from spark_jobs.matching.screen import Screen, unproven
from spark_jobs.schemas import CHUNKS, EFFECTS, arrow, promise

SERIES = ("member", "incarnation", "series")
"""The columns that identify a series within a partition."""
Place = tuple[Chunk, int]
"""A chunk, and one of its partitions."""


class EffectScreen(NamedTuple):
    """The applied chunks. `proven` names them in the form of the screen of the log. `boundaries`: rows of EFFECTS that
    stand for the effects of applied chunks. `counts`: the counts of the applied chunks, in the form of
    `effect_attempts.counts`."""

    proven: Screen
    boundaries: pa.Table
    counts: list[Row]


def count(effects: DataFrame, bits: int) -> list[Row] | None:
    """Returns one row per group of `effects` (rows of EFFECTS), or None if there are more than BOUND groups.

    A row has the columns CHUNK, SERIES and `partition`, which identify the group, and:

    * `effects`: the number of effects. `low`, `high`: the sums of the halves of their fingerprints.
    * `shift_min`, `shift_max`: the least and the greatest difference offset - partition sequence.
    * `order_min`, `order_max`, `offset_min`, `offset_max`: the first and the last place of the effects in the order of
      application, and in the partition.

    Effects that name no attempt are in groups without producer, session and chunk. Effects without an offset have no
    series (null).
    """
    of_attempt = is_of_attempt()
    names = {name: F.when(of_attempt, F.col(name)) for name in ("producer", "session")}
    rows = promise(effects, EFFECTS).select(
        "arm",
        *[column.alias(name) for name, column in names.items()],
        F.when(of_attempt, number(bits)).alias("chunk"),
        *("partition", "member", "incarnation", "order", "offset"),
        F.when(F.col("offset") >= 0, F.col("offset") - F.col("nth")).alias("series"),
        (F.col("offset") - F.col("partition_sequence")).alias("shift"),
        fingerprint().alias("fingerprint"),
    )
    spans = [
        function(name).alias(f"{name}_{function.__name__}")
        for name in ("shift", "order", "offset")
        for function in (F.min, F.max)
    ]
    groups = rows.groupBy(*CHUNK, "partition", *SERIES).agg(
        F.count(F.lit(1)).alias("effects"),
        F.sum(F.col("fingerprint").bitwiseAND(0xFFFFFFFF)).alias("low"),
        F.sum(F.shiftright("fingerprint", 32)).alias("high"),
        *spans,
    )
    table = groups.limit(BOUND + 1).toArrow()
    return None if table.num_rows > BOUND else table.to_pylist()


def prove(proven: Screen, arms: Collection[str], groups: Sequence[Row]) -> EffectScreen | None:
    """Returns the applied chunks of `arms`, or None if there are none.

    `proven`: the result of the screen of the log. `groups`: the result of `count` for all effects of `arms`, with the
    width of the chunks of `proven`.
    """
    copies: dict[Place, Row] = {
        (chunk_of(row), row["partition"]): row for row in proven.rows if row["arm"] in arms and row["copies"]
    }
    effects = defaultdict[Place, list[Row]](list)
    for group in groups:
        if group["chunk"] is not None:
            effects[chunk_of(group), group["partition"]].append(group)
    keys = copies.keys() | effects.keys()
    dirty = {key[0] for key in keys if not _each_once(copies.get(key), effects.get(key, []))}
    dirty |= {chunk_of(group) for group in _entangled(groups) if group["chunk"] is not None}
    rows = [row for (chunk, _), row in copies.items() if chunk not in dirty]
    if not rows:
        return None
    whole = {row["arm"] for row in rows} & {*proven.whole} - {arm for arm, *_ in dirty}
    partial = sorted({chunk_of(row) for row in rows if row["arm"] not in whole})
    chunks = [dict(zip(CHUNK, chunk, strict=True)) for chunk in partial]
    applied = {chunk_of(row) for row in rows}
    return EffectScreen(
        proven._replace(whole=sorted(whole), chunks=pa.Table.from_pylist(chunks, schema=arrow(CHUNKS))),
        _boundaries(group for group in groups if group["arm"] not in whole and chunk_of(group) in applied),
        [_counts(row) for row in rows],
    )


def unapplied(effects: DataFrame, screen: EffectScreen | None, together: bool) -> DataFrame:
    """Returns the rows of `effects` (EFFECTS) that must be matched, and the boundaries. If `screen` is None, these are
    all rows. `together`: as in `screen.unproven`.

    Effects that name no attempt are always returned, because other effects may be behind them. The boundaries name no
    attempt, too.
    """
    if screen is None:
        return effects
    rows = unproven(effects, screen.proven, together, exempt=~is_of_attempt())
    if not screen.boundaries.num_rows:
        return rows
    boundaries = effects.sparkSession.createDataFrame(screen.boundaries).select(*effects.columns)
    both = rows.unionByName(boundaries)
    return both.coalesce(1) if together else both


def _each_once(copies: Row | None, groups: list[Row]) -> bool:
    """Returns whether each copy has exactly one effect, in one partition of a chunk (condition 2 in the module's
    docstring). `copies`: the partition's row of BUCKETS, which is proven; None if there are no proven copies."""
    if copies is None:
        return False
    sums = tuple(sum(group[name] for group in groups) for name in ("effects", "low", "high"))
    shifts = {group[f"shift_{end}"] for group in groups for end in ("min", "max")}
    return sums == tuple(copies[name] for name in ("copies", "logged_low", "logged_high")) and shifts == {
        copies["logged_shift_min"]
    }


def _entangled(groups: Iterable[Row]) -> Iterator[Row]:
    """Yields each group that is not apart from the other series of its partition (condition 3 in the module's
    docstring). Effects without an offset are left out: they are never behind, and no effect is behind them."""
    by_partition = defaultdict[tuple[str, int], list[Row]](list)
    for group in groups:
        if group["offset_max"] >= 0:
            by_partition[group["arm"], group["partition"]].append(group)
    for rows in by_partition.values():
        yield from _not_apart(sorted(rows, key=lambda row: row["order_min"]))


def _not_apart(rows: Sequence[Row]) -> Iterator[Row]:
    """Yields the groups that overlap in time with a group of another series, or that follow a group of another series
    with a higher offset. `rows`: the groups of one partition, sorted by their first effects.

    All other groups have no effect that is behind. Each effect of another series is wholly before or wholly after such
    a group. So the last effect of the group can stand for the group.
    """
    series = [tuple(row[name] for name in SERIES) for row in rows]
    ended, highest = (_greatest_before([row[name] for row in rows], series) for name in ("order_max", "offset_max"))
    begun = _greatest_before([-row["order_min"] for row in reversed(rows)], series[::-1])[::-1]
    for row, ended_at, begun_at, offset in zip(rows, ended, begun, highest, strict=True):
        if ended_at >= row["order_min"] or -begun_at <= row["order_max"] or offset > row["offset_min"]:
            yield row


def _greatest_before(values: Sequence[int], series: Sequence[Hashable]) -> list[float]:
    """Returns, for each index, the greatest of the values before it that belong to another series. The result is
    -infinity if there is no such value. `series` has the series of each value."""
    greatest: list[float] = []
    best: tuple[float, Hashable] = (-math.inf, None)
    second = -math.inf  # the greatest value of the series other than that of `best`
    for value, owner in zip(values, series, strict=True):
        greatest.append(second if owner == best[1] else best[0])
        if owner == best[1]:
            best = max(best[0], value), owner
        elif value > best[0]:
            best, second = (value, owner), best[0]
        else:
            second = max(second, value)
    return greatest


def _counts(row: Row) -> Row:
    """Returns the counts of one partition of an applied chunk, in the form of `effect_attempts.counts`. `row`: the
    partition's row of BUCKETS."""
    names = ("arm", "producer", "session", "partition")
    equal = ("attempts", "visible", "applied", "copies")
    return {name: row[name] for name in names} | {"kind": None, "also": []} | dict.fromkeys(equal, row["copies"])


def _boundaries(groups: Iterable[Row]) -> pa.Table:
    """Returns one row of EFFECTS for each of `groups`: the group's last effect, without the name of its attempt."""
    schema = arrow(EFFECTS)
    unnamed = {"producer": 0, "session": 0, "sequence": 0, "attempt": 0, "partition_sequence": 0, "nth": 0, "batch": 0}
    flags = dict.fromkeys(("parsed", "crc_ok", "foreign"), False)
    rows = [
        {name: group[name] for name in ("arm", "partition", "member", "incarnation")}
        | {"order": group["order_max"], "offset": group["offset_max"], "applied_at": 0}
        | unnamed
        | flags
        for group in groups
    ]
    return pa.Table.from_pylist(rows, schema=schema)
