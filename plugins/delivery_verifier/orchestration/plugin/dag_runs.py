"""What Airflow knows of a DAG run, read in the api-server: its state, its tasks, and what a failed one said last."""

from __future__ import annotations

from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.log.log_reader import TaskLogReader
from airflow.utils.session import create_session
from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from delivery_verifier.model.steps import STEPS
from delivery_verifier.orchestration.local.client import ENDED, said_last

_SAID_LINES = 40


class Step(Struct, frozen=True):
    """One task instance. `state` is None before it is scheduled; `said` are its last lines if it failed."""

    task_id: str
    state: str | None
    said: list[str] = []


class State(Struct, frozen=True):
    """A DAG run: its state and its steps, in the order in which they are worked."""

    state: str
    steps: list[Step]

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ENDED

    def of(self, *states: str) -> list[Step]:
        """The steps in one of `states`."""
        return [step for step in self.steps if step.state in states]


def state(dag_id: str, run_id: str) -> State | None:
    """What Airflow knows of the run; None if it knows no such run."""
    with create_session(scoped=False) as session:
        found = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        if found is None:
            return None
        steps = [_step(task) for task in _tasks(session, dag_id, run_id)]
        return State(str(found.state), sorted(steps, key=lambda step: _place(step.task_id)))


def _tasks(session: Session, dag_id: str, run_id: str) -> list[TaskInstance]:
    of_run = select(TaskInstance).where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
    # The log's reader looks at all of these.
    loaded = (TaskInstance.dag_run, TaskInstance.dag_model, TaskInstance.trigger)
    return list(session.scalars(of_run.options(*(joinedload(one) for one in loaded))).unique())


def _step(task: TaskInstance) -> Step:
    said = _said(task) if task.state == "failed" else []
    return Step(task.task_id, None if task.state is None else str(task.state), said)


def _said(task: TaskInstance) -> list[str]:
    """The last lines of a task's log, from its first error on; empty where this Airflow cannot read logs."""
    reader = TaskLogReader()
    if not reader.supports_read:
        return []
    metadata: Any = {"download_logs": True}
    events, _ = reader.read_log_chunks(task, max(task.try_number, 1), metadata)
    return said_last([event.model_dump() for event in events], _SAID_LINES)


def _place(task_id: str) -> int:
    return STEPS.index(task_id) if task_id in STEPS else len(STEPS)  # type: ignore[arg-type]
