"""Tests of the tables beside the counts: cases and their bound, exposure, gaps and timeline. Also tests a run whose
load never came."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.run_directories import ILLEGIBLE, START_US, Row, attempt, line, scenario, table, write

from delivery_verifier import canary
from delivery_verifier.model.history import Injection
from delivery_verifier.model.record import parse
from delivery_verifier.model.snapshot import Offsets
from delivery_verifier.run_directory.effect_tables import EFFECT_TALLY
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.run_directory.tally import COUNTS, TABLES, Tally
from spark_jobs.checks import invariant, invariants
from spark_jobs.reconcile import reconcile, write_tally
from spark_jobs.schemas import LATENCY, LEDGER
from spark_jobs.summaries.silences import SLOT_US, gaps
from spark_jobs.summaries.summary import Summary, summarize, windows
from spark_jobs.summaries.timeline import QUANTILE_ERROR

S = 1_000_000
AS_SEEN = ("torn", "aborted_visible", "also_torn", "also_aborted_visible")


def _at(
    sent_s: float, settled_s: float | None, partition: int = 0, outcome: str = "ACKED", ended: str | None = None
) -> Row:
    """Returns an attempt of arm `one`. `sent_s` and `settled_s` are seconds since START_US. `ended` is the outcome of
    its transaction; None if it has no transaction."""
    settled = None if settled_s is None else START_US + int(settled_s * S)
    moments = {"sent_at": START_US + int(sent_s * S), "settled_at": settled, "partition": partition}
    moments |= {"transaction": ended and "0", "transaction_outcome": ended}
    _at.sequence += 1  # type: ignore[attr-defined]
    return attempt("one", _at.sequence, outcome, **moments)  # type: ignore[attr-defined]


_at.sequence = -1  # type: ignore[attr-defined]


def _injection(number: int, effect_s: float, recovered_s: float | None, hit: list[int]) -> Injection:
    return Injection(
        id=number,
        cycle=0,
        action="kill",
        brokers=[1],
        hit={"t-one": hit},
        requested_at_us=START_US,
        effect_at_us=START_US + int(effect_s * S),
        recovered_at_us=None if recovered_s is None else START_US + int(recovered_s * S),
    )


@pytest.fixture(scope="module")
def handmade(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    attempts = [
        _at(0.0, 0.1),  # settled too early for the window of injection 0, which opens at 9 s
        _at(8.0, 9.0),  # at its opening: exposed
        _at(9.5, 10.5),  # outstanding at the effect, and exposed
        _at(9.6, None, outcome="INDETERMINATE"),  # outstanding, never reported
        _at(9.7, 12.0, partition=1),  # outstanding, on a partition that was not hit
        _at(10.0, 11.0),  # sent at the effect itself: exposed, not outstanding
        _at(15.0, 15.1),  # at recovery: exposed
        _at(11.0, 11.5, ended="COMMITTED"),  # in a transaction that may be torn: exposed
        _at(11.0, 11.5, ended="ABORTED"),
        _at(11.0, 11.5, ended="INDETERMINATE"),  # in one that cannot
        _at(15.1, 15.3),  # after it
        _at(20.0, 20.2, partition=1),
    ]
    made = [_injection(0, 10, 15, [0]), _injection(1, 14, None, [1]), _injection(2, 50, 60, [])]
    run = write(tmp_path_factory.mktemp("handmade"), scenario(["one", "idle"]), attempts, [], injections=made)
    reconcile(run.path, True, spark)
    return run


def test_exposure_counts_what_an_injection_could_have_hurt(handmade: RunDirectory) -> None:
    found = {
        (row["arm"], row["injection"]): (row["reported"], row["outstanding"])
        for row in table(handmade, "counts/exposure.parquet")
    }
    assert found == {
        ("one", 0): (5, 3),
        ("one", 1): (1, 1),
        ("one", 2): (0, 1),
        ("idle", 0): (0, 0),
        ("idle", 1): (0, 0),
        ("idle", 2): (0, 0),
    }


def test_the_longest_gap_of_each_partition_is_found_and_null_where_nothing_was_reported(
    handmade: RunDirectory,
) -> None:
    found = {
        (row["arm"], row["partition"]): (row["longest_gap_s"], row["gap_start_us"])
        for row in table(handmade, "counts/gaps.parquet")
    }
    assert found == {
        ("one", 0): (pytest.approx(8.9), START_US + 100_000),
        ("one", 1): (pytest.approx(8.2), START_US + 12 * S),
        ("idle", 0): (None, None),
        ("idle", 1): (None, None),
    }


def test_of_the_silence_before_the_load_only_what_is_left_of_it_counts(
    spark: SparkSession, handmade: RunDirectory
) -> None:
    summary = summarize(spark.read.schema(LEDGER).parquet(str(handmade.path / "ledger")), [], 200_000, SLOT_US)
    assert _gap(summary, START_US + 5 * S) == (4.0, START_US + 5 * S)
    assert _gap(summary, START_US + 10 * S) == (pytest.approx(3.6), START_US + int(11.5 * S)), (
        "what ended before is not the load's"
    )
    assert _gap(summary, START_US + 50 * S) == (None, None)


def _gap(summary: Summary, began_us: int) -> tuple[float | None, int | None]:
    row = gaps(summary.slots, began_us, scenario(["one"])).to_pylist()[0]
    assert (row["arm"], row["partition"]) == ("one", 0)
    return row["longest_gap_s"], row["gap_start_us"]


def test_the_timeline_has_every_interval_and_counts_each_attempt_once(handmade: RunDirectory) -> None:
    rows = [row for row in table(handmade, "timeline/load.parquet") if row["arm"] == "one"]
    moments = [row["at_us"] for row in rows]
    assert moments == list(range(START_US, START_US + int(20.4 * S), 200_000))
    totals = {name: sum(row[name] for row in rows) for name in ("sent", "reported", "indeterminate", "failed")}
    assert totals == {"sent": 12, "reported": 11, "indeterminate": 1, "failed": 0}
    first = rows[0]
    assert (first["sent"], first["reported"]) == (1, 1)
    assert first["latency_ms_p50"] == first["latency_ms_p99"] == pytest.approx(100.0, rel=QUANTILE_ERROR)
    assert rows[1]["latency_ms_p50"] is None


def test_latencies_are_counted_apart_for_what_was_under_way_during_a_fault(handmade: RunDirectory) -> None:
    rows = table(handmade, "timeline/latency.parquet")
    assert list(pq.read_schema(handmade.path / "timeline/latency.parquet").names) == LATENCY.names
    found = {(row["arm"], row["inside"], round(row["latency_ms_from"], 3)): row["records"] for row in rows}
    assert found == {  # injection 1 never recovered: inside is everything from 14 s on
        ("one", False, 100.0): 1,
        ("one", False, 1000.0): 1,
        ("one", True, 100.0): 1,
        ("one", True, 199.526): 2,
        ("one", True, 446.684): 3,
        ("one", True, 1000.0): 2,
        ("one", True, 2238.721): 1,
    }
    assert all(row["latency_ms_until"] / row["latency_ms_from"] == pytest.approx(10 ** (1 / 20)) for row in rows)


def test_windows_that_meet_are_one_and_a_fault_without_recovery_never_ends() -> None:
    made = [
        _injection(0, 10, 15, []),
        _injection(1, 15, 20, []),
        _injection(2, 30, 31, []),
        _injection(3, 40, None, []),
    ]
    found = [((since - START_US) / S, until) for since, until in windows(made)]
    assert found == [(10, START_US + 20 * S), (30, START_US + 31 * S), (40, 2**62)]


def test_what_reconcile_writes_is_what_the_tally_promise(handmade: RunDirectory) -> None:
    assert Tally.read(handmade.path).problems == []
    for name, columns in TABLES.items():
        if name != EFFECT_TALLY.file:  # no arm has an application
            assert tuple(pq.read_schema(handmade.path / name).names) == columns, name


def test_a_load_that_never_came_still_has_all_planned_rows(spark: SparkSession, tmp_path: Path) -> None:
    made = scenario(["one"], partitions=3, producers=2)
    run = write(tmp_path, made, [], [])
    reconcile(run.path, True, spark)
    rows = table(run, "counts/producers.parquet")
    assert len([row for row in rows if row["arm"] == "one"]) == 3 * (2 + 1)
    assert len([row for row in rows if row["arm"] == "canary"]) == 3 * (1 + 1)
    assert {row[name] for row in rows for name in COUNTS} == {0}
    assert [row for row in table(run, "counts/invariants.parquet") if row["left"] != row["right"]] == []
    assert table(run, "anomalies") == []


@pytest.fixture(scope="module")
def cut(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    lost = [attempt("one", n, offset=900 + n, partition=n % 2) for n in range(5)]
    run = write(tmp_path_factory.mktemp("cut"), scenario(["one"]), lost, [])
    with run.writing("reconcile") as output:
        write_tally(run, run.read_scenario(), output, spark, bound=2)
    return run


def test_cases_beyond_the_bound_are_cut_lowest_first_and_the_cut_is_recorded(cut: RunDirectory) -> None:
    kept = [(row["partition"], row["sequence"]) for row in table(cut, "anomalies")]
    assert sorted(kept) == [(0, 0), (0, 2)]
    lost = next(row for row in table(cut, "counts/cases.parquet") if (row["arm"], row["kind"]) == ("one", "LOST"))
    assert (lost["cases"], lost["written"], lost["cut"]) == (5, 2, True)
    assert [row for row in table(cut, "counts/invariants.parquet") if row["left"] != row["right"]] == []


def test_a_case_that_was_not_written_unbalances_its_invariant(cut: RunDirectory) -> None:
    tally = pq.read_table(cut.path / "counts/producers.parquet")
    for written, bound in ((1, 2), (4, 10), (6, 10)):
        evidence = invariant.InvariantInputs(
            scenario=cut.read_scenario(),
            offsets=Offsets(bootstrap_servers="", taken_at_us=0, partitions=[]),
            producers=tally,
            ledger_census=tally.slice(0, 0),
            log_census=tally.slice(0, 0),
            announced={},
            read={},
            written={("one", "LOST"): written},
            bound=bound,
        )
        rows = [row for row in invariants.invariants(evidence).to_pylist() if row["invariant"] == "anomaly_rows"]
        assert [row["left_name"] for row in rows if row["left"] != row["right"]] == ["rows of LOST"]


@pytest.mark.parametrize("transactional", [(), ("one",)], ids=["plain", "transactional"])
def test_the_canary_comes_out_as_it_was_planned(
    spark: SparkSession, tmp_path: Path, transactional: tuple[str, ...]
) -> None:
    made = scenario(["one"], transactional=transactional)
    plan = canary.lay_out(made)
    rows = canary.ledger_table(made, plan, list(range(len(plan.values)))).to_pylist()
    lines = []
    for offset, (partition, value) in enumerate(plan.values):
        header = parse(value)
        said = (
            ILLEGIBLE
            if header is None
            else {
                "producer": header.producer,
                "sequence": header.sequence,
                "attempt": header.attempt,
                "partition_sequence": header.partition_sequence,
                "crc_ok": header.crc_ok,
                "header_arm": header.arm,
                "foreign": header.arm != made.canary.ordinal,
            }
        )
        lines.append(line("canary", 0, offset, 0, partition=partition) | said)
    hidden = sum(count for count, committed in plan.transactions if not committed)
    visible = lines[: len(lines) - hidden] if transactional else []
    run = write(tmp_path, made, rows, [*lines, *({**row, "view": "committed"} for row in visible)])
    reconcile(run.path, True, spark)
    assert Tally.read(run.path).totals("canary") == dict.fromkeys(COUNTS, 0) | plan.counts
    details = [
        row["detail"] for row in table(run, "anomalies") if {row["kind"], *row["also"]} & {"TORN", "ABORTED_VISIBLE"}
    ]
    assert len(details) == sum(plan.counts[name] for name in AS_SEEN)
    assert all("in the committed view" in detail for detail in details)
