"""The gate: the last task of a DAG, without which its run is never green.

Airflow colours a run by its leaves, and a run that is marked failed, by a user or by whoever ends it, has its plain
tasks skipped: all leaves skipped is green. A teardown is not skipped. So the gate is one, runs whatever came of the
tasks before it, and asks Airflow what did. What it has let through stays as it was judged: a step that is cleared
without the gate does not work.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from airflow.sdk import Context

from delivery_verifier.model.errors import VerifierError


class Shut(VerifierError, RuntimeError):
    """The gate stays shut: something before it did not succeed."""


class Passed(VerifierError, RuntimeError):
    """The gate has let this run through, and would not look again at what is done now."""


def require_open(context: Context, gate: str) -> None:
    """For every task before the gate. Raises Passed if the task called `gate` has succeeded already."""
    if _states(context, [gate])[gate] == "success":
        raise Passed(f"{gate} has let this run through already: clear this task together with those downstream of it")


def require_success(context: Context, task_ids: Collection[str]) -> None:
    """Raises Shut unless each of these tasks of the run has succeeded."""
    others = {task_id: state for task_id, state in _states(context, task_ids).items() if state != "success"}
    if others:
        failed = sorted(task_id for task_id, state in others.items() if state == "failed")
        told = f"{' and '.join(failed)} failed" if failed else "the run was ended before all of its steps were done"
        raise Shut(
            f"there is no verdict: {told} ({', '.join(f'{task_id}: {state}' for task_id, state in others.items())})"
        )


def _states(context: Context, task_ids: Collection[str]) -> dict[str, str]:
    """Of tasks of this run that are not mapped."""
    run_id, ti = str(context["run_id"]), context["ti"]
    states: Mapping[str, Any] = ti.get_task_states(dag_id=ti.dag_id, task_ids=list(task_ids), run_ids=[run_id]).get(
        run_id, {}
    )
    found = {task_id: states.get(task_id) or "not run" for task_id in task_ids}
    return {task_id: str(getattr(state, "value", state)) for task_id, state in found.items()}
