"""Why a run in Airflow has no verdict: the errors of such a run, and the task that failed first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.steps import GATE
from delivery_verifier.orchestration.client import Task
from delivery_verifier.pipeline.signals import ParallelStepFailed


class RunFailed(VerifierError, RuntimeError):
    """The error of a run that has no verdict, or whose Airflow state contradicts its verdict.

    `task_id` is the task that caused the error, or the id of the DAG if no task caused the error. `log` holds the
    lines at the end of the error's text: the last lines of the task's log, or a remedy.
    """

    def __init__(self, task_id: str, message: str, log: list[str]) -> None:
        super().__init__("\n".join([f"{task_id}: {message}", *log]))
        self.task_id, self.log = task_id, log


class TaskNeverStarted(RunFailed):
    """The error of a run with a task that stays queued, because no worker will start this task."""


def failure_of(failed: Sequence[Task], log_of: Callable[[Task], list[str]]) -> RunFailed | None:
    """Returns the error that names the first task that failed, with its last log lines; None if no task failed.

    `failed`: the tasks of one run of verify_delivery that failed. `log_of` returns the last lines of a task's log. Its
    errors are raised.
    """
    # The gate fails if a task before it fails. So the gate counts only if it failed alone.
    candidates = [task for task in failed if task.task_id != GATE] or failed
    if not candidates:
        return None
    logs = [log_of(task) for task in candidates]

    def order(failure: tuple[Task, list[str]]) -> tuple[bool, str]:
        # If one of two steps that run side by side fails, the other step fails because of this, with
        # ParallelStepFailed. The other step may well end before the step that failed first.
        task, log = failure
        return any(ParallelStepFailed.__name__ in line for line in log), task.end_date or "~"

    task, log = min(zip(candidates, logs, strict=True), key=order)
    return RunFailed(task.task_id, "the task failed", log)
