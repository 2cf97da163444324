"""Starts a catalogue run in the local Airflow for a command in a terminal, and follows the run to its end."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial

from delivery_verifier.host import folders, processes
from delivery_verifier.host.waiting import pause
from delivery_verifier.local_airflow import lifecycle
from delivery_verifier.local_airflow.access import client_of
from delivery_verifier.local_airflow.queue_watch import QueueWatch
from delivery_verifier.local_airflow.run import end_quietly, naming_what_ended_airflow, patiently, trigger
from delivery_verifier.model.catalogue_run import CatalogueRun, Item
from delivery_verifier.orchestration.client import ENDED, AirflowError, Client, Task
from delivery_verifier.orchestration.failures import RunFailed, TaskNeverStarted
from delivery_verifier.orchestration.names import CATALOGUE_DAG_ID, DAG_ID
from delivery_verifier.run_directory import catalogue_runs

POLL_S = 1.0
"""Seconds between two requests for the state of the catalogue run."""
BETWEEN_POLLS_OF_TASKS_S = 3.0
"""Seconds between two looks at the tasks of the catalogue run and at the runs that it triggered."""
EndListener = Callable[[str, str], None]
"""A function that is called when the run of a scenario has ended. Its arguments are the id and the Airflow state of
this run of verify_delivery."""


def run_catalogue_through_airflow(
    conf: Mapping[str, object], run_id: str, listener: EndListener, *, port: int | None
) -> CatalogueRun:
    """Runs the DAG verify_catalogue in the local Airflow, and returns the finished catalogue run.

    `conf` holds the values of the form's fields, by name. `listener` is called whenever the run of a scenario has
    ended. `port` is the port of the local Airflow, or None for the default. If the local Airflow is not running, this
    function starts it. The catalogue run ends when this process ends. Raises

    * RunFailed if a task failed, unless the task runs a scenario or is the gate (the last task)
    * RunFailed if catalogue.json contradicts the state of the DAG run
    * TaskNeverStarted if a task stays queued
    * AirflowError if Airflow refuses the catalogue run or cannot be reached.
    """
    status = lifecycle.up(port)
    client = client_of(status.url or "")
    with naming_what_ended_airflow():
        trigger(client, CATALOGUE_DAG_ID, run_id, {**conf, "owner": str(processes.myself())})
        try:
            state = _follow(client, run_id, listener)
        except BaseException as error:
            # BaseException includes Ctrl-C: a run must not go on without its terminal.
            _end_all(client, run_id, stuck=isinstance(error, TaskNeverStarted))
            raise
        return _read_record(client, run_id, state)


def _follow(client: Client, run_id: str, listener: EndListener) -> str:
    """Waits until the catalogue run has ended, and returns its state. Calls `listener` whenever the run of a scenario
    has ended."""
    ended, looked_s, queue_watches = set[str](), 0.0, defaultdict[str, QueueWatch](QueueWatch)
    own_queue_watch = QueueWatch(CATALOGUE_DAG_ID)
    while True:
        state = patiently(lambda: client.state(CATALOGUE_DAG_ID, run_id))
        if state in ENDED or time.monotonic() - looked_s > BETWEEN_POLLS_OF_TASKS_S:
            looked_s = time.monotonic()
            for name in _runs_of_catalogue(run_id, patiently(lambda: client.run_ids(DAG_ID))):
                if name in ended:
                    continue
                if (run_state := patiently(partial(client.state, DAG_ID, name))) in ENDED:
                    ended.add(name)
                    listener(name, run_state)
                else:
                    for stuck in queue_watches[name].check(patiently(partial(client.tasks, DAG_ID, name))):
                        patiently(partial(client.fail_task, DAG_ID, name, stuck))
            own_queue_watch.check(patiently(lambda: client.tasks(CATALOGUE_DAG_ID, run_id)))
        if state in ENDED:
            return state
        pause(POLL_S)


def _runs_of_catalogue(run_id: str, names: list[str]) -> list[str]:
    """Returns those of `names` that are ids of runs of the catalogue run `run_id`, oldest run first.

    `names` are ids of runs of verify_delivery, newest run first.
    """
    return [name for name in reversed(names) if name.startswith(f"{run_id}-")]


def _end_all(client: Client, run_id: str, stuck: bool) -> None:
    """Ends the catalogue run, so that it starts no further run. Then ends the run of verify_delivery that the catalogue
    run was waiting for.

    If `stuck` is true, also marks the queued tasks of these runs as failed (see `end_quietly`).
    """
    end_quietly(client, CATALOGUE_DAG_ID, run_id, stuck)
    try:
        unfinished = [
            name
            for name in _runs_of_catalogue(run_id, client.run_ids(DAG_ID))
            if client.state(DAG_ID, name) not in ENDED
        ]
    except AirflowError:
        return  # Airflow is gone, and the run with it
    for name in unfinished:
        end_quietly(client, DAG_ID, name, stuck)


def _read_record(client: Client, run_id: str, state: str) -> CatalogueRun:
    """Returns the content of catalogue.json, the record of the catalogue run. `state` is the state of the DAG run.

    Raises RunFailed if the record does not say when the catalogue run ended, or contradicts `state`. Also raises
    RunFailed if a task failed, unless the task runs a scenario or is the gate (the last task).
    """
    tasks = patiently(lambda: client.tasks(CATALOGUE_DAG_ID, run_id))
    failed = [task for task in tasks if task.state == "failed" and task.map_index < 0 and task.task_id != "gate"]
    if failed:
        raise RunFailed(failed[0].task_id, "the task failed", _log(client, run_id, failed[0]))
    catalogue = catalogue_runs.read(folders.run_directory_name(run_id))
    if not catalogue.ended_at or catalogue.green != (state == "success"):
        raise RunFailed(
            CATALOGUE_DAG_ID, f"the run is {state}, but {catalogue_runs.directory(catalogue.id)} does not agree", []
        )
    return catalogue


def _log(client: Client, run_id: str, task: Task) -> list[str]:
    return patiently(lambda: client.log_tail(CATALOGUE_DAG_ID, run_id, task))


def item_of(catalogue: CatalogueRun, run_id: str) -> Item | None:
    """Returns the item to which the run `run_id` of verify_delivery belongs; None if there is no such item.

    An item is one scenario of the catalogue run. The run id begins with `<id of the catalogue run>-<name of the item>`.
    If this is true for several items, because the name of one item is the beginning of another item's name, the item
    with the longest name is returned.
    """
    longest_first = sorted(catalogue.items, key=lambda item: -len(item.name))
    return next((item for item in longest_first if run_id.startswith(f"{catalogue.id}-{item.name}")), None)
