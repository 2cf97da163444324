"""Tests of the gauges of a sentinel: the file is what Prometheus' textfile collector takes, and says what the newest
results say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import prometheus_text
from support.sentinels import BEGUN_US, CLUSTER, MINUTE_US, result

from delivery_verifier.reporting.sentinel import gauges
from delivery_verifier.run_directory import sentinel_history


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    (tmp_path / "textfile").mkdir()
    return tmp_path / "textfile"


def written(folder: Path, cluster: str = CLUSTER) -> prometheus_text.Read:
    """Writes the file of a cluster and reads it."""
    return prometheus_text.read(gauges.write(folder, cluster).read_text())


def test_the_file_says_how_the_last_run_ended_and_counts_all(folder: Path) -> None:
    sentinel_history.add(result("HELD", 0))
    sentinel_history.add(result("VIOLATED", 5, acknowledged=990, in_time=980))
    sentinel_history.add(result("SKIPPED", 10))
    found = written(folder)
    whole, arm = {"cluster": CLUSTER}, {"cluster": CLUSTER, "arm": "safe"}
    assert found.value("kdv_sentinel_last_run_timestamp_seconds", **whole) == (BEGUN_US + 5 * MINUTE_US) / 1e6
    ended = {
        verdict: found.value("kdv_sentinel_last_run_verdict", verdict=verdict, **whole)
        for verdict in ("HELD", "VIOLATED", "INCONCLUSIVE", "NO VERDICT")
    }
    assert ended == {"HELD": 0, "VIOLATED": 1, "INCONCLUSIVE": 0, "NO VERDICT": 0}
    assert found.value("kdv_sentinel_verdict", verdict="VIOLATED", **arm) == 1
    assert found.value("kdv_sentinel_verdict", verdict="HELD", **arm) == 0
    for name, value in (("attempted", 1000), ("acknowledged", 990), ("acknowledged_in_time", 980)):
        assert found.value(f"kdv_sentinel_{name}_records", **arm) == value
    assert found.value("kdv_sentinel_ack_latency_seconds", quantile="0.99", **arm) == pytest.approx(0.02239)
    runs = {state: found.value("kdv_sentinel_runs_total", verdict=state, **whole) for state in ("HELD", "SKIPPED")}
    assert runs == {"HELD": 1, "SKIPPED": 1}
    assert {name for name, kind in found.types.items() if kind == "counter"} == {"kdv_sentinel_runs_total"}


def test_without_a_verdict_there_are_no_figures_of_arms_and_no_run_is_held(folder: Path) -> None:
    sentinel_history.add(result("HELD", 0))
    sentinel_history.add(result("NO VERDICT", 5))
    found = written(folder)
    assert found.value("kdv_sentinel_last_run_verdict", cluster=CLUSTER, verdict="HELD") == 0
    assert found.value("kdv_sentinel_last_run_verdict", cluster=CLUSTER, verdict="NO VERDICT") == 1
    assert not any("arm" in dict(labels) for _, labels in found.samples)


def test_a_cluster_that_was_only_skipped_has_only_the_counter(folder: Path) -> None:
    sentinel_history.add(result("SKIPPED"))
    assert {*written(folder).types} == {"kdv_sentinel_runs_total"}


def test_the_file_appears_whole_is_readable_for_others_and_leaves_nothing_beside(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, replace = list[list[str]](), os.replace

    def watched(source: Path, target: Path) -> None:
        assert prometheus_text.read(source.read_text()).types
        seen.append(os.listdir(folder))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    os.umask(os.umask(0o077) | 0o077)
    sentinel_history.add(result(cluster="airflow:prod"))
    file = gauges.write(folder, "airflow:prod")
    assert len(seen) == 1 and not any(name.endswith(".prom") for name in seen[0]), "the collector reads *.prom"
    assert os.listdir(folder) == [file.name] == ["kdv_sentinel_airflow%3Aprod.prom"]
    assert file.stat().st_mode & 0o777 == 0o644


def test_a_folder_that_is_missing_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    sentinel_history.add(result())
    with pytest.raises(FileNotFoundError):
        gauges.write(tmp_path / "missing", CLUSTER)


def test_labels_are_escaped() -> None:
    metric = gauges.Metric("a_b", "gauge", "About it.", [gauges.Sample({"x": 'q"u\\o\nte'}, 1.5)])
    found = prometheus_text.read(gauges.text([metric, gauges.Metric("empty", "gauge", "None.", [])]))
    assert found.value("a_b", x='q"u\\o\nte') == 1.5 and found.types == {"a_b": "gauge"}


@pytest.mark.parametrize(
    "text",
    [
        "a 1\n",
        "# HELP a A.\n# TYPE a gauge\na 1",
        "# HELP a A.\n# TYPE a gauge\na 1 1700000000000\n",
        "# HELP a A.\n# TYPE a gauge\na 1\na 2\n",
        '# HELP a A.\n# TYPE a gauge\na{x="y} 1\n',
        "# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n",
        "# HELP a A.\n# TYPE a counter\na 1\n",
        "# HELP a A.\n# TYPE a gauge\na one\n",
    ],
)
def test_the_reader_of_these_tests_refuses_what_the_collector_refuses(text: str) -> None:
    with pytest.raises(ValueError):
        prometheus_text.read(text)
