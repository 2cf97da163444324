"""Tests of the order of a run in one process: every declared step runs once, and the cluster is stopped after any
error."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from support.patience import PATIENCE_S

from delivery_verifier.host.waiting import pause
from delivery_verifier.model.progress import StepProgress
from delivery_verifier.model.steps import DECLARED
from delivery_verifier.pipeline import direct, local_spark
from delivery_verifier.pipeline.local_spark import OwnSession
from delivery_verifier.pipeline.steps import conclude

FUNCTIONS = {"plan": "plan_from_params"}
SPARK = cast("SparkSession", object())
"""A stand-in for a living Spark session. No step of these tests uses it."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Replaces every step by a function that only notes the step's name. Returns the list of notes."""
    noted: list[str] = []

    def replace(name: str) -> None:
        def step(*_: Any, **more: Any) -> Path:
            noted.append(f"{name} {more}" if more else name)
            return tmp_path / "r"

        if name == "conclude":
            monkeypatch.setattr(conclude, "judge_and_report", step)
        else:
            monkeypatch.setattr(direct, FUNCTIONS.get(name, name), step)

    for declared in DECLARED:
        replace(declared.name)
    monkeypatch.setattr(direct.Cluster, "of_run", lambda run: SimpleNamespace(socket=tmp_path))
    monkeypatch.setattr(direct.lease, "renewed", lambda socket: nullcontext())
    monkeypatch.setattr(direct, "_removing_unjudged_workspace", lambda run_dir: nullcontext())
    return noted


def test_every_declared_step_is_worked_once_and_the_listener_hears_of_its_begin_and_end(calls: list[str]) -> None:
    heard: list[StepProgress] = []
    direct.run({}, "r", heard.append, SPARK)
    assert sorted(call.split()[0] for call in calls) == sorted(step.name for step in DECLARED)
    assert {(progress.run, progress.step, progress.state) for progress in heard} == {
        ("r", step.name, state) for step in DECLARED for state in ("running", "success")
    }
    assert len(heard) == 2 * len(DECLARED)


def test_a_session_of_the_runs_own_ends_once_spark_is_needed_no_more(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OwnSession, "_session", lambda self: SPARK)
    monkeypatch.setattr(OwnSession, "end", lambda self: calls.append("end"))
    direct.run({}, "r", lambda progress: None)
    assert calls[calls.index("reconcile") + 1] == "end" and calls[calls.index("end") + 1] == "validate"


def test_a_session_of_the_runs_own_starts_beside_the_cluster(calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwnSession, "start", lambda self: calls.append("start Spark"))
    direct.run({}, "r", lambda progress: None)
    assert calls[:3] == ["plan", "start Spark", "start_cluster"]


def test_a_start_of_spark_that_fails_is_an_error_where_spark_is_needed_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(local_spark, "prepare_spark", fail)
    with local_spark.own_session(tmp_path) as unused:
        unused.start()
    with pytest.raises(ZeroDivisionError), local_spark.own_session(tmp_path) as own:
        own.start()
        own()


def test_a_start_of_spark_that_has_failed_is_an_error_before_the_load_begins(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    def topics(run_dir: Path) -> None:
        while any(thread.name.startswith("start of Spark") for thread in threading.enumerate()):
            pause(0.01)

    monkeypatch.setattr(local_spark, "prepare_spark", fail)
    monkeypatch.setattr(direct, "create_topics", topics)
    with pytest.raises(ZeroDivisionError):
        direct.run({}, "r", lambda progress: None)
    assert "stop_cluster {'keep': False}" in calls and not {"produce", "inject_fault"} & set(calls)


def test_a_start_of_spark_that_is_under_way_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    going_on = threading.Event()
    monkeypatch.setattr(OwnSession, "_session", lambda self: going_on.wait(PATIENCE_S) and {}["failed"])
    own = OwnSession(tmp_path)
    own.check()
    own.start()
    own.check()
    going_on.set()
    with pytest.raises(KeyError, match="failed"):
        own()


def test_steps_that_need_the_cluster_are_worked_while_it_is_up_and_no_other_step_is(calls: list[str]) -> None:
    direct.run({}, "r", lambda progress: None, SPARK)
    stop = calls.index("stop_cluster {'keep': True}")
    between = calls[calls.index("start_cluster") + 1 : stop]
    assert set(between) == {"create_topics", "produce", "inject_fault", "settle", "read_topic"}
    assert calls[stop + 1 :] == ["reconcile", "validate", "conclude"]


def test_nothing_has_been_sent_when_before_load_is_called(calls: list[str]) -> None:
    direct.observe({}, "r", lambda progress: None, lambda: SPARK, lambda: calls.append("before_load"))
    assert calls[:4] == ["plan", "start_cluster", "create_topics", "before_load"]


def test_a_run_that_fails_stops_its_cluster_keeps_no_data_and_is_not_judged(
    calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(run_dir: Path) -> None:
        raise ZeroDivisionError

    heard: list[StepProgress] = []
    monkeypatch.setattr(direct, "settle", fail)
    with pytest.raises(ZeroDivisionError):
        direct.run({}, "r", heard.append, SPARK)
    assert calls[-1] == "stop_cluster {'keep': False}"
    assert StepProgress("r", "settle", "failed") in heard
    assert not {"reconcile", "validate", "conclude"} & set(calls)
