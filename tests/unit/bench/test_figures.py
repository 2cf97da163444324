"""Tests of what the benchmarks compute from their measurements. The measurements themselves need brokers and time."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from bench.kit import kdv_run, ratios, saved
from bench.speed import rate
from bench.speed.peers import kafkatest
from delivery_verifier.run_directory.run_directory import RunDirectory

RUNS = Path(__file__).resolve().parents[3] / "tests/data/runs"


@pytest.mark.parametrize(
    ("name", "committed", "ratio", "code"),
    [
        ("load / ProducerPerformance", 1.0, 0.81, 0),
        ("load / ProducerPerformance", 1.0, 0.79, 1),
        ("load / ProducerPerformance", 1.0, 5.0, 0),
        ("load / ProducerPerformance, 5000000 records", 1.0, 0.79, 1),
        ("read / bare scan", 2.0, 2.39, 0),
        ("read / bare scan", 2.0, 2.41, 1),
        ("read / bare scan", 2.0, 0.1, 0),
    ],
)
def test_a_ratio_that_is_a_fifth_worse_fails(
    tmp_path: Path, name: str, committed: float, ratio: float, code: int
) -> None:
    file = tmp_path / "ratios.json"
    assert ratios.guard({name: committed}, commit=True, file=file) == 0
    assert ratios.guard({name: ratio}, commit=False, file=file) == code


def test_a_ratio_that_was_never_committed_is_not_compared(tmp_path: Path) -> None:
    file = tmp_path / "ratios.json"
    ratios.guard({"counts / DuckDB": 3.0}, commit=True, file=file)
    assert ratios.guard({"read / bare scan": 99.0}, commit=False, file=file) == 0
    ratios.guard({"read / bare scan": 2.0}, commit=True, file=file)
    assert set(json.loads(file.read_text())) == {"counts / DuckDB", "read / bare scan"}, "others stay as they were"


def test_a_load_that_stalls_is_late_by_schedule_and_not_by_hand_over() -> None:
    """1,000 records per second in blocks of 10. After half of the load nothing is handed over for a second, and then
    all that is due at once. Each record is settled 1 ms after its hand-over."""
    due = np.repeat(np.arange(10, 4001, 10) * 1000, 10)
    steady = rate.figures(due, due + 1000, 1000, 10)
    assert steady["off %"] == pytest.approx(0, abs=0.1) and steady["greatest delay ms"] == 0
    assert steady["99 % from schedule ms"] == pytest.approx(10, abs=1), "1 ms, and at most 9 ms until the block is full"
    sent = np.where((due > 2_000_000) & (due < 3_000_000), 3_000_000, due)
    stalled = rate.figures(sent, sent + 1000, 1000, 10)
    assert stalled["99 % from hand-over ms"] == 1
    assert stalled["99 % from schedule ms"] > 900 and stalled["greatest delay ms"] > 980


def test_a_load_that_is_too_slow_is_off_its_rate() -> None:
    sent = np.repeat(np.arange(10, 4001, 10) * 1020, 10)
    assert rate.figures(sent, sent, 1000, 10)["off %"] == pytest.approx(-1.96, abs=0.1)


def test_kafkatests_way_knows_a_missing_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    produced, consumed = tmp_path / "p", tmp_path / "c"
    sent = [{"name": "producer_send_success", "value": str(number)} for number in range(3)]
    produced.write_text("\n".join(["a log line", *map(json.dumps, [*sent, {"name": "tool_data", "sent": 3}])]))
    monkeypatch.setattr(sys, "argv", ["", str(produced), str(consumed)])
    for numbers, code in ((range(3), 0), (range(2), 1)):
        consumed.write_text("\n".join(json.dumps({"name": "record_data", "value": str(number)}) for number in numbers))
        assert kafkatest.main() == code


def test_a_plot_has_a_bar_for_each_value() -> None:
    root = ElementTree.fromstring(saved.plot("counts & scans", {"one": 2.0, "two <s>": 1.0}))
    widths = [int(rect.attrib["width"]) for rect in root.findall("{*}rect")[1:]]
    assert widths == [saved.WIDTH, saved.WIDTH // 2]
    assert saved.table([{"a": 1000, "b": None}]) == ["| a | b |", "|---|---|", "| 1,000 | – |"]


def test_processes_are_distinguished_by_their_command_lines() -> None:
    assert kdv_run.kind_of("java -cp x org.apache.spark.deploy.SparkSubmit shell") == "Spark"
    assert kdv_run.kind_of("python -m delivery_verifier.load.producer spec.json") == "producers"
    assert kdv_run.kind_of("python kdv run --direct") == "kdv"
    assert kdv_run.kind_of("airflow scheduler") == "Airflow"


def test_the_steps_of_a_run_are_the_time_from_its_first_record_to_its_verdict() -> None:
    run = RunDirectory(RUNS / "held")
    steps = kdv_run.steps_of(run)
    whole_s = (run.manifest("conclude").finished_at_us - run.manifest("produce").started_at_us) / 1e6
    assert tuple(steps) == kdv_run.STEPS and sum(steps.values()) == pytest.approx(whole_s, abs=0.5)
