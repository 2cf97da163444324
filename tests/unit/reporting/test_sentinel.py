"""Tests of what is shown of sentinels: the result of a run, the figures of a history, its picture and its page. A run
without a verdict is never a success."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from support.run_builder import begun, judged
from support.sentinels import BEGUN_US, CLUSTER, MINUTE_US, WHY, all_day, result
from support.stored_data import HELD, stored_run

from delivery_verifier.model.sentinel import SentinelResult, State
from delivery_verifier.reporting.sentinel import figures, page, picture
from delivery_verifier.reporting.sentinel.result import arms_of, state_of
from delivery_verifier.run_directory import sentinel_history
from delivery_verifier.run_directory.sentinel_history import History

STATES: list[State] = ["HELD", "VIOLATED", "SKIPPED", "NO VERDICT", "HELD"]


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def shown(results: list[SentinelResult], runs: Path, **more: object) -> str:
    """The page of one cluster with these results, newest first, a minute after the newest."""
    at_us = results[0].at_us + MINUTE_US if results else 0
    history = {CLUSTER: History(results)} if results else {}
    return page.render(history, at_us, runs=runs, **more)  # type: ignore[arg-type]


# ---- The result of a run.


def test_the_figures_of_a_run_are_those_of_its_verdict_and_its_latencies(tmp_path: Path) -> None:
    run = stored_run(HELD, tmp_path)
    (arm,) = arms_of(run.path, run.verdict())
    claims = pq.read_table(run.path / "ledger" / "transactional-0-0.parquet").to_pylist()
    acked = [row["settled_at"] - row["sent_at"] for row in claims if row["outcome"] == "ACKED"]
    assert (arm.arm, arm.verdict, arm.attempted, arm.acknowledged) == ("transactional", "HELD", len(claims), len(acked))
    assert arm.in_time == sum(latency < timedelta(seconds=1) for latency in acked)
    assert arm.in_time < arm.acknowledged, "the leader was away for longer than a second"
    assert arm.latency_ms_p50 and arm.latency_ms_p99 and 0 < arm.latency_ms_p50 < 1000 < arm.latency_ms_p99


def test_what_took_longer_than_a_second_is_not_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stored_run(HELD, tmp_path)
    (whole,) = arms_of(run.path, run.verdict())
    monkeypatch.setattr("delivery_verifier.reporting.sentinel.result.IN_TIME_MS", whole.latency_ms_p50)
    (cut,) = arms_of(run.path, run.verdict())
    assert 500 <= cut.in_time < cut.acknowledged, "the limit of a bucket belongs to what is in time"


def test_a_run_that_is_not_green_is_never_held() -> None:
    run = begun("r")
    for arm in run.plan.loaded:
        run.arm(arm.name, "HELD" if arm.role == "subject" else "INCONCLUSIVE", as_expected=arm.role == "subject")
    assert state_of(run.verdict("HELD")) == "INCONCLUSIVE"
    assert state_of(replace(run.verdict("HELD"), green=True)) == "HELD"
    assert state_of(run.verdict("VIOLATED", green=False)) == "INCONCLUSIVE"
    assert state_of(replace(run.verdict("HELD", green=False), arms=[])) == "INCONCLUSIVE"


@pytest.mark.parametrize("verdict", ["HELD", "VIOLATED", "INCONCLUSIVE"])
def test_a_run_whose_arms_all_have_one_verdict_has_it(runs: Path, verdict: State) -> None:
    run = begun("r")
    for arm in run.plan.loaded:
        run.arm(arm.name, verdict, as_expected=verdict == "HELD")  # type: ignore[arg-type]
    assert state_of(run.verdict(verdict)) == verdict  # type: ignore[arg-type]


# ---- The figures of a history.


def test_a_run_that_failed_counts_against_the_cluster_and_one_that_was_skipped_does_not() -> None:
    window = figures.window("w", [result(state, minute) for minute, state in enumerate(STATES)])
    assert (window.held, window.tried) == (2, 4)
    assert window.counts == {"HELD": 2, "VIOLATED": 1, "SKIPPED": 1, "NO VERDICT": 1}


def test_of_latencies_the_usual_median_and_the_worst_end_are_shown() -> None:
    results = [result("HELD", n, latency_ms_p50=p50, latency_ms_p99=99.0 + n) for n, p50 in enumerate([5.0, 7.0, 90.0])]
    window = figures.window("w", [*results, result("NO VERDICT", 9)])
    assert (window.latency_ms_p50, window.latency_ms_p99) == (7.0, 101.0)
    assert (window.in_time, window.attempted) == (3000, 3000)
    empty = figures.window("w", [result("NO VERDICT")])
    assert (empty.held, empty.tried, empty.attempted, empty.latency_ms_p50, empty.latency_ms_p99) == (
        0,
        1,
        0,
        None,
        None,
    )


def test_a_longer_time_is_shown_only_if_it_has_more_results() -> None:
    results = [result("HELD", minute) for minute in (3 * 24 * 60, 3 * 24 * 60 - 1, 0)]
    now_us = results[0].at_us + MINUTE_US
    assert [(each.title, each.tried) for each in figures.windows(results, now_us)] == [
        ("Last 24 hours", 2),
        ("Last 7 days", 3),
    ]
    assert figures.windows([], now_us) == []


def test_a_result_is_overdue_after_three_times_the_usual_time() -> None:
    results = [result("HELD", minute) for minute in (15, 10, 5, 0)]
    newest_us = results[0].at_us
    assert figures.overdue_s(results, newest_us + 15 * MINUTE_US) is None
    assert figures.overdue_s(results, newest_us + 16 * MINUTE_US) == 16 * 60
    assert figures.overdue_s(results[:2], newest_us + 99 * MINUTE_US) is None


def test_results_in_one_state_are_one_stretch_and_a_skipped_run_ends_none() -> None:
    states: list[State] = ["HELD", "SKIPPED", "HELD", "VIOLATED", "SKIPPED", "HELD", "SKIPPED", "SKIPPED"]
    results = [result(state, minute) for minute, state in enumerate(states)][::-1]
    found = [(each.newest.state, len(each.results), each.skipped) for each in figures.stretches(results)]
    assert found == [("SKIPPED", 2, 0), ("HELD", 1, 1), ("VIOLATED", 1, 0), ("HELD", 2, 1)]
    assert figures.stretches(results)[-1].oldest == results[-1] and figures.stretches([]) == []


# ---- The picture.


def test_every_run_has_a_bar_at_its_time_in_every_chart() -> None:
    results = [result(state, 5 * minute) for minute, state in enumerate(STATES)][::-1]
    lanes = picture.lanes(results)
    assert [[bar.result.state for bar in lane.bars] for lane in lanes] == [STATES] * 3
    assert lanes[0].summary == "2 HELD, 1 VIOLATED, 1 NO VERDICT, 1 SKIPPED"
    xs = [bar.x for bar in lanes[0].bars]
    assert xs[0] == 0 and xs == sorted(xs) and xs[-1] + lanes[0].bars[-1].width == pytest.approx(picture.WIDTH)
    assert [bar.is_known for bar in lanes[2].bars] == [True, True, False, False, True]
    for bar in (bar for lane in lanes for bar in lane.bars):
        assert 0 <= bar.y <= picture.HEIGHT and bar.y + bar.height <= picture.HEIGHT + 0.01
    assert picture.lanes(results[:1]) == []


def test_a_time_without_runs_is_a_gap() -> None:
    results = [result("HELD", minute) for minute in (100, 99, 1, 0)]
    first, second, third, last = picture.lanes(results)[0].bars
    assert second.x + second.width < 100 and third.x > 900 and first.x == 0 and last.x > third.x


def test_bars_are_narrow_enough_for_runs_that_are_close_and_never_vanish() -> None:
    minutes = [0, 1, 2, 3, 60, 120, 180]
    bars = picture.lanes([result("HELD", minute) for minute in reversed(minutes)])[0].bars
    assert all(left.x + left.width <= right.x for left, right in pairwise(bars))
    bars = picture.lanes([replace(result("HELD", 0), run=f"r{number}") for number in range(9)])[0].bars
    assert {(bar.x, bar.width) for bar in bars} == {(0.0, bars[0].width)} and bars[0].width > 2


# ---- The page.


def test_without_a_result_the_page_says_how_to_begin(runs: Path) -> None:
    text = shown([], runs)
    assert "No result yet" in text and "KDV_SENTINEL" in text


def test_the_page_says_what_held_means_and_every_state_is_seen(runs: Path) -> None:
    results = [result(state, 5 * minute) for minute, state in enumerate(STATES)][::-1]
    text = shown(results, runs, dag_path="../../dags/verify_sentinel")
    assert "It says nothing about a broker that dies" in text
    assert "<b>50 %</b> <small>2 of 4</small>" in text and "<b>100 %</b> <small>3,000 of 3,000</small>" in text
    body = text.split("<tbody>", 2)[2]
    for state in STATES:
        assert state in body and WHY[state].removeprefix(f"{state}: ")[:20].lower() in body.lower()
    assert 'href="../../dags/verify_sentinel/runs/scheduled__00020%2B00%3A00" target="_top"' in text


def test_a_report_that_is_still_there_is_linked(runs: Path) -> None:
    judged(runs, "scheduled__00000")
    assert 'href="../runs/scheduled__00000/report.html"' in shown([result()], runs)
    assert "report.html" not in shown([result(minute=1)], runs)


def test_what_a_failed_run_said_is_shown_only_to_whom_may_read_logs(runs: Path) -> None:
    results = [result("NO VERDICT", 5), result("HELD")]
    assert WHY["NO VERDICT"] in shown(results, runs)
    text = shown(results, runs, reads_logs=False)
    assert WHY["NO VERDICT"] not in text and page.UNTOLD in text and WHY["HELD"].removeprefix("HELD: of ") in text


def test_what_is_missing_is_said(runs: Path) -> None:
    results = [result("HELD", minute) for minute in (15, 10, 5)]
    late = page.render({CLUSTER: History(results, unreadable=2)}, results[0].at_us + 60 * MINUTE_US, runs=runs)
    assert "No result for 60 minutes" in late and "2 lines of the history cannot be read" in late
    text = shown(results, runs, without_result=["manual__1+00:00"], dag_path="../../dags/verify_sentinel")
    assert "1 run of the DAG left no result" in text and "runs/manual__1%2B00%3A00" in text
    assert "left no result" not in shown(results, runs)


def test_nothing_that_a_run_said_is_taken_for_markup(runs: Path) -> None:
    hostile = replace(result("NO VERDICT"), why="<script>alert(1)</script>", cluster="<b>", run="<i>")
    text = shown([hostile], runs)
    assert "<script>alert" not in text and "<i>" not in text


def test_thousands_of_results_take_no_longer_than_a_moment(runs: Path) -> None:
    all_day(30)
    many = [replace(result("HELD", minute), run=f"r{minute}") for minute in range(10_000, 0, -1)]
    began = time.process_time()
    text = shown(many, runs)
    assert time.process_time() - began < 3
    assert len(re.findall("<rect", text)) < 4 * picture.RUNS_DRAWN
    assert sentinel_history.newest_of(CLUSTER).results[0].at_us == BEGUN_US + 29 * 5 * MINUTE_US
