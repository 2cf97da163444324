"""Starts a run in the local Airflow for a command in a terminal, and follows the run to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from delivery_verifier.cluster import workspaces
from delivery_verifier.host import folders, processes
from delivery_verifier.host.optional import warned
from delivery_verifier.host.waiting import DeadlinePassed, pause, wait_until
from delivery_verifier.local_airflow import lifecycle, settings, supervisor, tree
from delivery_verifier.local_airflow.access import client_of
from delivery_verifier.local_airflow.queue_watch import QueueWatch
from delivery_verifier.model.progress import ProgressListener, StepProgress
from delivery_verifier.model.steps import BEFORE_GATE, GATE
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.orchestration.client import ENDED, FAILED_TASK, AirflowError, AirflowSilent, Client, Task
from delivery_verifier.orchestration.failures import RunFailed, TaskNeverStarted, failure_of
from delivery_verifier.orchestration.names import CATALOGUE_DAG_ID, DAG_ID
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory

_POLL_S = 1.0
PATIENCE_S = 180.0
"""Seconds after which a command gives up a run if Airflow lives but does not answer."""
T = TypeVar("T")


def run_through_airflow(
    conf: Mapping[str, object], run_id: str, listener: ProgressListener, *, port: int | None = None
) -> Path:
    """Runs verify_delivery in the local Airflow, and returns the run directory, which then holds a verdict.

    `conf` holds the values of the form's fields, by name. `listener` is called with each change of a task's state.
    `port` is the port of the local Airflow. If the local Airflow is not running, this function starts it. The run ends
    when this process ends.

    Raises RunFailed if the run has no verdict, or if the verdict contradicts the run's state in Airflow. Raises
    AirflowError if Airflow refuses the run or cannot be reached."""
    status = lifecycle.up(port)
    client = client_of(status.url or "")
    run = (status.runs or folders.runs_dir()) / folders.run_directory_name(run_id)
    with naming_what_ended_airflow():
        trigger(client, DAG_ID, run_id, {**conf, "owner": str(processes.myself())})
        try:
            state = _follow(client, run_id, listener)
        except BaseException as error:
            # BaseException includes Ctrl-C: a run must not go on without its terminal.
            end_quietly(client, DAG_ID, run_id, stuck=isinstance(error, TaskNeverStarted))
            raise
        _require_verdict(client, run_id, state, run)
    return run


@contextmanager
def naming_what_ended_airflow() -> Iterator[None]:
    """If the block raises AirflowError because the local Airflow has ended, raises an AirflowError that gives the
    reason of this end.

    Also removes the brokers' data of the run that was under way, because no process can judge this run any more. If the
    local Airflow has not ended, the error of the block is raised unchanged."""
    try:
        yield
    except AirflowError as error:
        if why := supervisor.why_it_ended():
            raise AirflowError(f"the local Airflow ended during the run: {why}{_remove_unjudged_data()}") from error
        raise


def _remove_unjudged_data() -> str:
    """Waits until all processes of the local Airflow have ended, and removes the brokers' data of an unjudged run.

    If the supervisor was killed, no other process removes these data. Returns a text for the user if the removal fails,
    else an empty text.
    """
    mark = str(settings.airflow_home())
    try:
        wait_until(lambda: not tree.marked(mark), "the rest of it to end", supervisor.GRACE_S + 30)
        workspaces.sweep_unless_busy()
    except (DeadlinePassed, OSError) as error:
        return f" ({error}; `kdv doctor --heal` clears up)"
    return ""


def trigger(client: Client, dag_id: str, run_id: str, conf: Mapping[str, object]) -> None:
    """Starts the run `run_id` of the DAG. `conf` holds the values of the form's fields, by name.

    First ends each run that has no running task and whose owner (see `Client.owners`) has ended. Such a run, and the
    new run behind it, would wait for ever. If Airflow does not answer the request for the new run in time, Airflow may
    have started the run nevertheless. So this function looks for the run before it repeats the request. Raises
    AirflowError if Airflow refuses the run or cannot be reached."""
    for busy_dag_id in (CATALOGUE_DAG_ID, DAG_ID):
        for orphan, owner in patiently(partial(client.owners, busy_dag_id)).items():
            if not processes.incarnations(owner) and not _has_running_task(client, busy_dag_id, orphan):
                end_quietly(client, busy_dag_id, orphan, stuck=True)
    try:
        return client.trigger(dag_id, run_id, conf)
    except AirflowSilent:
        if run_id in patiently(lambda: client.run_ids(dag_id)):
            return
    client.trigger(dag_id, run_id, conf)


def patiently(ask: Callable[[], T]) -> T:
    """Returns the result of `ask`, a function that sends requests. Calls `ask` again as long as it raises
    AirflowSilent.

    A running but busy Airflow may not answer in time. Raises AirflowSilent after PATIENCE_S seconds, or at once if
    Airflow has ended."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except AirflowSilent:
            if supervisor.why_it_ended() or time.monotonic() > deadline_s:
                raise
            pause(_POLL_S)


def _follow(client: Client, run_id: str, listener: ProgressListener) -> str:
    """Waits until the run has ended, and returns its state. Reports each change of a task's state to `listener`."""
    reported, queue_watch = dict[str, str](), QueueWatch()
    while True:
        state = patiently(lambda: client.state(DAG_ID, run_id))
        tasks = patiently(lambda: client.tasks(DAG_ID, run_id))
        for task in tasks:
            if task.state and reported.get(task.task_id) != task.state:
                reported[task.task_id] = task.state
                listener(StepProgress(run_id, task.task_id, task.state))
        if state in ENDED:
            return state
        for stuck in queue_watch.check(tasks):
            patiently(partial(client.fail_task, DAG_ID, run_id, stuck))
        pause(_POLL_S)


def _has_running_task(client: Client, dag_id: str, run_id: str) -> bool:
    return any(task.state == "running" for task in patiently(lambda: client.tasks(dag_id, run_id)))


def end_quietly(client: Client, dag_id: str, run_id: str, stuck: bool = False) -> None:
    """Marks a run as failed, so that Airflow ends it. Does nothing if Airflow is gone. Raises no AirflowError.

    If `stuck` is true, also marks the queued tasks of the run as failed. Reason: Airflow leaves queued teardown tasks
    as they are. If no worker starts such a task, the run would never end."""
    try:
        patiently(lambda: client.end_run(dag_id, run_id))
        for task in patiently(lambda: client.tasks(dag_id, run_id)) if stuck else ():
            if task.state == "queued" and task.map_index < 0:
                patiently(partial(client.fail_task, dag_id, run_id, task.task_id))
    except AirflowError:
        return  # Airflow is gone, and the run with it. The caller raises the error that matters.


def _require_verdict(client: Client, run_id: str, state: str, run: Path) -> None:
    """Raises RunFailed unless the run has a verdict that agrees with `state`, the run's state in Airflow.

    * If the run succeeded, the verdict must be green, and no step up to the gate (the task conclude) may have failed.
    * If the run failed, the verdict must not be green, and of these steps only the gate must have failed.
    * No verdict rests on any other task. If one failed, logs a warning.
    """

    def log_of(task: Task) -> list[str]:
        return patiently(partial(client.log_tail, DAG_ID, run_id, task))

    tasks = patiently(lambda: client.tasks(DAG_ID, run_id))
    failed = [task for task in tasks if task.state in FAILED_TASK and task.task_id in (*BEFORE_GATE, GATE)]
    for task in tasks:
        if task.state == "failed" and task not in failed:
            warned(f"the task {task.task_id}", "its log in Airflow says why")
    verdict = _verdict(run)
    if verdict is not None and state == "success" and verdict.green and not failed:
        return
    if verdict is not None and state == "failed" and not verdict.green and [task.task_id for task in failed] == [GATE]:
        return
    raise failure_of([task for task in failed if task.state == "failed"], log_of) or RunFailed(
        DAG_ID, f"the run is {state}, but there is no verdict that agrees, in {run}", []
    )


def _verdict(run: Path) -> RunVerdict | None:
    """Returns the verdict that the step conclude wrote. Returns None if there is no verdict, or if the file of the
    verdict was altered afterwards."""
    try:
        return RunDirectory(run).verdict()
    except IncompleteRun:
        return None
