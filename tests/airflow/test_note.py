"""Tests of the note that Airflow shows at a run: the note is the verdict's sentence, or says why there is no verdict.

An error while writing the note never fails a task.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.run_builder import begun, unjudged

from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.steps import BEFORE_GATE
from delivery_verifier.orchestration.client import AirflowError, Client, Task
from delivery_verifier.orchestration.names import DAG_ID, MARK
from delivery_verifier.orchestration.tasks import note, verify_delivery
from delivery_verifier.orchestration.tasks.gate import GateClosed

CONTEXT: Any = {"run_id": "manual__1", "ti": SimpleNamespace(dag_id=DAG_ID)}
WORK = [step for step in BEFORE_GATE if step != "reconcile"]


class Instance:
    """A stand-in for Airflow's task instance in its second try, without a run directory."""

    dag_id, try_number = "verify_delivery", 2

    def __init__(self, **states: str) -> None:
        self.states = states

    def get_task_states(self, dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict[str, dict[str, str]]:
        return {run_id: {name: self.states[name] for name in task_ids} for run_id in run_ids}

    def xcom_pull(self, **_: object) -> None:
        """Returns None, because the task plan has returned no run directory."""


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    begun("r").conclude("VIOLATED", "VIOLATED: 3 records lost.", green=False, advice=[]).at(tmp_path)
    monkeypatch.setenv("KDV_HOME", str(tmp_path))
    monkeypatch.setenv(MARK, "here")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://127.0.0.1:8080")
    passwords = tmp_path / "passwords.json"
    passwords.write_text('{"admin": "a"}')
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(passwords))
    notes: list[tuple[str, str]] = []
    monkeypatch.setattr(Client, "note", lambda self, dag_id, run_id, text: notes.append((run_id, text)))
    return notes


def test_the_verdict_is_noted_with_its_sentence(noted: list[tuple[str, str]], tmp_path: Path) -> None:
    note.attach_verdict(tmp_path, CONTEXT)
    assert noted == [("manual__1", "**VIOLATED**: 3 records lost.")]


@pytest.mark.parametrize("gone", ["verdict.json", "conclude.json"])
def test_without_a_sealed_verdict_there_is_no_note(noted: list[tuple[str, str]], tmp_path: Path, gone: str) -> None:
    (tmp_path / gone).unlink()
    note.attach_verdict(tmp_path, CONTEXT)
    assert noted == []


@pytest.mark.parametrize(("number", "withdrawn"), [(1, False), (2, True), (3, True)])
def test_the_note_of_an_earlier_try_is_withdrawn_when_a_cleared_task_begins(
    noted: list[tuple[str, str]], number: int, withdrawn: bool
) -> None:
    instance = SimpleNamespace(try_number=number, dag_id=DAG_ID)
    note.withdraw({"run_id": "manual__1", "ti": instance})  # type: ignore[typeddict-item]
    assert noted == ([("manual__1", note.AGAIN)] if withdrawn else [])


@pytest.mark.parametrize("task", [*WORK, "conclude"])
def test_every_task_that_leads_to_the_verdict_withdraws_the_note_and_none_does_for_a_final_verdict(
    noted: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    context = {"run_id": "manual__1", "params": {"records": -5}, "dag_run": SimpleNamespace(conf={})}
    states = dict.fromkeys(BEFORE_GATE, "failed")
    _tasks(monkeypatch)
    monkeypatch.setattr(verify_delivery, "get_current_context", lambda: context)
    for gates_state, withdrawn in (("failed", True), ("success", task == "conclude")):
        noted.clear()
        context["ti"] = Instance(**states, conclude=gates_state)
        with pytest.raises(VerifierError):
            getattr(verify_delivery, task)()
        assert (("manual__1", note.AGAIN) in noted) == withdrawn


def test_in_another_airflow_there_is_no_note(
    noted: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(MARK)
    note.attach_verdict(tmp_path, CONTEXT)
    assert noted == []


@pytest.mark.parametrize("error", [AirflowError("does not answer"), OSError("no password file")])
def test_a_note_that_cannot_be_written_changes_nothing(
    noted: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(Client, "note", refuse)
    note.attach_verdict(tmp_path, CONTEXT)
    assert noted == []


def _tasks(monkeypatch: pytest.MonkeyPatch, **states: str) -> None:
    tasks = [Task(name, states.get(name, "success")) for name in BEFORE_GATE]
    monkeypatch.setattr(Client, "tasks", lambda *_: tasks)
    said = ["Task failed with exception", "BadInput: records is -5; allowed: ```1000 or more"]
    monkeypatch.setattr(Client, "log_tail", lambda *_: said)


@pytest.mark.parametrize(
    ("states", "text"),
    [
        (
            {"plan": "failed", "start_cluster": "upstream_failed"},
            "**NO VERDICT**: step `plan` failed.\n\n```\nBadInput: records is -5; allowed: '''1000 or more\n```",
        ),
        ({"settle": "skipped"}, "**NO VERDICT**: the run was ended before all of its steps were done."),
        ({}, "**NO VERDICT**: step `conclude` failed.\n\n```\nGateClosed: there is none\n```"),
    ],
)
def test_a_run_without_a_verdict_says_in_its_note_why(
    noted: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, states: dict[str, str], text: str
) -> None:
    _tasks(monkeypatch, **states)
    with pytest.raises(GateClosed, match="there is none"), note.of_failure(CONTEXT):
        raise GateClosed("there is none")
    assert noted == [("manual__1", text)]


def test_a_run_without_a_verdict_whose_evidence_is_complete_says_first_how_to_judge_it(
    noted: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _tasks(monkeypatch, validate="failed")
    monkeypatch.setenv("KDV_RUNS", str(tmp_path / "runs"))
    unjudged(tmp_path / "runs", "manual__1")
    with pytest.raises(GateClosed), note.of_failure(CONTEXT):
        raise GateClosed("there is none")
    remedy = "The evidence of this run is complete. To judge it: kdv reconcile manual__1"
    assert noted[0][1].split("\n\n")[:2] == ["**NO VERDICT**: step `validate` failed.", remedy]
    assert remedy in caplog.text


def test_the_end_of_a_red_run_leaves_the_note_of_its_verdict(noted: list[tuple[str, str]]) -> None:
    with pytest.raises(SystemExit), note.of_failure(CONTEXT):
        raise SystemExit(1)
    assert noted == []


@pytest.mark.parametrize("error", [AirflowError("does not answer"), OSError("no password file")])
def test_the_error_of_the_run_stays_though_the_note_cannot_be_written(
    noted: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(Client, "tasks", refuse)
    with pytest.raises(GateClosed, match="there is none"), note.of_failure(CONTEXT):
        raise GateClosed("there is none")
    assert noted == []
