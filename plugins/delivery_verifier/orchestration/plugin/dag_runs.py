"""Reads a DAG run from Airflow's database and logs: the state of the run, its tasks, and the last log lines of its
failed tasks.

This code runs in Airflow's api-server.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.log.log_reader import TaskLogReader
from airflow.utils.session import create_session
from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from delivery_verifier.model.steps import STEPS
from delivery_verifier.orchestration.client import ENDED, last_log_lines

_SAID_LINES = 40
"""The greatest number of log lines that are read of a failed task."""


class Step(Struct, frozen=True):
    """A task of a DAG run. The task may be any task, not only a step of a verification run.

    `state` is Airflow's state of the task. It is None before the task is scheduled.

    `said` holds the last log lines of a failed task. It is empty for any other task.

    `took_s` is the time in seconds from the beginning of the task until its end, or until now if the task has not
    ended. It is None before the task begins. `ended_s` is the time in seconds since the end of the task; None before.
    """

    task_id: str
    state: str | None
    said: list[str] = []
    took_s: float | None = None
    ended_s: float | None = None


class State(Struct, frozen=True):
    """The state of a DAG run in Airflow (`state`), and the tasks of the DAG run (`steps`).

    The tasks that `model.steps.STEPS` names come first, in the order of STEPS. All other tasks come last.
    """

    state: str
    steps: list[Step]

    @property
    def ended(self) -> bool:
        """Returns whether the run has ended. After its end, none of its tasks changes any more."""
        return self.state in ENDED

    def steps_in(self, *states: str) -> list[Step]:
        """Returns the steps whose state is one of `states`."""
        return [step for step in self.steps if step.state in states]


def state(dag_id: str, run_id: str) -> State | None:
    """Returns the state and the tasks of the DAG run from Airflow's database, or None if there is no such run."""
    with create_session(scoped=False) as session:
        dag_run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        if dag_run is None:
            return None
        steps = [_step(task) for task in _tasks(session, dag_id, run_id)]
        return State(str(dag_run.state), sorted(steps, key=lambda step: _position(step.task_id)))


def _tasks(session: Session, dag_id: str, run_id: str) -> list[TaskInstance]:
    query = select(TaskInstance).where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
    # TaskLogReader reads all of these relations.
    loaded = (TaskInstance.dag_run, TaskInstance.dag_model, TaskInstance.trigger)
    return list(session.scalars(query.options(*(joinedload(relation) for relation in loaded))).unique())


def _step(task: TaskInstance) -> Step:
    said = _log_tail(task) if task.state == "failed" else []
    now = datetime.now(UTC)
    began, ended = task.start_date, task.end_date or now
    took_s = None if began is None else max(0.0, (ended - began).total_seconds())
    ended_s = None if task.end_date is None else max(0.0, (now - ended).total_seconds())
    return Step(task.task_id, None if task.state is None else str(task.state), said, took_s, ended_s)


def _log_tail(task: TaskInstance) -> list[str]:
    """Returns the last lines of a task's log (see `last_log_lines`). The list is empty if Airflow cannot read logs."""
    reader = TaskLogReader()
    if not reader.supports_read:
        return []
    metadata: Any = {"download_logs": True}
    events, _ = reader.read_log_chunks(task, max(task.try_number, 1), metadata)
    return last_log_lines([event.model_dump() for event in events], _SAID_LINES)


def _position(task_id: str) -> int:
    """Returns the position of a task in the list STEPS. If STEPS does not name the task, returns the length of
    STEPS."""
    return STEPS.index(task_id) if task_id in STEPS else len(STEPS)  # type: ignore[arg-type]
