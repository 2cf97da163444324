"""Tests of the gates (the tasks that give the result of a DAG run). A gate fails unless all tasks before it succeeded.
After a gate has let a run through, no task before the gate can be repeated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.run_builder import judged

from delivery_verifier.model.steps import BEFORE_GATE
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.orchestration.tasks import verify_catalogue, verify_delivery
from delivery_verifier.orchestration.tasks.gate import GateClosed, GatePassed
from delivery_verifier.pipeline.steps import conclude
from delivery_verifier.run_directory.run_directory import RunDirectory

WORK = [step for step in BEFORE_GATE if step != "reconcile"]


class Instance:
    """A stand-in for Airflow's task instance that only knows the states of the other tasks. Code that goes on although
    the gate is closed fails, because it needs more."""

    dag_id, try_number = "verify_delivery", 1

    def __init__(self, **states: str | None) -> None:
        self.states = states

    def get_task_states(self, dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict[str, dict[str, str]]:
        assert (dag_id, run_ids) == (self.dag_id, ["r"])
        return {"r": {name: state for name in task_ids if (state := self.states.get(name)) is not None}}

    def xcom_push(self, **_: object) -> None:
        """Takes the summary of the verdict, which only `publish_verdict` needs."""


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    found: dict[str, Any] = {"run_id": "r", "dag_run": SimpleNamespace(clear_number=0)}
    for module in (verify_delivery, verify_catalogue):
        monkeypatch.setattr(module, "get_current_context", lambda: found)
    return found


@pytest.mark.parametrize(
    ("states", "told"),
    [
        ({"validate": "failed"}, "validate failed"),
        (
            {"produce": "failed", "inject_fault": "failed", "settle": "upstream_failed"},
            "inject_fault and produce failed",
        ),
        (dict.fromkeys(BEFORE_GATE, "skipped"), "the run was ended before all of its steps were done"),
        ({"validate": None}, "validate: not run"),
    ],
)
def test_whatever_lies_in_the_run_directory_there_is_no_verdict_after_a_task_that_did_not_succeed(
    context: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: dict[str, str | None], told: str
) -> None:
    """A step may be killed after it has written all its files. Airflow then calls the task failed, and the gate must
    follow Airflow."""
    run = judged(tmp_path, "r").path
    concluded: list[Path] = []

    def judge(path: Path) -> RunVerdict:
        concluded.append(path)
        return RunDirectory(path).verdict()

    monkeypatch.setattr(conclude, "judge_and_report", judge)
    monkeypatch.setattr(verify_delivery, "_run_directory", lambda _: run)
    context["ti"] = Instance(**{**dict.fromkeys(BEFORE_GATE, "success"), **states})
    with pytest.raises(GateClosed, match=told):
        verify_delivery.conclude()
    assert not concluded
    context["ti"] = Instance(**dict.fromkeys(BEFORE_GATE, "success"))
    verify_delivery.conclude()
    assert concluded == [run]


@pytest.mark.parametrize("work", [getattr(verify_delivery, step) for step in WORK], ids=WORK)
def test_no_step_works_in_a_run_that_was_let_through(context: dict[str, Any], work: Callable[[], object]) -> None:
    context["ti"] = Instance(conclude="success")
    with pytest.raises(
        GatePassed, match="conclude has let this run through already: clear this task together with those downstream"
    ):
        work()


def test_neither_does_spark(context: dict[str, Any]) -> None:
    context["ti"] = Instance(conclude="success")
    with pytest.raises(GatePassed):
        verify_delivery.SubmitReconcile(task_id="reconcile").execute(context)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "work", [verify_catalogue.begin_catalogue, verify_catalogue.collect_first, verify_catalogue.write_matrix]
)
def test_nor_any_part_of_a_catalogue_run(context: dict[str, Any], work: Callable[[], object]) -> None:
    context["ti"] = Instance(gate="success")
    with pytest.raises(GatePassed):
        work()


def test_nor_one_of_its_cells(context: dict[str, Any]) -> None:
    context["ti"] = Instance(gate="success")
    with pytest.raises(GatePassed):
        verify_catalogue.RunScenario(task_id="run_scenario", cell={"scenario": "a", "run": "c-a"}).execute(context)  # type: ignore[arg-type]
