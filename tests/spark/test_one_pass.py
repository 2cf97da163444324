"""Tests of the counts' few queries: how many a clean run takes, and that their result is that of many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support.run_directories import START_US, Row, attempt, line, scenario, table, write
from support.stored_data import NAMES, RUNS

from delivery_verifier import canary
from delivery_verifier.model.history import Injection
from delivery_verifier.model.record import parse
from delivery_verifier.run_directory.run_directory import RunDirectory
from spark_jobs import reconcile as job
from spark_jobs.matching import buckets, census, fingerprints, screen
from spark_jobs.schemas import LEDGER, LOG
from spark_jobs.summaries import silences, timeline
from spark_jobs.summaries.summary import summarize

RECORDS = 4_000
MAX_QUERIES, MAX_JOBS = 6, 12
"""The most queries and jobs that the counts of a clean run may take."""


@contextmanager
def _counting(spark: SparkSession) -> Iterator[dict[str, int]]:
    """Yields a dictionary. After the block, it has the numbers of `queries` and `jobs` that ran in the block, and
    of the `adaptive` queries among them."""

    def so_far() -> tuple[dict[int, bool], int]:
        context = spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()
        queries = spark._jsparkSession.sharedState().statusStore().executionsList()
        every = [queries.apply(at) for at in range(queries.size())]
        adaptive = {query.executionId(): "AdaptiveSparkPlan" in query.physicalPlanDescription() for query in every}
        jobs = context.statusStore().jobsList(None)
        return adaptive, max((jobs.apply(at).jobId() for at in range(jobs.size())), default=-1)

    counts: dict[str, int] = {}
    before = so_far()
    yield counts
    after = so_far()
    last = max(before[0], default=-1)
    counts |= {"queries": max(after[0], default=-1) - last, "jobs": after[1] - before[1]}
    counts["adaptive"] = sum(adaptive for number, adaptive in after[0].items() if number > last)


def _canary() -> tuple[list[Row], list[Row]]:
    """Returns the planted ledger and log of a canary, as every run has them."""
    made = scenario(["one"])
    plan = canary.lay_out(made)
    lines = []
    for offset, (partition, value) in enumerate(plan.values):
        header = parse(value)
        names = ("producer", "sequence", "attempt", "partition_sequence", "crc_ok")
        named = (
            dict.fromkeys((*names[:4], "session", "header_run", "header_arm")) | {"parsed": False, "crc_ok": False}
            if header is None
            else {name: getattr(header, name) for name in names}
        )
        lines.append(line("canary", 0, offset, 0, partition=partition) | named)
    return canary.ledger_table(made, plan, list(range(len(plan.values)))).to_pylist(), lines


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run in which only the planted anomalies of the canary are to be found, with one fault."""
    return _clean(tmp_path_factory.mktemp("clean"), [])


def _clean(path: Path, more_lines: list[Row]) -> RunDirectory:
    claims, lines = _canary()
    lines += more_lines
    for n in range(RECORDS):
        place = {"partition": n % 2, "partition_sequence": n // 2}
        claims.append(attempt("one", n, offset=n // 2, **place))
        lines.append(line("one", 1, n // 2, n, **place))
    fault = Injection(
        id=0,
        cycle=0,
        action="kill",
        brokers=[1],
        hit={"t-one": [0]},
        requested_at_us=START_US,
        effect_at_us=START_US + 1_000_000,
        recovered_at_us=START_US + 2_000_000,
    )
    return write(path, scenario(["one"]), claims, lines, injections=[fault])


def _published(run: RunDirectory) -> dict[str, list[str]]:
    names = [
        f"counts/{name}.parquet" for name in ("producers", "partitions", "invariants", "cases", "exposure", "gaps")
    ]
    names += ["anomalies", "timeline/load.parquet", "timeline/latency.parquet"]
    return {name: sorted(map(repr, table(run, name))) for name in names}


@pytest.fixture(scope="module")
def matched(spark: SparkSession, clean: RunDirectory) -> dict[str, list[str]]:
    """What the matching of all records publishes of the clean run."""
    job.reconcile(clean.path, True, spark, exhaustive=True)
    return _published(clean)


@pytest.mark.parametrize("small_rows", [0, job.SMALL_ROWS], ids=["shuffled", "small"])
def test_the_tally_of_a_clean_run_take_few_queries_and_jobs_and_are_those_of_the_exhaustive_matching(
    spark: SparkSession,
    clean: RunDirectory,
    matched: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    small_rows: int,
) -> None:
    monkeypatch.setattr(job, "SMALL_ROWS", small_rows)
    with _counting(spark) as counts:
        job.reconcile(clean.path, True, spark, bits=10)
    found = {(row["arm"], row["kind"]) for row in table(clean, "anomalies")}
    assert len(found) > 5 and {arm for arm, _ in found} == {"canary"}, "the canary was searched, and found"
    assert 0 < counts["queries"] <= MAX_QUERIES, counts
    assert 0 < counts["jobs"] <= MAX_JOBS, counts
    assert bool(counts["adaptive"]) == (small_rows == 0), counts
    assert clean.manifest("reconcile").counts["screen/examined"] < RECORDS / 10, "what is proven clean is not joined"
    assert _published(clean) == matched


@pytest.mark.parametrize("small_rows", [0, job.SMALL_ROWS], ids=["collected", "small"])
def test_a_record_of_another_run_is_a_phantom_beside_records_that_are_proven(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_rows: int
) -> None:
    monkeypatch.setattr(job, "SMALL_ROWS", small_rows)
    run = _clean(tmp_path, [line("one", 1, RECORDS, 7, header_run="otherrun", foreign=True)])
    job.reconcile(run.path, True, spark, bits=10)
    assert run.manifest("reconcile").counts["screen/examined"] < RECORDS / 10
    cases = [(row["kind"], row["offsets"]) for row in table(run, "anomalies") if row["arm"] == "one"]
    assert cases == [("PHANTOM", [RECORDS])]


def test_a_corrupted_record_of_a_proven_attempt_refutes_the_screen(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has two records at one offset, of which one is sound. So only the owner of the other is suspicious."""
    monkeypatch.setattr(job, "SMALL_ROWS", 0)
    corrupted = line("one", 1, 50, 100, partition_sequence=50, crc_ok=False)
    run = _clean(tmp_path, [corrupted])
    job.reconcile(run.path, True, spark, bits=10)
    assert run.manifest("reconcile").counts["screen/refuted"] == 1
    before = _published(run)
    assert any("CORRUPTED" in row and "'sequence': 100" in row for row in before["anomalies"])
    job.reconcile(run.path, True, spark, exhaustive=True)
    assert _published(run) == before


def _frames(spark: SparkSession, run: Path) -> tuple[Any, Any]:
    ledger = spark.read.schema(LEDGER).parquet(str(run / "ledger"))
    return ledger, spark.read.schema(LOG).parquet(str(run / "log")).where("view = 'raw'")


@pytest.mark.parametrize("name", NAMES)
def test_the_buckets_add_up_to_the_census_that_other_queries_count(spark: SparkSession, name: str) -> None:
    ledger, log = _frames(spark, RUNS / name)
    counted = buckets.count(ledger, log, 8)
    assert counted is not None
    for one, other in zip(census.of_buckets(counted.table), census.of_frames(ledger, log), strict=True):
        assert one.num_rows and one.column_names == other.column_names
        assert sorted(map(repr, one.to_pylist())) == sorted(map(repr, other.to_pylist()))


@pytest.mark.parametrize("name", NAMES)
def test_a_percentile_of_the_timeline_is_no_more_than_its_stated_error_off(spark: SparkSession, name: str) -> None:
    ledger, _ = _frames(spark, RUNS / name)
    rows = timeline.load(summarize(ledger, [], 200_000, 1000).intervals, 200_000).to_pylist()
    claims = pq.read_table(RUNS / name / "ledger", columns=["arm", "outcome", "sent_at", "settled_at"])
    is_reported = pc.is_in(claims["outcome"], pa.array(["ACKED", "SENT"]))
    claims = claims.filter(pc.and_(is_reported, claims["settled_at"].is_valid()))
    settled, sent = (claims[column].cast(pa.int64()).to_numpy() for column in ("settled_at", "sent_at"))
    arms = np.array(claims["arm"].to_pylist())
    compared = 0
    for row in rows:
        of_row = (arms == row["arm"]) & (settled - settled % 200_000 == row["at_us"])
        latencies_ms = np.maximum(settled - sent, 1)[of_row] / 1000
        assert (row["latency_ms_p50"] is None) == (not len(latencies_ms))
        for quantile, share in timeline.QUANTILES.items():
            if len(latencies_ms):
                exact = np.quantile(latencies_ms, share / 100, method="inverted_cdf")
                assert row[quantile] == pytest.approx(exact, rel=timeline.QUANTILE_ERROR + 1e-9)
                compared += 1
    assert compared > 50 and timeline.QUANTILE_ERROR < 0.015


def test_a_wide_slot_hides_only_silences_that_are_shorter_than_it() -> None:
    reports = [(0, 0), (0, 900), (1000, 1300), (1000, 1900), (3000, 3050)]  # (slot, report) in µs, slots of 1 ms
    slots = pa.Table.from_pylist(
        [{"arm": "one", "partition": 0, "slot": at, "first_us": us, "last_us": us} for at, us in reports]
    )
    row = silences.gaps(slots, 0, scenario(["one"])).to_pylist()[0]
    assert (row["longest_gap_s"], row["gap_start_us"]) == (pytest.approx(0.00115), 1900)
    row = silences.gaps(slots.slice(0, 4), 0, scenario(["one"])).to_pylist()[0]
    assert row["longest_gap_s"] == pytest.approx(0.0004), "900 µs of silence were within a slot"
    assert silences.slot_us(0, 15_000_000, 6) == silences.SLOT_US
    hour_us = 3_600_000_000
    assert hour_us // silences.slot_us(0, hour_us, 6) * 6 <= silences.SLOTS


def test_the_fingerprint_of_a_sequence_is_sparks(spark: SparkSession) -> None:
    values = [0, 1, 2, 63, 64, 2**14, 2**31, 2**32 + 5, 2**62, 2**63 - 1]
    rows = spark.createDataFrame([(value,) for value in values], "n bigint").select(F.xxhash64("n").alias("hash"))
    assert fingerprints.xxhash64(np.array(values, dtype=np.int64)).tolist() == [row["hash"] for row in rows.collect()]
    halves = [(row["hash"] & 0xFFFFFFFF, row["hash"] >> 32) for row in rows.limit(3).collect()]
    assert fingerprints.sums(0, 2) == tuple(map(sum, zip(*halves, strict=True)))


def _sequences(numbers: list[int]) -> list[Row]:
    low, high = (
        sum(int(half) for half in halves)
        for halves in zip(*(fingerprints.sums(number, number) for number in numbers), strict=True)
    )
    spans = {"claimed_sequence_min": min(numbers), "claimed_sequence_max": max(numbers)}
    return [{"attempted": len(numbers), "sequences_low": low, "sequences_high": high} | spans]


def test_a_repeated_sequence_is_noticed_even_if_number_sum_and_squares_fit() -> None:
    assert screen._each_once(_sequences([4, 5, 6, 7]))
    assert not screen._each_once(_sequences([4, 6, 7])), "one is missing"
    assert not screen._each_once(_sequences([4, 5, 5, 7])), "one is there twice"
    assert not screen._each_once(_sequences([0, 0, 3, 4, 4, 5, 5, 7])), "numbers as from 0 to 7 in count"
    repeated, missing = [0, 4, 5], [1, 2, 6]
    numbers = sorted([*repeated, *(n for n in range(8) if n not in missing)])
    assert sum(numbers) == sum(range(8)) and sum(n * n for n in numbers) == sum(n * n for n in range(8))
    assert not screen._each_once(_sequences(numbers))


def test_proven_rows_are_left_out_by_ranges_as_by_a_join(
    spark: SparkSession, clean: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, log = _frames(spark, clean.path)
    counted = buckets.count(ledger, log, 8)
    assert counted is not None
    proven = screen.prove(counted, set())
    assert proven is not None and proven.whole == ["one"]
    chunks = [row | {"arm": "one"} for row in [{"producer": 0, "session": 0, "chunk": at} for at in (0, 1, 2, 9)]]
    partial = proven._replace(whole=[], chunks=pa.Table.from_pylist(chunks, schema=proven.chunks.schema))
    odd = F.col("sequence") % 100 == 0

    def kept(exempt: Any) -> list[Any]:
        rows = screen.unproven(ledger, partial, exempt=exempt).select("arm", "sequence", "attempt")
        return sorted(map(tuple, rows.collect()))

    by_ranges = [kept(None), kept(odd)]
    monkeypatch.setattr(screen, "FEW_RANGES", 0)
    assert by_ranges == [kept(None), kept(odd)]
    missing = set(range(RECORDS)) - {sequence for arm, sequence, _ in by_ranges[0] if arm == "one"}
    assert missing == {*range(3 * 256), *range(9 * 256, 10 * 256)}
