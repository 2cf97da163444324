"""The gate: the task at the end of a DAG. A run of the DAG is green only if the gate succeeds.

Airflow derives the colour of a run from the states of its leaf tasks. When a user marks a run failed, Airflow skips the
plain tasks of the run, and a run whose leaf tasks were all skipped is green. Airflow never skips teardown tasks. So the
gate is a teardown task. The gate runs whatever became of the tasks before it, and asks Airflow for their states. If all
of them have succeeded, the gate lets the run through, that is, the gate succeeds too unless the run is judged red. Then
the judgement of the run is final. If a user clears a task before the gate, but not the gate, that task refuses to work.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow.sdk import Context

from delivery_verifier.model.errors import VerifierError


class GateClosed(VerifierError, RuntimeError):
    """The error that makes the gate fail, because a task before the gate did not succeed."""


class GatePassed(VerifierError, RuntimeError):
    """The error of a task that was cleared, so that it runs again, although the gate of its run has succeeded.

    The gate does not run again, so it would not check what the task does now.
    """


def require_not_passed(context: Context, gate: str) -> None:
    """Raises GatePassed if the gate of this run has succeeded. Every task before the gate calls this first.

    `context` is Airflow's context of the calling task, and `gate` is the id of the gate's task.
    """
    if _states(context, [gate])[gate] == "success":
        raise GatePassed(
            f"{gate} has let this run through already: clear this task together with those downstream of it"
        )


def require_success(context: Context, task_ids: Collection[str]) -> None:
    """Raises GateClosed unless each of the tasks `task_ids` has succeeded in this run.

    `context` is Airflow's context of the calling task, which is the gate.
    """
    others = {task_id: state for task_id, state in _states(context, task_ids).items() if state != "success"}
    if not others:
        return
    failed = sorted(task_id for task_id, state in others.items() if state == "failed")
    reason = f"{' and '.join(failed)} failed" if failed else "the run was ended before all of its steps were done"
    states = ", ".join(f"{task_id}: {state}" for task_id, state in others.items())
    raise GateClosed(f"there is no verdict: {reason} ({states})")


def _states(context: Context, task_ids: Collection[str]) -> dict[str, str]:
    """Returns the state of each task of this run; `not run` if Airflow knows no state. No task may be a mapped task."""
    run_id, ti = str(context["run_id"]), context["ti"]
    answer: Mapping[str, Any] = ti.get_task_states(dag_id=ti.dag_id, task_ids=list(task_ids), run_ids=[run_id])
    by_task: Mapping[str, Any] = answer.get(run_id, {})
    states = {task_id: by_task.get(task_id) or "not run" for task_id in task_ids}
    return {task_id: str(getattr(state, "value", state)) for task_id, state in states.items()}
