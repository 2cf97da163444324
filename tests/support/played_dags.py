"""A DAG run whose tasks do not work. Airflow's own functions decide which task comes next, and how the run ends."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.sdk import timezone
from airflow.serialization.definitions.dag import SerializedDAG
from airflow.utils.state import DagRunState, TaskInstanceState
from airflow.utils.types import DagRunTriggeredByType, DagRunType
from sqlalchemy.orm import Session

from delivery_verifier.model.steps import BEFORE_GATE, GATE, STEPS
from delivery_verifier.orchestration.tasks import gate

_SUCCESS = TaskInstanceState.SUCCESS


class Played:
    """A DAG run whose tasks end as a test says. `begun` are the tasks that the scheduler started, in order.
    `ends` maps a task to the state in which it ends if it does not fail; other tasks succeed. The gate is asked unless
    `ends` has it."""

    def __init__(self, dag: SerializedDAG, session: Session, **conf: object) -> None:
        """`conf`: values of the form."""
        self.dag, self.session, self.begun = dag, session, list[str]()
        self.dag_id = dag.dag_id
        self.ends = dict[str, TaskInstanceState]()
        now = timezone.utcnow()
        self.run: DagRun = dag.create_dagrun(
            run_id=f"manual__{uuid.uuid4().hex}",
            logical_date=None,
            conf=conf,
            run_after=now,
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            start_date=now,
            session=session,
        )

    @property
    def states(self) -> dict[str, str | None]:
        """The state of each task."""
        return {ti.task_id: ti.state for ti in self.run.get_task_instances(session=self.session)}

    def round(self) -> list[TaskInstance]:
        """Lets the scheduler look once. Returns the tasks that it starts."""
        self.session.flush()
        started, _ = self.run.update_state(session=self.session, execute_callbacks=False)
        self.begun += [ti.task_id for ti in started]
        return started

    def play(self, fails: Callable[[str], bool]) -> str:
        """Plays the run to its end. Returns the state of the run."""
        for _ in range(10 * len(STEPS)):
            for ti in self.round():
                is_asked = ti.task_id == GATE and GATE not in self.ends
                ends_badly = fails(ti.task_id) or (is_asked and not self.gate_opens())
                ti.state = TaskInstanceState.FAILED if ends_badly else self.ends.get(ti.task_id, _SUCCESS)
                ti.end_date = timezone.utcnow()
            if self.run.state != DagRunState.RUNNING:
                return str(self.run.state)
        raise AssertionError(f"the run does not end: {self.states}")

    def gate_opens(self) -> bool:
        """Asks the real gate, which asks Airflow for the states of all steps before it."""
        try:
            gate.require_success({"run_id": self.run.run_id, "ti": self}, BEFORE_GATE)  # type: ignore[typeddict-item]
        except gate.GateClosed:
            return False
        return True

    def get_task_states(self, dag_id: str, task_ids: list[str], run_ids: list[str]) -> Mapping[str, Any]:
        """Stands in for the method of Airflow's task instance that the gate calls."""
        assert (dag_id, run_ids) == (self.dag_id, [self.run.run_id])
        return {self.run.run_id: {name: state for name, state in self.states.items() if name in task_ids and state}}
