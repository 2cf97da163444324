"""Tests of the end of a run: its verdict becomes an event of an asset, whatever it is, and a red run ends with plain
lines in the log. Airflow's own code runs the tasks `conclude` and `publish_verdict`, and keeps the events."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import MutableMapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.models.asset import AssetEvent
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.sdk import DAG, timezone
from airflow.sdk.definitions.dag import _run_task
from airflow.serialization.definitions.dag import SerializedDAG
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy import select
from structlog.testing import capture_logs
from support import report_material
from support.run_builder import judged, planned

from delivery_verifier.model.scenario import VerdictName
from delivery_verifier.model.steps import BEFORE_GATE, GATE
from delivery_verifier.orchestration.names import DAG_ID
from delivery_verifier.orchestration.tasks import red_run, verdict_event, verify_delivery
from delivery_verifier.pipeline.steps import conclude
from delivery_verifier.run_directory.run_directory import RunDirectory

PUBLISH = "publish_verdict"
LONG = "VIOLATED: of 41,210 acknowledged records, 3 lost. " + "The leader was killed while records were in flight. " * 6


class Ending:
    """A DAG run of which only the last tasks work. All steps before the gate have the state `success`, but `failed`."""

    def __init__(self, written: DAG, dag: SerializedDAG, failed: str = "") -> None:
        self.written, self.run_id = written, f"manual__{uuid.uuid4().hex}"
        now = timezone.utcnow()
        with create_session() as session:
            dag_run = dag.create_dagrun(
                run_id=self.run_id,
                logical_date=None,
                run_after=now,
                run_type=DagRunType.MANUAL,
                triggered_by=DagRunTriggeredByType.TEST,
                state=DagRunState.RUNNING,
                start_date=now,
                session=session,
            )
            for ti in dag_run.get_task_instances(session=session):
                ti.state = TaskInstanceState.SUCCESS if ti.task_id in BEFORE_GATE else None
                ti.state = TaskInstanceState.FAILED if ti.task_id == failed else ti.state

    def perform(self, task_id: str) -> tuple[str, list[MutableMapping[str, Any]]]:
        """Lets Airflow run the task. Returns the state of the task and what Airflow logs about it."""
        ti = self._instance(task_id)
        with capture_logs() as logged:
            _run_task(ti=ti, task=self.written.get_task(task_id))
        return TaskInstanceState(ti.state).value, logged

    def mark(self, task_id: str, state: TaskInstanceState) -> None:
        self._instance(task_id).set_state(state)

    def clear(self, task_id: str) -> None:
        """Clears the task, as a user does, so that a new try of the run begins."""
        with create_session() as session:
            clear_task_instances([session.merge(self._instance(task_id))], session, DagRunState.RUNNING)

    def _instance(self, task_id: str) -> TaskInstance:
        with create_session() as session:
            dag_run = session.scalar(select(DagRun).where(DagRun.run_id == self.run_id))
            assert dag_run is not None
            ti = dag_run.get_task_instance(task_id, session=session)
            session.expunge_all()
        assert ti is not None
        return ti

    @property
    def events(self) -> list[dict[str, Any]]:
        """What the events of this run say, oldest first."""
        with create_session() as session:
            query = select(AssetEvent.extra).where(AssetEvent.source_run_id == self.run_id).order_by(AssetEvent.id)
            return list(session.scalars(query))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the run directories. The step `conclude` gives the verdict that a test has stored in `r`."""
    monkeypatch.setattr(conclude, "judge_and_report", lambda path: RunDirectory(path).verdict())
    monkeypatch.setattr(verify_delivery, "_run_directory", lambda _: tmp_path / "r")
    return tmp_path


@pytest.mark.parametrize(
    ("verdict", "green", "exit_code"),
    [("HELD", True, 0), ("VIOLATED", False, 1), ("VIOLATED", True, 0), ("INCONCLUSIVE", False, 2)],
)
def test_each_verdict_is_one_event_and_the_gate_alone_tells_whether_it_is_green(
    runs: Path, written_dag: DAG, dag: SerializedDAG, verdict: VerdictName, green: bool, exit_code: int
) -> None:
    judged(runs, "r", verdict, green=green, sentence=f"{verdict}: as this test says.")
    ending = Ending(written_dag, dag)
    assert ending.perform(GATE)[0] == ("success" if green else "failed")
    assert ending.events == []
    assert ending.perform(PUBLISH)[0] == "success"
    (event,) = ending.events
    assert event == {
        "run": "r",
        "run_id": ending.run_id,
        "scenario": RunDirectory(runs / "r").read_scenario().name,
        "verdict": verdict,
        "green": green,
        "exit_code": exit_code,
        "sentence": f"{verdict}: as this test says.",
        "arms": {arm.arm: verdict for arm in RunDirectory(runs / "r").verdict().arms},
        "doubts": [],
        "advice": None,
        "repeat": "",
        "report": f"http://localhost:8080/dags/{DAG_ID}/runs/{ending.run_id}/plugin/delivery-report",
    }


def test_a_run_without_a_verdict_has_no_event_though_a_verdict_lies_in_its_directory(
    runs: Path, written_dag: DAG, dag: SerializedDAG
) -> None:
    judged(runs, "r", "HELD")
    ending = Ending(written_dag, dag, failed="validate")
    assert [ending.perform(task)[0] for task in (GATE, PUBLISH)] == ["failed", "skipped"]
    assert ending.events == []


@pytest.mark.parametrize(("verdict", "marked"), [("HELD", "failed"), ("VIOLATED", "success")])
def test_a_verdict_that_airflow_contradicts_is_no_event(
    runs: Path, written_dag: DAG, dag: SerializedDAG, verdict: VerdictName, marked: str
) -> None:
    judged(runs, "r", verdict)
    ending = Ending(written_dag, dag)
    ending.perform(GATE)
    ending.mark(GATE, TaskInstanceState(marked))
    assert ending.perform(PUBLISH)[0] == "failed"
    assert ending.events == []


def test_a_verdict_counts_for_the_try_in_which_it_was_given(
    runs: Path, written_dag: DAG, dag: SerializedDAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(runs, "r", "VIOLATED")
    ending = Ending(written_dag, dag)
    seen: list[str] = []

    def publish(context: Any) -> None:
        seen.append(verdict_event.of_this_try(context))

    monkeypatch.setattr(verdict_event, "emit", publish)
    ending.perform(PUBLISH)
    ending.perform(GATE)
    ending.perform(PUBLISH)
    ending.clear(PUBLISH)
    ending.perform(PUBLISH)
    ending.clear(GATE)
    ending.perform(GATE)
    ending.perform(PUBLISH)
    assert seen == ["", "VIOLATED", "", "VIOLATED"]


def test_a_red_run_ends_with_plain_lines_and_the_address_of_its_report(
    runs: Path, written_dag: DAG, dag: SerializedDAG, caplog: pytest.LogCaptureFixture
) -> None:
    judged(runs, "r", "VIOLATED", lost=3246, sentence=LONG, other_cases={"acked": 41_210})
    ending = Ending(written_dag, dag)
    with caplog.at_level(logging.INFO):
        state, logged = ending.perform(GATE)
    assert state == "failed"
    assert [event for event in logged if event.get("exc_info")] == []
    assert [event["exit_code"] for event in logged if event["event"] == "Task exited"] == [1]
    said = [record for record in caplog.records if record.name == red_run.__name__]
    assert [record.levelname for record in said] == ["ERROR"] * len(said) and not any(each.exc_info for each in said)
    *lines, address = [record.getMessage() for record in said]
    assert max(map(len, lines)) <= red_run.WIDTH and " ".join(" ".join(lines).split()).startswith(LONG.strip())
    (subject,) = (line for line in lines if line.startswith("safe (subject)"))
    assert (
        subject == "safe (subject): VIOLATED, as expected. acknowledged 41,210, lost 3,246, duplicated 0, reordered 0"
    )
    assert address == f"Report: http://localhost:8080/dags/{DAG_ID}/runs/{ending.run_id}/plugin/delivery-report"


def test_an_event_and_the_log_say_what_to_do_as_the_verdict_does(tmp_path: Path) -> None:
    _, verdict = report_material.inconclusive(tmp_path)
    says = verdict_event.summary(verdict, "r")
    (checker, coverage) = says["doubts"]
    assert (checker["name"], checker["arms"]) == ("counts_unbalanced:reported_sum", ["safe", "control-acks_0"])
    assert checker["remedy"] == verdict.arms[0].doubts[1].remedy != coverage["remedy"] != ""
    assert [each["kind"] for each in says["advice"]] == ["withheld"] and says["repeat"] == verdict.repeat
    assert json.loads(json.dumps(says)) == says
    said = " ".join(" ".join(red_run.lines(verdict, "")).split())
    assert f"What to do about {checker['name']}: {checker['remedy']}" in said


def test_an_error_of_the_gate_itself_keeps_its_traceback(runs: Path, written_dag: DAG, dag: SerializedDAG) -> None:
    """No verdict lies in the run directory. The plain lines are for verdicts alone."""
    planned(runs, "r")
    ending = Ending(written_dag, dag)
    state, logged = ending.perform(GATE)
    assert state == "failed" and [event["event"] for event in logged if event.get("exc_info")]
    assert ending.perform(PUBLISH)[0] == "skipped" and ending.events == []


def test_an_event_that_airflow_does_not_take_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(**_: object) -> None:
        raise OSError("no answer")

    instance = SimpleNamespace(xcom_push=refuse, dag_id=DAG_ID)
    context: Any = {"run_id": "r", "ti": instance, "dag_run": SimpleNamespace(clear_number=0)}
    verdict_event.remember(context, judged(tmp_path, "r").verdict())
    assert "warning: the event of the verdict failed: OSError: no answer" in caplog.text
