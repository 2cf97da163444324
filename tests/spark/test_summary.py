"""Compares what follows from the summary of the load with an exact oracle, which looks at every attempt: silences,
percentiles, latencies and exposure, in a load of six hours and in a load of seconds.

tests/unit/spark_jobs/test_silences.py does the same for silences of any length, without Spark.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support.compilations import compilations
from support.run_directories import START_US, Row, attempt, scenario
from support.silences import Micros, check_gaps

from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.history import LEAD_US, Injection
from delivery_verifier.model.outcomes import REPORTED
from delivery_verifier.run_directory import ledger
from spark_jobs.matching import screen
from spark_jobs.schemas import CHUNKS, LEDGER, arrow
from spark_jobs.summaries import silences, timeline
from spark_jobs.summaries.exposure import exposure
from spark_jobs.summaries.summary import LONG_AGO_US, Summary, edges_of, since, summarize, windows

S, HOURS_US = 1_000_000, 6 * 3_600_000_000
ARMS = ("outage", "dense", "burst", "edges")
PARTITIONS = 2


class Load(NamedTuple):
    """A load: its attempts, the width of a slot, and the summary. All times are µs."""

    rows: list[Row]
    slot_us: int
    width_us: int
    summary: Summary


def _reports(arm: str, slot_us: int, span_us: int, chance: np.random.Generator) -> Micros:
    """Returns the times of the reports of an arm since the begin of the load, in order."""
    if arm == "outage":  # a silence of 3 s among silences below half a second
        times = np.cumsum(chance.integers(1, min(S // 2, span_us // 1_000), 1_500))
        times[750:] += 3 * S
    elif arm == "dense":  # no silence is as long as a slot
        times = np.cumsum(chance.integers(1, slot_us * 9 // 10, 1_500))
    elif arm == "burst":  # many reports at a time, and silences of any length up to a slot and a half
        times = np.cumsum(chance.choice([0, 1, 40, slot_us // 3, slot_us * 3 // 2], 1_500))
    else:  # silences that are a slot long, or one µs shorter or longer
        times = np.cumsum(slot_us + chance.integers(-1, 2, 500))
    return times[times < span_us]


def _load(spark: SparkSession, span_us: int, injections: list[Injection]) -> Load:
    chance = np.random.default_rng(span_us)
    slot_us = silences.slot_us(START_US, START_US + span_us, len(ARMS) * PARTITIONS)
    rows: list[Row] = []
    for arm in ARMS:
        for partition in range(PARTITIONS):
            for report_us in _reports(arm, slot_us, span_us, chance):
                outcome, ended = chance.choice(["ACKED", "SENT"]), chance.choice(["", "COMMITTED", "ABORTED"])
                settled = START_US + int(report_us)
                moments = {"sent_at": settled - int(np.exp(chance.uniform(-1, 17))), "settled_at": settled}
                rows.append(
                    attempt(arm, len(rows), outcome, partition=partition, **moments)
                    | ({"transaction": "0", "transaction_outcome": ended} if ended else {})
                )
        for outcome, moments in (("INDETERMINATE", {"settled_at": None}), ("FAILED", {})):
            rows.append(attempt(arm, len(rows), outcome, **moments))
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, schema=ledger.SCHEMA), LEDGER)
    width_us = timeline.interval_us(START_US, START_US + span_us)
    return Load(rows, slot_us, width_us, summarize(frame, injections, width_us, slot_us))


def _injection(number: int, effect_s: int, recovered_s: int | None) -> Injection:
    return Injection(
        id=number,
        cycle=0,
        action="kill",
        brokers=[1],
        hit={f"t-{arm}": [number % PARTITIONS] for arm in ARMS},
        requested_at_us=START_US,
        effect_at_us=START_US + effect_s * S,
        recovered_at_us=None if recovered_s is None else START_US + recovered_s * S,
    )


INJECTIONS = [_injection(0, 5, 9), _injection(1, 8, 12), _injection(2, 30, None)]


@pytest.fixture(scope="module", params=[HOURS_US, 40 * S], ids=["six-hours", "seconds"])
def load(request: pytest.FixtureRequest, spark: SparkSession) -> Load:
    return _load(spark, request.param, INJECTIONS)


def _by_partition(rows: list[Row]) -> dict[tuple[str, int], Micros]:
    times: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for row in rows:
        if row["outcome"] in REPORTED:
            times[row["arm"], row["partition"]].append(row["settled_at"])
    return {key: np.array(value) for key, value in times.items()}


def test_a_silence_is_exact_if_it_is_as_long_as_a_slot_and_else_short_by_less_than_one(load: Load) -> None:
    reports, seen = _by_partition(load.rows), Counter[str]()
    for began_s in (0, 1, 10):
        began_us = START_US + began_s * S
        rows = silences.gaps(load.summary.slots, began_us, scenario(ARMS, PARTITIONS)).to_pylist()
        seen += check_gaps(rows, reports, began_us, load.slot_us)
    assert min(seen["exact"], seen["short"]) > 1, seen
    outages = [row["longest_gap_s"] for row in rows if row["arm"] == "outage"]
    assert min(outages) > 3, "a slot is far shorter than what a user looks for"


def test_a_load_that_spans_more_than_a_run_lasts_has_no_timeline(load: Load) -> None:
    first, second = load.summary.intervals.slice(0, 2).to_pylist()
    second |= {"arm": first["arm"], "sent_us": first["sent_us"] + (timeline.INTERVALS + 1) * timeline.COARSE_US}
    with pytest.raises(StepFailed, match="was the clock of this host set"):
        timeline.load(pa.Table.from_pylist([first, second], load.summary.intervals.schema), timeline.COARSE_US)


def test_many_injections_are_counted_whether_their_times_are_an_array_or_literals(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [attempt(ARMS[0], n, "ACKED", sent_at=START_US + n * S, settled_at=START_US + n * S + 5) for n in range(40)]
    pq.write_table(pa.Table.from_pylist(rows, schema=ledger.SCHEMA), tmp_path / "ledger.parquet")
    frame = spark.read.schema(LEDGER).parquet(str(tmp_path))
    apart = [_injection(number, 3 * number, 3 * number + 1) for number in range(1, 21)]
    found = []
    for most in (1000, 0):
        monkeypatch.setattr("spark_jobs.summaries.summary.MOST_MOMENTS", most)
        summary = summarize(frame, apart, 200_000, 1000)
        found.append([sorted(map(repr, table.to_pylist())) for table in summary])
    assert found[0] == found[1]
    assert sum("'inside': True" in row for row in found[0][0]) > 1


def test_a_thousand_injections_make_one_flat_expression(spark: SparkSession) -> None:
    """A plan may have 1,000 injections. A chain of so many conditions overflows the stack of Spark's analyser."""
    many = [_injection(number, number, number + 1) for number in range(1, 1001)]
    moments = spark.createDataFrame([(START_US + 5 * S + 1,), (START_US - 9 * S,), (None,)], "moment bigint")
    rows = moments.select(since(F.col("moment"), [*map(F.lit, edges_of(many))])).collect()
    assert [row[0] for row in rows] == [START_US + 5 * S + 1, LONG_AGO_US, None]


def test_percentiles_and_counts_of_every_interval_are_those_of_its_attempts(load: Load) -> None:
    latencies: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    counts: defaultdict[tuple[str, int], Counter[str]] = defaultdict(Counter)
    for row in load.rows:
        known = row["sent_at"] if row["settled_at"] is None else row["settled_at"]
        sent_us, known_us = (moment - moment % load.width_us for moment in (row["sent_at"], known))
        counts[row["arm"], sent_us]["sent"] += 1
        counts[row["arm"], known_us]["reported" if row["outcome"] in REPORTED else row["outcome"].lower()] += 1
        if row["outcome"] in REPORTED:
            latencies[row["arm"], known_us].append(max(1, row["settled_at"] - row["sent_at"]))
    rows = timeline.load(load.summary.intervals, load.width_us).to_pylist()
    for row in rows:
        key = row["arm"], row["at_us"]
        assert {name: row[name] for name in ("sent", "reported", "indeterminate", "failed")} == {
            name: counts[key][name] for name in ("sent", "reported", "indeterminate", "failed")
        }
        for name, share in timeline.QUANTILES.items():
            if key not in latencies:
                assert row[name] is None
                continue
            exact_ms = np.quantile(latencies[key], share / 100, method="inverted_cdf") / 1000
            assert row[name] == pytest.approx(exact_ms, rel=timeline.QUANTILE_ERROR + 1e-9), row
    assert {(row["arm"], row["at_us"]) for row in rows} >= {*latencies}
    assert max(map(len, latencies.values())) > 20 and timeline.QUANTILE_ERROR < 0.015


def test_latencies_and_exposure_are_those_of_every_attempt(load: Load) -> None:
    by_range = timeline.latency(load.summary.intervals).to_pylist()
    joined = windows(INJECTIONS)
    for arm in ARMS:
        reported = [row for row in load.rows if row["arm"] == arm and row["outcome"] in REPORTED]
        for inside in (True, False):
            latencies_ms = np.array(
                [
                    max(1, row["settled_at"] - row["sent_at"]) / 1000
                    for row in reported
                    if inside
                    == any(row["sent_at"] <= end and row["settled_at"] >= effect_at for effect_at, end in joined)
                ]
            )
            own = [row for row in by_range if (row["arm"], row["inside"]) == (arm, inside)]
            assert sum(row["records"] for row in own) == len(latencies_ms)
            for row in own:  # an edge of a range is a decimal fraction: a latency on it may count in either range
                low, high = row["latency_ms_from"], row["latency_ms_until"]
                least = ((latencies_ms >= low * (1 + 1e-8)) & (latencies_ms < high * (1 - 1e-8))).sum()
                most = ((latencies_ms >= low * (1 - 1e-8)) & (latencies_ms < high * (1 + 1e-8))).sum()
                assert least <= row["records"] <= most
    exposed = exposure(load.summary.slots, INJECTIONS, scenario(ARMS, PARTITIONS)).to_pylist()
    assert {(row["arm"], row["injection"]): (row["reported"], row["outstanding"]) for row in exposed} == {
        (arm, injection.id): _exposed([row for row in load.rows if row["arm"] == arm], injection)
        for arm in ARMS
        for injection in INJECTIONS
    }
    assert sum(row["reported"] for row in exposed) > 20


def _exposed(rows: list[Row], injection: Injection) -> tuple[int, int]:
    """How many of `rows`, attempts of an arm, an injection could have hurt, and how many were outstanding at its
    effect."""
    effect_at, end = injection.effect_at_us, injection.recovered_at_us
    reported = outstanding = 0
    for row in rows:
        sent, settled, hit = row["sent_at"], row["settled_at"], injection.hit[f"t-{row['arm']}"]
        exposable = row["outcome"] in REPORTED and row["transaction_outcome"] in (None, "COMMITTED")
        under_way = settled is not None and settled >= effect_at - LEAD_US and (end is None or sent <= end)
        reported += exposable and row["partition"] in hit and under_way
        outstanding += sent < effect_at and (settled is None or settled > effect_at)
    return reported, outstanding


def test_another_run_needs_no_other_code(spark: SparkSession, tmp_path: Path) -> None:
    """Times of injections and numbers of chunks differ from run to run. Code with them would be compiled anew."""
    row = attempt(ARMS[0], 0, "ACKED", sent_at=START_US, settled_at=START_US + 1)
    pq.write_table(pa.Table.from_pylist([row], schema=ledger.SCHEMA), tmp_path / "ledger.parquet")
    frame = spark.read.schema(LEDGER).parquet(str(tmp_path))
    counts = []
    for number in (1, 2, 3):
        summarize(frame, [_injection(number, number, 10 * number)], 200_000, 1000)
        screen.unproven(frame, _proven(number)).toArrow()
        counts.append(compilations(spark))
    assert 0 < counts[0] == counts[1] == counts[2]
    frame.where(F.col("sequence") % 987_654_321 == 1).toArrow()
    assert compilations(spark) > counts[2], "a number that is new is compiled, and counted"


def _proven(chunk: int) -> screen.Screen:
    key = {"arm": ARMS[0], "producer": 0, "session": 0, "chunk": chunk}
    chunks = pa.Table.from_pylist([key], schema=arrow(CHUNKS))
    return screen.Screen(14, [], chunks, [], [], pa.table({}), {})
