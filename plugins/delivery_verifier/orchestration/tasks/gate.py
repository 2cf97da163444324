"""The gate: the task at the end of a DAG. A run of the DAG is green only if the gate succeeds.

The gate asks Airflow for the states of all earlier tasks that must succeed. The gate fails if one of these tasks did
not succeed, or if the verdict of the run is red. Once the gate has succeeded, the verdict is final: if a user clears an
earlier task, but not the gate, the earlier task raises GatePassed.

The gate is a teardown task, because it must run even if earlier tasks failed or were skipped. Airflow derives the
colour of a run from the states of the run's leaf tasks. When a user marks a run as failed, Airflow skips all tasks
except teardown tasks. If the gate were an ordinary task, all leaf tasks of such a run could be skipped, and the run
would be green.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow.sdk import Context

from delivery_verifier.model.errors import VerifierError


class GateClosed(VerifierError, RuntimeError):
    """The error that the gate raises if an earlier task did not succeed. The gate is the task that decides whether a
    run is green."""


class GatePassed(VerifierError, RuntimeError):
    """The error of a task that runs again, because a user cleared it, after the gate has succeeded. The gate is the
    task that decides whether a run is green.

    The gate would not run again, so nothing would check the new result of the task.
    """


def require_not_passed(context: Context, gate: str) -> None:
    """Raises GatePassed if the gate of this run has succeeded. Every task before the gate calls this function first.

    `context` is Airflow's context of the calling task, and `gate` is the task id of the gate.
    """
    if states_of(context, [gate])[gate] == "success":
        raise GatePassed(
            f"{gate} has let this run through already: clear this task together with those downstream of it"
        )


def require_success(context: Context, task_ids: Collection[str]) -> None:
    """Raises GateClosed if one of the tasks `task_ids` has not succeeded in this run.

    `context` is Airflow's context of the calling task, which is the gate.
    """
    others = {task_id: state for task_id, state in states_of(context, task_ids).items() if state != "success"}
    if not others:
        return
    failed = sorted(task_id for task_id, state in others.items() if state == "failed")
    reason = f"{' and '.join(failed)} failed" if failed else "the run was ended before all of its steps were done"
    states = ", ".join(f"{task_id}: {state}" for task_id, state in others.items())
    raise GateClosed(f"there is no verdict: {reason} ({states})")


def states_of(context: Context, task_ids: Collection[str]) -> dict[str, str]:
    """Returns the state of each of the tasks `task_ids` in this run, by task id. None of `task_ids` may be a mapped
    task.

    The state is `not run` if Airflow knows no state of the task.
    """
    run_id, ti = str(context["run_id"]), context["ti"]
    answer: Mapping[str, Any] = ti.get_task_states(dag_id=ti.dag_id, task_ids=list(task_ids), run_ids=[run_id])
    by_task: Mapping[str, Any] = answer.get(run_id, {})
    states = {task_id: by_task.get(task_id) or "not run" for task_id in task_ids}
    return {task_id: str(getattr(state, "value", state)) for task_id, state in states.items()}
