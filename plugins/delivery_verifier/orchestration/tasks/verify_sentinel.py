"""The tasks of the DAG verify_sentinel that differ from those of verify_delivery: `plan` and `start_cluster` skip the
run if somebody else is there, and `conclude` adds the result to the history of the cluster.

Airflow reads the DAG's file again and again. So modules that only a task needs are imported inside its function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from airflow.sdk import Context, get_current_context
from airflow.sdk.exceptions import AirflowSkipException, AirflowTaskTimeout

from delivery_verifier.host import folders
from delivery_verifier.host.optional import optional
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.sentinel import NOTE, SentinelArm, SentinelResult, State
from delivery_verifier.model.steps import GATE
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.orchestration.names import SENTINEL_DAG_ID
from delivery_verifier.orchestration.tasks import gate, give_way, note, red_run
from delivery_verifier.orchestration.tasks import verify_delivery as steps
from delivery_verifier.planning import sentinel
from delivery_verifier.run_directory import data_docs, sentinel_history
from delivery_verifier.run_directory.run_directory import RunDirectory

RESULT_S = 60.0
"""How long it may take to add a result to the history and the gauges, in seconds. No verdict rests on them."""
LONGEST = 1_000
"""The greatest number of characters of an error that the history keeps."""
_SKIPPED, _FAILED = "skipped", "failed"
"""The keys of the XCom values that say why a task has skipped the run, and why it has failed."""
_SAYING_WHY = ("plan", "start_cluster")


def plan() -> str:
    """The step plan of a sentinel. Skips the run if another run works here or on the cluster, or waits in this Airflow.

    Raises AirflowSkipException then, BadInput if no cluster is named, and all other errors of the step."""
    context = get_current_context()
    gate.require_not_passed(context, GATE)
    with _saying_why(context):
        fields = sentinel.request_of(context["params"])
        if busy := give_way.busy_with(context):
            _skip(context, busy)
        return steps.plan_run(context, fields, {NOTE: fields["cluster"]})


def start_cluster() -> None:
    """The step start_cluster of a sentinel. Skips the run if another run has begun since the step plan."""
    with _saying_why(get_current_context()):
        steps.start_cluster()


@contextmanager
def _saying_why(context: Context) -> Iterator[None]:
    """Skips the run if the block finds that another run is there. Leaves the reason of any other error to the task
    `conclude`."""
    from delivery_verifier.cluster.external.runs import ClusterTaken
    from delivery_verifier.cluster.lease import HostBusy

    try:
        yield
    except (ClusterTaken, HostBusy) as taken:
        _skip(context, str(taken))
    except VerifierError as error:
        context["ti"].xcom_push(key=_FAILED, value=str(error)[:LONGEST])
        raise


def _skip(context: Context, why: str) -> NoReturn:
    context["ti"].xcom_push(key=_SKIPPED, value=why)
    raise AirflowSkipException(why)


def conclude() -> None:
    """The step conclude of a sentinel, which is the gate. Adds the result of the run to the history, whatever it is.

    Raises AirflowSkipException if the run was skipped, and otherwise what the step of verify_delivery raises."""
    context = get_current_context()
    if why := why_skipped(context):
        _remember(context, "SKIPPED", why)
        note.attach(context, f"**SKIPPED**: {why}")
        raise AirflowSkipException(why)
    try:
        verdict = steps.judge_run(context)
    except (Exception, AirflowTaskTimeout) as error:
        short = str(error).partition(" (")[0]  # without the states of all tasks
        _remember(context, "NO VERDICT", _said(context, "failed", _FAILED) or short[:LONGEST])
        raise
    _remember_verdict(context, verdict)
    if not verdict.green:
        red_run.end(verdict, str(context["run_id"]), SENTINEL_DAG_ID)


def why_skipped(context: Context) -> str:
    """Returns why this run was skipped; an empty text if it was not.

    A user who ends a run makes Airflow skip its tasks, too. Then no task has said why, and the run stays red."""
    return _said(context, "skipped", _SKIPPED)


def _said(context: Context, state: str, key: str) -> str:
    """Returns why a task is in `state`, as the task itself has said."""
    states = gate.states_of(context, _SAYING_WHY)
    said = [context["ti"].xcom_pull(task_ids=task, key=key) for task in _SAYING_WHY if states[task] == state]
    return next((str(why) for why in said if why), "")


def remember_missing(context: Context) -> None:
    """The callback of a red run. Adds a result without a verdict to the history if the task `conclude` could not."""
    run = folders.run_directory_name(str(context["run_id"]))
    if all(result.run != run for result in sentinel_history.newest_of(_cluster(context)).results):
        _remember(context, "NO VERDICT", "the run ended before its last task could say why")


def _remember_verdict(context: Context, verdict: RunVerdict) -> None:
    run_dir = folders.run_directory(str(context["run_id"]))

    def work() -> None:
        from delivery_verifier.reporting.sentinel.result import arms_of, state_of

        _add(context, state_of(verdict), verdict.sentence, arms_of(run_dir, verdict))

    optional("the history of the sentinel", work, RESULT_S)
    optional("the removal of old runs", lambda: _clear_up(_cluster(context)), RESULT_S)


def _remember(context: Context, state: State, why: str) -> None:
    optional("the history of the sentinel", lambda: _add(context, state, why, []), RESULT_S)


def _add(context: Context, state: State, why: str, arms: list[SentinelArm]) -> None:
    """Adds a result to the history, and then writes the gauges. If they cannot be written, the result stays."""
    from delivery_verifier.reporting.sentinel import gauges

    run_id, cluster = str(context["run_id"]), _cluster(context)
    result = SentinelResult(
        run=folders.run_directory_name(run_id),
        run_id=run_id,
        cluster=cluster,
        at_us=time.time_ns() // 1000,
        state=state,
        why=why,
        arms=arms,
    )
    sentinel_history.add(result)
    if folder := sentinel.settings().metrics:
        optional("the gauges of the sentinel", lambda: gauges.write(folder, cluster), RESULT_S)


def _clear_up(cluster: str) -> None:
    """Removes the run directories of HELD runs of `cluster`, but the newest. The results stay in the history."""
    held = [each for each in sentinel_history.newest_of(cluster).results if each.state == "HELD"]
    for result in held[sentinel.settings().keep :]:
        run = folders.runs_dir() / result.run
        if run.is_dir() and RunDirectory(run).manifest("plan").notes.get(NOTE) == cluster:
            folders.remove_folder(run)
            data_docs.forget(run)


def _cluster(context: Context) -> str:
    # Airflow gives no values of the form to the callback of a run of which it knows no task.
    params: Any = context.get("params") or context["dag"].params
    return str(params["cluster"])


INSTEAD: dict[str, Callable[[], str | None]] = {step.__name__: step for step in (plan, start_cluster, conclude)}
"""The functions that perform steps of a sentinel in place of those of verify_delivery, by the name of the step."""
