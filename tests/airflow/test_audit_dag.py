"""Tests of the DAG of an audit: its form, its gate, and a run of it in Airflow, from the form to the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from support.run_builder import judged

from delivery_verifier.audit import perform as perform_module
from delivery_verifier.audit.fields import FLAGS, TEXTS, VARIABLE
from delivery_verifier.model.inputs import BadInput
from delivery_verifier.orchestration.names import AUDIT_DAG_ID
from delivery_verifier.orchestration.plugin import app, unreported
from delivery_verifier.orchestration.tasks import audit_delivery, audit_form, message
from delivery_verifier.orchestration.tasks.gate import GateClosed, GatePassed
from delivery_verifier.pipeline import direct

DAGS = Path(__file__).resolve().parents[2] / "dags"


@pytest.fixture(scope="module")
def dag() -> DAG:
    bag = DagBag(dag_folder=str(DAGS))
    assert bag.import_errors == {}
    return bag.dags[AUDIT_DAG_ID]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def test_the_gate_is_the_only_leaf_and_turns_the_run_red(dag: DAG) -> None:
    assert [task.task_id for task in dag.tasks if not task.downstream_task_ids] == ["conclude"]
    assert dag.task_dict["conclude"].is_teardown and dag.task_dict["conclude"].on_failure_fail_dagrun
    assert {*audit_delivery.BEFORE_GATE, "conclude"} == {*dag.task_ids}
    assert {task.retries for task in dag.tasks} == {0} and all(task.execution_timeout for task in dag.tasks)
    assert dag.catchup is False and dag.max_active_runs == 1


def test_a_user_finds_out_what_it_is_and_the_form_has_every_field_with_its_words(dag: DAG) -> None:
    assert all(f"`{task}`" in (dag.doc_md or "") for task in dag.task_ids)
    form = audit_form.params()
    assert [*form] == [*TEXTS, *FLAGS]
    for name, param in form.items():
        title, description = {**TEXTS, **FLAGS}[name]
        assert (param.schema["title"], param.description) == (title, description)
        assert param.schema["type"] == ("boolean" if name in FLAGS else "string")
        param.resolve()
    assert "verifiable-producer" in form["format"].schema["enum"]
    with pytest.raises(Exception, match="xml"):
        form["format"].resolve(value="xml")


def test_it_is_scheduled_by_the_file_that_the_variable_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "audit.json").write_text(json.dumps({"schedule": "0 4 * * *", "topic": "orders"}))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "audit.json"))
    nightly = DagBag(dag_folder=str(DAGS)).dags[AUDIT_DAG_ID]
    assert nightly.schedule == "0 4 * * *"
    assert nightly.params["topic"] == "orders"


class Instance:
    """A stand-in for Airflow's task instance."""

    dag_id = AUDIT_DAG_ID

    def __init__(self, run_dir: Path | None, **states: str | None) -> None:
        self.run_dir = run_dir
        self.states = {"plan": "success", "audit": "success", "conclude": None, **states}

    def get_task_states(self, dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict[str, dict[str, str | None]]:
        return {run_id: {task: self.states[task] for task in task_ids} for run_id in run_ids}

    def xcom_pull(self, task_ids: str) -> str | None:
        return None if self.run_dir is None else str(self.run_dir)


@pytest.fixture
def in_task(monkeypatch: pytest.MonkeyPatch) -> Any:
    def enter(instance: Instance, **params: Any) -> None:
        values = dict.fromkeys(TEXTS, "") | dict.fromkeys(FLAGS, False) | params
        context = {"run_id": "audit-1", "ti": instance, "params": values}
        monkeypatch.setattr(audit_delivery, "get_current_context", lambda: context)

    return enter


def test_plan_refuses_a_wrong_field_and_an_audit_that_was_made_already(
    runs: Path, in_task: Any, tmp_path: Path
) -> None:
    in_task(Instance(None))
    with pytest.raises(BadInput, match="ledger is empty"):
        audit_delivery.plan()
    (tmp_path / "acks.jsonl").write_text("")
    known = {"ledger": str(tmp_path / "acks.jsonl"), "topic": "orders", "cluster": "broker:9092"}
    in_task(Instance(None), **known)
    assert audit_delivery.plan() == str(runs / "audit-1")
    judged(runs, "audit-1")
    with pytest.raises(BadInput, match="trigger a new audit"):
        audit_delivery.plan()
    in_task(Instance(runs / "audit-1", audit=None), **known)
    with pytest.raises(BadInput, match="trigger a new audit"):
        audit_delivery.audit()  # cleared without plan
    for task in (audit_delivery.plan, audit_delivery.audit):
        in_task(Instance(runs / "audit-1", conclude="success"), **known)
        with pytest.raises(GatePassed):
            task()


def test_the_task_audit_performs_and_judges_what_the_form_asks(
    runs: Path, in_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[Any] = []
    monkeypatch.setattr(perform_module, "perform", lambda request, run_dir, *_: done.append((request.topic, run_dir)))
    monkeypatch.setattr(direct, "judge", lambda run_dir, *_: done.append(run_dir))
    (tmp_path / "acks.jsonl").write_text("")
    in_task(Instance(runs / "audit-1"), ledger=str(tmp_path / "acks.jsonl"), topic="orders", cluster="broker:9092")
    audit_delivery.audit()
    assert done == [("orders", runs / "audit-1"), runs / "audit-1"]


def test_the_gate_is_green_for_a_green_verdict_alone(runs: Path, in_task: Any, caplog: Any) -> None:
    judged(runs, "audit-1")
    in_task(Instance(runs / "audit-1"))
    audit_delivery.conclude()
    in_task(Instance(runs / "audit-1", audit="failed"))
    with pytest.raises(GateClosed, match="audit failed"):
        audit_delivery.conclude()
    judged(runs, "red", "VIOLATED", lost=3)
    in_task(Instance(runs / "red"))
    with pytest.raises(SystemExit):
        audit_delivery.conclude()
    assert f"/dags/{AUDIT_DAG_ID}/runs/audit-1" in caplog.text


def test_the_message_about_a_red_audit_has_its_verdict_only_if_it_was_red(runs: Path) -> None:
    judged(runs, "audit-1", "VIOLATED", lost=3)
    content = message.of_audit({"run_id": "audit-1"})
    assert content.subject == "Delivery audit is red: VIOLATED (audit-1)" and content.dag_id == AUDIT_DAG_ID
    assert "What became of the records:" in content.lines and len(content.lines) > 5
    judged(runs, "audit-2")
    assert message.of_audit({"run_id": "audit-2"}).verdict == "NO VERDICT"
    assert message.of_audit({"run_id": "none"}).verdict == "NO VERDICT"


def test_the_tabs_of_an_audit_are_those_of_any_run(runs: Path) -> None:
    judged(runs, "audit-1")
    found = app.tab_of_dag_run(AUDIT_DAG_ID, "audit-1", None)
    assert found.status_code == 307 and found.headers["location"].endswith("runs/audit-1/report.html")
    assert AUDIT_DAG_ID in unreported.another_dag()
