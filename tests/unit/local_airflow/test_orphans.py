"""Tests of the end of runs that were under way when Airflow was killed, on a stand-in that keeps Airflow's rules."""

from __future__ import annotations

import pytest

from delivery_verifier.local_airflow import orphans
from delivery_verifier.orchestration.client import FINISHED_TASK, AirflowError, AirflowLacks, Client, Task

AFTER = {"stop_cluster": ("conclude",), "conclude": ("publish",)}
"""Maps each teardown task to those that come after it. All of them are teardown tasks."""
TEARDOWNS = ("stop_cluster", "conclude", "publish")


class Airflow(Client):
    """A client whose Airflow has no scheduler.

    To mark a run ends the tasks that are no teardown tasks, and ends the run if it has no unfinished teardown task. To
    mark a task clears the failed tasks after it. `refuses` are ids of tasks that nobody can end.
    """

    def __init__(self, refuses: tuple[str, ...] = (), **runs: dict[str, str | None]) -> None:
        self.states = {run_id: {**tasks} for run_id, tasks in runs.items()}
        self.runs = dict.fromkeys(runs, "running")
        self.refuses = refuses

    def unfinished_runs(self) -> list[tuple[str, str]]:
        return [("d", run_id) for run_id, state in self.runs.items() if state == "running"]

    def end_run(self, dag_id: str, run_id: str) -> None:
        if run_id == "of_no_dag":
            raise AirflowLacks("Airflow refused PATCH with 404")
        tasks = self.states[run_id]
        for name, state in tasks.items():
            if name not in TEARDOWNS and state not in FINISHED_TASK:
                tasks[name] = "failed" if state == "running" else "skipped"
        if all(state in FINISHED_TASK for state in tasks.values()):
            self.runs[run_id] = "failed"

    def fail_task(self, dag_id: str, run_id: str, task_id: str) -> None:
        tasks = self.states[run_id]
        if task_id not in self.refuses:
            tasks[task_id] = "failed"
        for later in AFTER.get(task_id, ()):
            if tasks[later] == "failed":
                tasks[later] = None

    def state(self, dag_id: str, run_id: str) -> str:
        return self.runs[run_id]

    def tasks(self, dag_id: str, run_id: str) -> list[Task]:
        """Returns the later tasks first: the worst order."""
        return [Task(name, state) for name, state in reversed(self.states[run_id].items())]


def test_every_unfinished_run_ends_with_all_of_its_tasks() -> None:
    at_work = dict.fromkeys(("plan", "produce", *TEARDOWNS)) | {"plan": "success", "produce": "running"}
    client = Airflow(at_work=at_work, waiting=dict.fromkeys(("plan", *TEARDOWNS)), ended={"plan": "success"})
    client.runs["ended"] = "success"
    orphans.end_all(client)
    assert client.runs == {"at_work": "failed", "waiting": "failed", "ended": "success"}
    of_teardown = dict.fromkeys(TEARDOWNS, "failed")
    assert client.states["at_work"] == {"plan": "success", "produce": "failed", **of_teardown}
    assert client.states["waiting"] == {"plan": "skipped", **of_teardown}


def test_a_run_that_does_not_end_is_named() -> None:
    client = Airflow(refuses=("stop_cluster",), stuck=dict.fromkeys(TEARDOWNS))
    with pytest.raises(AirflowError, match="the run stuck of d was under way when Airflow ended, and cannot be ended"):
        orphans.end_all(client)


def test_a_run_whose_dag_is_gone_is_left_and_keeps_no_other_run_from_its_end() -> None:
    client = Airflow(of_no_dag={"plan": None}, waiting={"plan": None})
    orphans.end_all(client)
    assert client.runs == {"of_no_dag": "running", "waiting": "failed"}
