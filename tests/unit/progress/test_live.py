"""Tests of the look at a run that goes on: at a load that is still flowing, and at what Spark does."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from support.live_runs import REPORTED, flowing, reconciling
from support.run_builder import planned

from delivery_verifier.model.live import LiveSpark
from delivery_verifier.progress import live
from delivery_verifier.progress.marks import Marks
from delivery_verifier.reporting.overview import live as page


def test_the_reports_of_each_arm_are_counted_over_time_and_failed_attempts_are_not(tmp_path: Path) -> None:
    run = flowing(tmp_path, "r", tmp_path / "w")
    before = {file: file.read_bytes() for file in (tmp_path / "w").rglob("*") if file.is_file()}
    load = live.look(run.path)
    assert load is not None
    subject, *others = load.arms
    assert (subject.reported, sum(subject.counts), subject.records) == (REPORTED, REPORTED, 1000)
    assert [(arm.reported, sum(arm.counts)) for arm in others] == [(0, 0)] * len(others)
    assert load.interval_s == live.SHORTEST_S and set(subject.counts[:-2]) == {50}, "100 reports per second"
    assert 0 < load.rate <= 100
    (mark,) = load.marks
    assert (mark.text, round((mark.at_us - load.began_us) / 1e6)) == ("kill (broker 1)", 4)
    assert {file: file.read_bytes() for file in (tmp_path / "w").rglob("*") if file.is_file()} == before


def test_the_timeline_has_the_fault_where_it_happened(tmp_path: Path) -> None:
    load = live.look(flowing(tmp_path, "r", tmp_path / "w").path)
    assert load is not None
    view = page.view(load)
    (moment,) = view.moments
    assert moment.x == pytest.approx(page.WIDTH * 4 / view.lasted_s, abs=1) and 8 < view.lasted_s <= 9
    assert view.top == 100
    heights = {point.split(",")[1] for point in view.curves[0].points.split()}
    assert heights == {"0.0"}, "the rate was the same all the time"


def test_while_no_client_gets_a_report_the_timeline_goes_on_with_zeros_until_the_load_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all brokers gone, nobody reports anything, and a timeline that stands still would hide the silence."""
    run = flowing(tmp_path, "r", tmp_path / "w")
    later_us = live.now_us() + 20_000_000
    monkeypatch.setattr(live, "now_us", lambda: later_us)
    load = live.look(run.path)
    assert load is not None and len(load.arms[0].counts) * load.interval_s == pytest.approx(29, abs=1)
    assert sum(load.arms[0].counts) == REPORTED and set(load.arms[0].counts[-38:]) == {0}
    with run.writing("produce"):
        pass
    ended = live.look(run.path)
    assert ended is not None and len(ended.arms[0].counts) * ended.interval_s == pytest.approx(9.5, abs=0.5)


def test_a_long_load_has_no_more_intervals_than_a_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "INTERVALS", 4)
    load = live.look(flowing(tmp_path, "r", tmp_path / "w").path)
    assert load is not None
    assert (load.interval_s, sum(load.arms[0].counts), len(load.arms[0].counts)) == (2.5, REPORTED, 4)


@pytest.mark.parametrize("gone", ["start_cluster.json", "scenario.json", "w"])
def test_a_run_without_a_workspace_has_no_load_and_gets_no_file(tmp_path: Path, gone: str) -> None:
    run = flowing(tmp_path, "r", tmp_path / "w")
    if gone == "w":
        shutil.rmtree(tmp_path / "w")
    else:
        (run.path / gone).unlink()
    assert live.look(run.path) is None
    assert gone != "w" or not (tmp_path / "w").exists()


def test_a_mark_that_is_half_written_is_left_out(tmp_path: Path) -> None:
    marks = Marks(tmp_path)
    marks.add("kill (broker 1)", 5)
    (tmp_path / "marks.jsonl").open("a").write('{"at_us": 9, "te')
    assert [mark.at_us for mark in marks.read()] == [5]


SPARK = LiveSpark("job", 5, 41, 64)


def test_what_spark_does_is_read_from_the_workspace(tmp_path: Path) -> None:
    run = planned(tmp_path, "r")
    assert live.spark(run.path) is None, "there is no workspace yet"
    file = reconciling(run, tmp_path / "w", SPARK)
    assert live.spark(run.path) == SPARK
    file.unlink()
    assert live.spark(run.path) is None
    shutil.rmtree(tmp_path / "w")
    assert live.spark(run.path) is None


@pytest.mark.parametrize(
    "content", [b"", b'{"unit":"job","num', b"null", b'{"unit":"job"}', b'{"unit":"job","number":"5"}', b"\xff\xfe"]
)
def test_a_torn_or_damaged_file_says_nothing_of_spark(tmp_path: Path, content: bytes) -> None:
    run = planned(tmp_path, "r")
    reconciling(run, tmp_path / "w", SPARK).write_bytes(content)
    assert live.spark(run.path) is None


def test_what_nobody_has_written_anew_for_long_is_not_what_spark_does_now(tmp_path: Path) -> None:
    run = planned(tmp_path, "r")
    file = reconciling(run, tmp_path / "w", SPARK)
    for age_s, seen in ((live.SPARK_SILENT_S / 2, SPARK), (live.SPARK_SILENT_S + 1, None)):
        os.utime(file, times=(time.time() - age_s,) * 2)
        assert live.spark(run.path) == seen


@pytest.mark.parametrize(
    ("spark", "words"),
    [
        (SPARK, "job 5, 41 of 64 tasks"),
        (LiveSpark("query", 1, 0, 1), "query 1, 0 of 1 task"),
        (LiveSpark("job", 12), "job 12"),
        (LiveSpark("job", 3, 1_000, 20_000), "job 3, 1,000 of 20,000 tasks"),
    ],
)
def test_progress_in_words_names_a_total_only_if_it_is_known(spark: LiveSpark, words: str) -> None:
    assert str(spark) == words
