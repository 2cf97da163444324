"""Finds tasks that no worker will start."""

from __future__ import annotations

import time

from delivery_verifier.model.steps import BEFORE_GATE, GATE
from delivery_verifier.orchestration.client import Task
from delivery_verifier.orchestration.failures import TaskNeverStarted
from delivery_verifier.orchestration.names import DAG_ID

STARTED_WITHIN_S = 180.0
"""Seconds within which a queued task must start. Airflow queues a task only when a worker is free. So the task
normally starts within seconds, even on a busy host."""


class QueueWatch:
    """Finds a task that stays queued for too long, in one run of the DAG `dag_id`.

    A worker of the local executor may die just after it has taken a task. The executor does not notice this, and cannot
    take the task back (it has no `revoke_task`). The task then stays queued for ever. Without this watch, a process
    that waits for the run would wait for ever, too."""

    def __init__(self, dag_id: str = DAG_ID) -> None:
        self._needed = (*BEFORE_GATE, GATE) if dag_id == DAG_ID else None
        self._queued_since_s: dict[tuple[str, int], float] = {}
        self._checked_s = time.monotonic()

    def check(self, tasks: list[Task]) -> list[str]:
        """Raises TaskNeverStarted if a task has been queued for too long. The error names the task.

        If no verdict rests on the task, e.g. on `stop_cluster`, raises nothing. Returns the ids of such tasks: the
        caller must mark them as failed, so that the run can end. `tasks` are the present tasks of the run. The caller
        must call this method again and again as long as the run goes on."""
        now_s = time.monotonic()
        if now_s - self._checked_s > STARTED_WITHIN_S / 2:
            # The last call was long ago. Since then a task may have been started and queued again.
            self._queued_since_s = {}
        self._checked_s = now_s
        queued = {(task.task_id, task.map_index) for task in tasks if task.state == "queued"}
        self._queued_since_s = {key: self._queued_since_s.get(key, now_s) for key in queued}
        stuck = [
            task_id for (task_id, _), since_s in self._queued_since_s.items() if now_s - since_s > STARTED_WITHIN_S
        ]
        for task_id in stuck:
            if self._needed is None or task_id in self._needed:
                problem = f"Airflow queued the task {STARTED_WITHIN_S:g} s ago and has not begun it"
                raise TaskNeverStarted(
                    task_id, f"{problem}: probably the worker that took it was killed", ["start the run again"]
                )
        return stuck
