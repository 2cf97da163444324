"""Tests of the screen (spark_jobs.matching.screen), which skips matching where ledger and log agree. For each defect
that it must not miss, there is one small history. The screen must also prove histories without a defect."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.run_directories import Row, attempt, line, scenario, table, write

from delivery_verifier.run_directory.run_directory import RunDirectory
from spark_jobs.matching import buckets
from spark_jobs.reconcile import reconcile

BITS, RECORDS, PARTITIONS = 3, 64, 2
"""The size of a history: eight chunks of eight sequences. The sequences alternate between two partitions, so each
bucket has four sequences."""

Sides = tuple[list[Row], list[Row]]
Break = Callable[[list[Row], list[Row]], None]


def _clean(arm: str, ordinal: int, outcome: str = "ACKED") -> Sides:
    claims, lines = [], []
    for n in range(RECORDS):
        place = {"partition": n % PARTITIONS, "partition_sequence": n // PARTITIONS}
        told = n // PARTITIONS if outcome == "ACKED" else None
        claims.append(attempt(arm, n, outcome, offset=told, **place))
        lines.append(line(arm, ordinal, n // PARTITIONS, n, **place))
    return claims, lines


def _append(lines: list[Row], copy: Row, partition: int) -> None:
    end = 1 + max(row["offset"] for row in lines if row["partition"] == partition)
    lines.append(copy | {"partition": partition, "offset": end})


def _exchange(lines: list[Row], one: int, other: int) -> None:
    lines[one]["offset"], lines[other]["offset"] = lines[other]["offset"], lines[one]["offset"]


def nothing(claims: list[Row], lines: list[Row]) -> None:
    pass


def misrouted(claims: list[Row], lines: list[Row]) -> None:
    """Adds a copy of a record in the other partition."""
    _append(lines, lines[18], partition=1)


def misrouted_alone(claims: list[Row], lines: list[Row]) -> None:
    """Moves a late record to the beginning of the other partition, before proven chunks. If it had a place in the order
    there, all records behind it would be late."""
    for row in (*claims[1::2], *lines[1::2]):
        row["offset"] += 1
    for row in (*claims[52::2], *lines[52::2]):
        row["offset"] -= 1
    lines[50] |= {"partition": 1, "offset": 0}


def reordered_across_a_boundary(claims: list[Row], lines: list[Row]) -> None:
    """Exchanges two adjacent buckets of partition 0, together with their acknowledgements. Each bucket is clean by
    itself, but the order is wrong."""
    for at, to in ((range(16, 24, 2), 4), (range(24, 32, 2), -4)):
        for n in at:
            claims[n]["offset"] += to
            lines[n]["offset"] += to


def loss_and_phantom(claims: list[Row], lines: list[Row]) -> None:
    lines[18] |= {"attempt": 7}


def swapped_offsets(claims: list[Row], lines: list[Row]) -> None:
    _exchange(lines, 18, 20)


def swapped_offsets_as_acknowledged(claims: list[Row], lines: list[Row]) -> None:
    _exchange(lines, 18, 20)
    claims[18]["offset"], claims[20]["offset"] = claims[20]["offset"], claims[18]["offset"]


def misplaced_by_one(claims: list[Row], lines: list[Row]) -> None:
    for row in claims[16:24:2]:
        row["offset"] += 100


def late_duplicate(claims: list[Row], lines: list[Row]) -> None:
    """Adds a copy of an early record at the end of its own partition, behind all later chunks."""
    _append(lines, lines[2], partition=0)


def late_in_all(claims: list[Row], lines: list[Row]) -> None:
    """Moves two early records to the end of their partition, as acknowledged. The later of them is the first to arrive
    there. So only records of proven chunks have overtaken it."""
    for n in (14, 2):
        _append(lines, dict(lines[n]), partition=0)
        claims[n]["offset"] = lines[-1]["offset"]
    del lines[14], lines[2]


def late_between(claims: list[Row], lines: list[Row]) -> None:
    """Moves two early records, one INDETERMINATE and one as acknowledged, between two later chunks. Also adds a late
    copy of a record that had overtaken them."""
    for row in (*claims[32::2], *lines[32::2]):
        row["offset"] += 2
    for place, n in enumerate((4, 6)):
        lines[n]["offset"] = claims[n]["offset"] = 16 + place
    claims[4] |= {"outcome": "INDETERMINATE", "offset": None}
    _append(lines, lines[20], partition=0)


def corrupted_and_attributed(claims: list[Row], lines: list[Row]) -> None:
    lines[18] |= {"crc_ok": False, "sequence": 9_999}


def corrupted_and_overtaken_across_a_boundary(claims: list[Row], lines: list[Row]) -> None:
    """Corrupts a record and moves it to the end of partition 0. Only the ledger shows the reordering, because the
    record's header cannot be read."""
    _append(lines, lines[22] | {"crc_ok": False}, partition=0)
    del lines[22]
    claims[22]["offset"] = lines[-1]["offset"]


def resent(claims: list[Row], lines: list[Row]) -> None:
    """Adds a second attempt of a sequence to ledger and log, far behind the first attempt."""
    again = {"attempt": 1, "partition": 1, "partition_sequence": RECORDS // PARTITIONS}
    _append(lines, lines[18] | again, partition=1)
    claims.append(claims[18] | again | {"offset": lines[-1]["offset"]})


def claimed_twice(claims: list[Row], lines: list[Row]) -> None:
    """Makes one sequence appear in both partitions, in ledger and log. Every bucket is clean, so only condition 3 of
    `spark_jobs.matching.screen` notices the error."""
    claims[19]["sequence"] = lines[19]["sequence"] = 18


def misrouted_in_order(claims: list[Row], lines: list[Row]) -> None:
    """Adds a copy of a record in the other partition, directly behind the records of the same chunk. The buckets stay
    in order. Only condition 1 of `spark_jobs.matching.screen` makes the bucket with the record's claim unproven,
    too."""
    for row in (*claims[25::2], *lines[25::2]):
        row["offset"] += 1
    lines.append(lines[18] | {"partition": 1, "offset": 12})


def another_numbering(claims: list[Row], lines: list[Row]) -> None:
    """Makes the claim of a record have another partition sequence than the record in the log. The screen compares the
    wrong numbers, and does not see that proven records overtook this record."""
    claims[18]["partition_sequence"] = 30


BROKEN: dict[str, tuple[Break, set[str]]] = {
    "misrouted": (misrouted, {"MISROUTED"}),
    "claimed-twice": (claimed_twice, {"MISROUTED"}),
    "misrouted-in-order": (misrouted_in_order, {"MISROUTED"}),
    "misrouted-alone": (misrouted_alone, {"MISROUTED"}),
    "boundary": (reordered_across_a_boundary, {"REORDERED"}),
    "loss-and-phantom": (loss_and_phantom, {"LOST", "PHANTOM"}),
    "swap": (swapped_offsets, {"MISPLACED"}),
    "acked-swap": (swapped_offsets_as_acknowledged, {"REORDERED"}),
    "misplaced": (misplaced_by_one, {"MISPLACED"}),
    "late-duplicate": (late_duplicate, {"DUPLICATED"}),
    "late-in-all": (late_in_all, {"REORDERED"}),
    "late-between": (late_between, {"REORDERED", "DUPLICATED"}),
    "corrupted": (corrupted_and_attributed, {"CORRUPTED"}),
    "corrupted-late": (corrupted_and_overtaken_across_a_boundary, {"CORRUPTED"}),
    "resent": (resent, {"RESENT"}),
}


def _run(path: Path, arms: dict[str, Break], spark: SparkSession, **how: object) -> RunDirectory:
    claims, lines = [], []
    for ordinal, (arm, break_) in enumerate(arms.items(), 1):
        sides = _clean(arm, ordinal, "SENT" if arm == "sent" else "ACKED")
        break_(*sides)
        claims += sides[0]
        lines += sides[1]
    random.Random(1).shuffle(lines)
    run = write(path, scenario(list(arms), partitions=PARTITIONS), claims, lines)
    reconcile(path, True, spark, **how)  # type: ignore[arg-type]
    return run


def _published(run: RunDirectory) -> dict[str, list[str]]:
    names = ("anomalies", "counts/producers.parquet", "counts/invariants.parquet", "counts/cases.parquet")
    return {name: sorted(map(repr, table(run, name))) for name in names}


@pytest.fixture(scope="module")
def screened(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    arms = {arm: break_ for arm, (break_, _) in BROKEN.items()} | {"clean": nothing, "sent": nothing}
    return _run(tmp_path_factory.mktemp("screened"), arms, spark, bits=BITS)


def test_every_breakage_is_found_behind_the_screen(screened: RunDirectory) -> None:
    found: dict[str, set[str]] = {}
    for row in table(screened, "anomalies"):
        found.setdefault(row["arm"], set()).add(row["kind"])
        if row["arm"] == "corrupted-late":
            assert row["also"] == ["REORDERED"]
    assert found == {arm: kinds for arm, (_, kinds) in BROKEN.items()}
    assert "screen/refuted" not in screened.manifest("reconcile").counts


def test_most_of_what_surrounds_a_breakage_is_not_examined(screened: RunDirectory) -> None:
    counts = screened.manifest("reconcile").counts
    assert 0 < counts["screen/examined"] < 2 * RECORDS * len(BROKEN) / 2
    assert counts["screen/dirty"] < counts["screen/buckets"] / 2


def test_a_chunk_that_late_records_of_earlier_ones_pass_stays_proven(spark: SparkSession, tmp_path: Path) -> None:
    run = _run(tmp_path / "run", {"one": late_duplicate, "other": late_in_all}, spark, bits=BITS)
    counts = run.manifest("reconcile").counts
    assert (counts["screen/buckets"], counts["screen/dirty"]) == (32, 2 + 4)
    cases = {(row["arm"], row["kind"], row["sequence"]) for row in table(run, "anomalies")}
    assert cases == {("one", "DUPLICATED", 2), ("other", "REORDERED", 2), ("other", "REORDERED", 14)}


def test_the_exhaustive_matching_publishes_the_same(screened: RunDirectory, spark: SparkSession) -> None:
    before = _published(screened)
    reconcile(screened.path, True, spark, exhaustive=True)
    assert not [name for name in screened.manifest("reconcile").counts if name.startswith("screen/")]
    assert _published(screened) == before


def test_clean_data_is_not_matched_row_by_row(spark: SparkSession, tmp_path: Path) -> None:
    run = _run(tmp_path / "run", {"clean": nothing, "sent": nothing}, spark, bits=BITS)
    counts = run.manifest("reconcile").counts
    assert (counts["screen/buckets"], counts["screen/dirty"], counts["screen/examined"]) == (32, 0, 0)
    rows = [row for row in table(run, "counts/producers.parquet") if row["arm"] != "canary"]
    for name in ("attempted", "reported", "found", "first_copies", "log_records"):
        assert sum(row[name] for row in rows) == 2 * RECORDS, name
    assert table(run, "anomalies") == []


def test_a_line_with_another_numbering_than_its_claim_refutes_the_screen(spark: SparkSession, tmp_path: Path) -> None:
    run = _run(tmp_path / "run", {"other": another_numbering}, spark, bits=BITS)
    assert run.manifest("reconcile").counts["screen/refuted"] == 1
    before = _published(run)
    reconcile(run.path, True, spark, exhaustive=True)
    assert _published(run) == before
    assert len(table(run, "anomalies")) > 1


def test_more_buckets_than_the_bound_are_not_screened(
    monkeypatch: pytest.MonkeyPatch, spark: SparkSession, tmp_path: Path
) -> None:
    monkeypatch.setattr(buckets, "BOUND", 15)
    frames = _run(tmp_path / "run", {"clean": nothing}, spark, bits=BITS)
    assert "screen/buckets" in frames.manifest("reconcile").counts, "wider chunks fit the bound"
    monkeypatch.setattr(buckets, "width", lambda records, partitions, bits: bits)
    reconcile(frames.path, True, spark, bits=BITS)
    assert "screen/buckets" not in frames.manifest("reconcile").counts


def test_chunks_widen_with_the_load() -> None:
    assert buckets.width(1_000_000, 3) == buckets.BITS
    assert (10**9 >> buckets.width(10**9, 100)) * 100 <= buckets.BOUND // 2
