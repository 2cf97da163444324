"""The verdict of a run as an event of an Airflow asset. A DAG with this asset as its schedule runs once per event.

The task `conclude` fails if the run is not green, and Airflow emits no events for a failed task. So `conclude` only
stores the summary of its verdict as an XCom value, and the task `publish_verdict` emits the event.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import Asset, Context
from airflow.sdk.exceptions import AirflowSkipException
from msgspec import to_builtins

from delivery_verifier.host.optional import warned
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.steps import GATE
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.orchestration.names import DAG_ID
from delivery_verifier.orchestration.tasks import gate
from delivery_verifier.orchestration.tasks.addresses import report_url
from delivery_verifier.reporting.doubts import doubt_groups

ASSET = Asset(name="kafka_delivery_verdict", uri="kafka-delivery://verdict/")
"""The asset. Each verdict of a run is one event of the asset."""
_KEY, _TRY_KEY = "verdict", "try"
"""The keys of the XCom values in which `conclude` stores the summary, and the try of the run to which it belongs."""


def summary(verdict: RunVerdict, run_id: str, dag_id: str = DAG_ID) -> dict[str, Any]:
    """Returns what the event says about the verdict of `run_id`, a run of the DAG `dag_id`, as JSON
    values.

    * `run`: the id of the run, which names its run directory. `run_id`: the id of the DAG run.
    * `scenario`, `verdict`, `green`, `exit_code`, `sentence`, `advice`, `repeat`: as in `RunVerdict`.
    * `arms`: maps each arm to its verdict.
    * `doubts`: for each kind and name of doubts, the arms with it and what to do (`remedy`).
    * `report`: the address of the report in Airflow.
    """
    return {
        "run": verdict.run_id,
        "run_id": run_id,
        "scenario": verdict.scenario,
        "verdict": verdict.verdict,
        "green": verdict.green,
        "exit_code": verdict.exit_code,
        "sentence": verdict.sentence,
        "arms": {arm.arm: arm.verdict for arm in verdict.arms},
        "doubts": [
            {"kind": doubt.kind, "name": doubt.name, "arms": doubt.arms, "remedy": doubt.remedy}
            for doubt in doubt_groups(verdict)
        ],
        "advice": to_builtins(verdict.advice),
        "repeat": verdict.repeat,
        "report": report_url(run_id, dag_id),
    }


def remember(context: Context, verdict: RunVerdict) -> None:
    """Stores the summary of `verdict` for the task `publish_verdict` and for messages. `context` is the context of the
    task conclude.

    Airflow deletes the stored values if `conclude` begins again. The verdict itself is in the run directory. So if
    Airflow does not store the summary, this is a warning, and there is no event.
    """
    try:
        context["ti"].xcom_push(key=_KEY, value=summary(verdict, str(context["run_id"]), context["ti"].dag_id))
        context["ti"].xcom_push(key=_TRY_KEY, value=context["dag_run"].clear_number)
    except Exception as error:
        warned("the event of the verdict", error)


def emit(context: Context) -> None:
    """Emits the stored summary as an event. `context` is the context of the task publish_verdict.

    Raises AirflowSkipException if `conclude` has stored no summary. Raises StepFailed if the state of `conclude` in
    Airflow contradicts the summary. There are two ways to this state: `conclude` failed after it gave a green verdict,
    or a user changed the state of `conclude`.
    """
    said: dict[str, Any] | None = context["ti"].xcom_pull(task_ids=GATE, key=_KEY)
    if not said:
        raise AirflowSkipException("the run has no verdict")
    state = _state(context)
    if not _agree(said, state):
        raise StepFailed(f"{GATE} is {state}, though its verdict was {said['verdict']}: there is no event")
    context["outlet_events"][ASSET].extra.update(said)


def of_this_try(context: Context) -> str:
    """Returns the verdict that `conclude` has given in this try of the run: HELD, VIOLATED or INCONCLUSIVE.

    A new try begins whenever a user clears tasks of the run. Returns an empty text if `conclude` has given no verdict
    since then, or if its state in Airflow contradicts its verdict. `context` is the context of any task of the run, or
    of a callback. Airflow gives no task to the callback of a run in which no task failed. The text is empty then, too.
    """
    if "ti" not in context:
        return ""
    said, number = (context["ti"].xcom_pull(task_ids=GATE, key=key) for key in (_KEY, _TRY_KEY))
    # A worker that dies at its start leaves the values of the try before: only their number shows that they are old.
    if not said or number != context["dag_run"].clear_number or not _agree(said, _state(context)):
        return ""
    return str(said["verdict"])


def _state(context: Context) -> str:
    return gate.states_of(context, [GATE])[GATE]


def _agree(said: dict[str, Any], state: str) -> bool:
    """Whether the summary and the state of `conclude` agree: it succeeds exactly if the run is green."""
    return state == ("success" if said["green"] else "failed")
