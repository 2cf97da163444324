"""Compares the screen of effects with the definitions, in many random histories of effects."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from support.effect_histories import Row, calm_history

from delivery_verifier.model.record import MARKER_PRODUCER
from spark_jobs.effects import effect_screen
from spark_jobs.matching.buckets import CHUNK, Chunk, chunk_of
from spark_jobs.matching.screen import Screen

BITS, HISTORIES = 2, 2_000
NAMELESS: Row = dict.fromkeys(("producer", "session", "chunk"))


def _named(row: Row) -> Row:
    """The columns that name the chunk of a row."""
    if not row["crc_ok"] or row["foreign"] or row["producer"] == MARKER_PRODUCER:
        return NAMELESS
    return {"producer": row["producer"], "session": row["session"], "chunk": row["sequence"] >> BITS}


def _sums(rows: list[Row], names: tuple[str, str, str]) -> Row:
    hashes = [hash((row["sequence"], row["attempt"], row["partition_sequence"])) & (2**64 - 1) for row in rows]
    values = len(rows), sum(value & 0xFFFFFFFF for value in hashes), sum(value >> 32 for value in hashes)
    return dict(zip(names, values, strict=True))


def _grouped(rows: Iterable[Row], names: Iterable[str]) -> dict[tuple[Any, ...], list[Row]]:
    groups = defaultdict[tuple[Any, ...], list[Row]](list)
    for row in rows:
        columns = row | _named(row)
        groups[tuple(columns[name] for name in names)].append(row)
    return groups


def _log_screen(lines: list[Row]) -> Screen:
    """The screen of a log in which every chunk is proven."""
    names = [*CHUNK, "partition"]
    rows = [
        dict(zip(names, key, strict=True))
        | _sums(copies, ("copies", "logged_low", "logged_high"))
        | {"logged_shift_min": copies[0]["offset"] - copies[0]["partition_sequence"]}
        for key, copies in _grouped(lines, names).items()
    ]
    return Screen(BITS, ["a"], pa.table({}), rows, [], pa.table({}), {})


def _groups(effects: list[Row]) -> list[Row]:
    names = [*CHUNK, "partition", *effect_screen.SERIES]
    rows = [row | {"series": row["offset"] - row["nth"] if row["offset"] >= 0 else None} for row in effects]
    measures = {
        "shift": lambda row: row["offset"] - row["partition_sequence"],
        "order": lambda row: row["order"],
        "offset": lambda row: row["offset"],
    }
    return [
        dict(zip(names, key, strict=True))
        | _sums(members, ("effects", "low", "high"))
        | {f"{name}_{end.__name__}": end(map(of, members)) for name, of in measures.items() for end in (min, max)}
        for key, members in _grouped(rows, names).items()
    ]


def _behind(effects: Iterable[Row]) -> set[int]:
    """The orders of the effects that are behind an effect of a higher offset."""
    highest, behind = Counter[int](), set[int]()
    for row in sorted(effects, key=lambda row: row["order"]):
        if row["offset"] < highest[row["partition"]]:
            behind.add(row["order"])
        highest[row["partition"]] = max(highest[row["partition"]], row["offset"])
    return behind


def _applied(screened: effect_screen.EffectScreen, lines: list[Row]) -> set[Chunk]:
    if screened.proven.whole:
        return {chunk_of({"arm": "a"} | _named(row)) for row in lines}
    return {chunk_of(row) for row in screened.proven.chunks.to_pylist()}


@pytest.mark.slow
def test_applied_chunks_are_applied_once_and_in_order_and_their_boundaries_stand_for_them() -> None:
    seen = Counter[str]()
    for seed in range(HISTORIES):
        _, lines, effects = calm_history("a", 0, seed)
        screened = effect_screen.prove(_log_screen(lines), ["a"], _groups(effects))
        if screened is None:
            seen["nothing"] += 1
            continue
        applied, behind = _applied(screened, lines), _behind(effects)
        is_applied = {row["order"]: chunk_of({"arm": "a"} | _named(row)) in applied for row in effects}
        names = "producer", "sequence", "attempt", "partition", "offset"
        copies, landed = (
            sorted(
                tuple(row[name] for name in names) for row in rows if chunk_of({"arm": "a"} | _named(row)) in applied
            )
            for rows in (lines, effects)
        )
        assert landed == copies, f"seed {seed}: each copy has one effect, at its own offset"
        assert not any(is_applied[order] for order in behind), f"seed {seed}: an applied effect is behind"
        if screened.proven.whole:
            seen["whole"] += 1
            assert not {row["order"] for row in effects if _named(row) is not NAMELESS} & behind
            continue
        matched = [row for row in effects if not is_applied[row["order"]]]
        found = _behind([*matched, *screened.boundaries.to_pylist()])
        assert found == behind, f"seed {seed}: boundaries do not stand for the effects that are not matched"
        counts = Counter[str]()
        for row in screened.counts:
            counts.update({name: row[name] for name in ("attempts", "visible", "applied", "copies")})
        assert set(counts.values()) == {len(copies)}
        seen.update(partial=1, behind=bool(behind))
    assert min(seen[name] for name in ("nothing", "whole", "partial", "behind")) > 20, seen


def test_the_greatest_value_before_each_of_another_series_is_the_one_that_a_search_finds() -> None:
    dice = random.Random(7)
    for _ in range(500):
        values = [dice.randrange(20) for _ in range(12)]
        series = [dice.choice("abcd") for _ in values]
        others = [
            [value for value, of in zip(values[:at], series, strict=False) if of != series[at]]
            for at in range(len(values))
        ]
        expected = [max(found, default=-math.inf) for found in others]
        assert effect_screen._greatest_before(values, series) == expected
