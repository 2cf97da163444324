"""The gate: the last task of a DAG, without which its run is never green.

Airflow colours a run by its leaves. The plain tasks of a run that is marked failed are skipped, and a run whose leaves
are all skipped is green. Airflow does not skip teardowns. So the gate is a teardown: it runs whatever became of the
tasks before it, and asks Airflow for their states. Once the gate has let a run through, the judgement stays as it is: a
step that is cleared without the gate refuses to work.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow.sdk import Context

from delivery_verifier.model.errors import VerifierError


class GateClosed(VerifierError, RuntimeError):
    """The gate does not let the run through: something before it did not succeed."""


class GatePassed(VerifierError, RuntimeError):
    """The gate has let this run through. The gate would not check what a task does now."""


def require_not_passed(context: Context, gate: str) -> None:
    """For every task before the gate. Raises GatePassed if the task called `gate` has succeeded already."""
    if _states(context, [gate])[gate] == "success":
        raise GatePassed(
            f"{gate} has let this run through already: clear this task together with those downstream of it"
        )


def require_success(context: Context, task_ids: Collection[str]) -> None:
    """Raises GateClosed unless each of these tasks of the run has succeeded."""
    others = {task_id: state for task_id, state in _states(context, task_ids).items() if state != "success"}
    if not others:
        return
    failed = sorted(task_id for task_id, state in others.items() if state == "failed")
    reason = f"{' and '.join(failed)} failed" if failed else "the run was ended before all of its steps were done"
    states = ", ".join(f"{task_id}: {state}" for task_id, state in others.items())
    raise GateClosed(f"there is no verdict: {reason} ({states})")


def _states(context: Context, task_ids: Collection[str]) -> dict[str, str]:
    """The state of each task of this run; `not run` where Airflow knows none. None of the tasks may be mapped."""
    run_id, ti = str(context["run_id"]), context["ti"]
    answer: Mapping[str, Any] = ti.get_task_states(dag_id=ti.dag_id, task_ids=list(task_ids), run_ids=[run_id])
    by_task: Mapping[str, Any] = answer.get(run_id, {})
    states = {task_id: by_task.get(task_id) or "not run" for task_id in task_ids}
    return {task_id: str(getattr(state, "value", state)) for task_id, state in states.items()}
