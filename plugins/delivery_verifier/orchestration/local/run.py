"""A run through Airflow, started and followed from a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from delivery_verifier.cluster import workspaces
from delivery_verifier.host import folders, processes
from delivery_verifier.host.waiting import DeadlinePassed, pause, wait_until
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.orchestration.local import lifecycle, settings, supervisor, tree
from delivery_verifier.orchestration.local.client import ENDED, FAILED_TASK, AirflowError, AirflowSilent, Client, Task
from delivery_verifier.orchestration.local.settings import CATALOGUE_DAG_ID, DAG_ID, ensure_passwords
from delivery_verifier.run.signals import OtherSideFailed
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory

_POLL_S = 1.0
PATIENCE_S = 180.0
"""So long may an Airflow that lives be silent before a run is given up."""
BEGUN_WITHIN_S = 180.0
"""What Airflow queues has a free worker; even on a busy host it begins within seconds."""
T = TypeVar("T")


class Progress(Struct, frozen=True):
    """A step changed its state, `elapsed_s` after the run was triggered."""

    step: str
    state: str
    elapsed_s: float


class RunFailed(VerifierError, RuntimeError):
    """The run ended without a verdict, or its colour contradicts it. Names the task and what it said last."""

    def __init__(self, task_id: str, message: str, log: list[str]) -> None:
        super().__init__("\n".join([f"{task_id}: {message}", *log]))
        self.task_id, self.log = task_id, log


class NeverBegun(RunFailed):
    """A task was queued, and nobody will begin it."""


class Begun:
    """Whether the tasks of a run begin once they are queued.

    The local executor notices neither that a worker has died which had just taken a task, nor takes that task back (it
    knows no `revoke_task`): the task would stay queued for ever, and whoever waits for the run with it.
    """

    def __init__(self) -> None:
        self._since_s: dict[tuple[str, int], float] = {}
        self._looked_s = time.monotonic()

    def check(self, tasks: list[Task]) -> None:
        """To be called again and again. Raises RunFailed naming a task that has been queued for too long."""
        now_s = time.monotonic()
        if (
            now_s - self._looked_s > BEGUN_WITHIN_S / 2
        ):  # nobody looked in between: it may have been begun, and queued again
            self._since_s = {}
        self._looked_s = now_s
        queued = {(task.task_id, task.map_index) for task in tasks if task.state == "queued"}
        self._since_s = {one: self._since_s.get(one, now_s) for one in queued}
        for (task_id, _), since_s in self._since_s.items():
            if now_s - since_s > BEGUN_WITHIN_S:
                ago = f"Airflow queued the task {BEGUN_WITHIN_S:g} s ago and has not begun it"
                raise NeverBegun(
                    task_id, f"{ago}: probably the worker that took it was killed", ["start the run again"]
                )


def run_through_airflow(
    conf: Mapping[str, object], run_id: str, on_progress: Callable[[Progress], None], *, port: int | None = None
) -> Path:
    """Runs verify_delivery in the local Airflow, brought up if need be, and returns the run directory with a verdict.

    The run belongs to this process: it ends when this process does. Raises RunFailed if there is no verdict, and
    AirflowError if Airflow refuses the run or cannot be reached.
    """
    status = lifecycle.up(port)
    client = Client(status.url or "", "admin", ensure_passwords()["admin"])
    run = (status.runs or folders.runs_dir()) / folders.run_directory_name(run_id)
    with naming_what_ended_airflow():
        trigger(client, DAG_ID, run_id, {**conf, "owner": str(processes.myself())})
        try:
            state = _follow(client, run_id, on_progress)
        except BaseException as error:
            # Also Ctrl-C: a run without its terminal must not go on.
            end_quietly(client, DAG_ID, run_id, stuck=isinstance(error, NeverBegun))
            raise
        _require_verdict(client, run_id, state, run)
    return run


@contextmanager
def naming_what_ended_airflow() -> Iterator[None]:
    """Inside, an error of an Airflow that has ended says which of its processes did."""
    try:
        yield
    except AirflowError as error:
        if why := supervisor.why_it_ended():
            raise AirflowError(f"the local Airflow ended during the run: {why}{_swept()}") from error
        raise


def _swept() -> str:
    """Removes the data of a run that waited for its judgement, once all that could judge it is gone; says if it cannot.

    Where the supervisor itself was killed, nobody but us is left to do so.
    """
    mark = str(settings.airflow_home())
    try:
        wait_until(lambda: not tree.marked(mark), "the rest of it to end", supervisor.GRACE_S + 30)
        workspaces.sweep_unless_busy()
    except (DeadlinePassed, OSError) as error:
        return f" ({error}; `kdv doctor --heal` clears up)"
    return ""


def trigger(client: Client, dag_id: str, run_id: str, conf: Mapping[str, object]) -> None:
    """Starts the run. Airflow may have heard also where it did not answer in time: that is asked, not done twice.

    First ends runs whose terminal is gone and of which no task is at work: one that waits for what never comes would
    keep this one waiting, too.
    """
    for ours in (CATALOGUE_DAG_ID, DAG_ID):
        for orphan, owner in patiently(partial(client.owners, ours)).items():
            if not processes.lives(owner) and not _at_work(client, ours, orphan):
                end_quietly(client, ours, orphan, stuck=True)
    try:
        return client.trigger(dag_id, run_id, conf)
    except AirflowSilent:
        if run_id in patiently(lambda: client.run_ids(dag_id)):
            return
    client.trigger(dag_id, run_id, conf)


def patiently(ask: Callable[[], T]) -> T:
    """What Airflow answers. On a busy host it may be silent for a while; as long as it lives, it is asked again."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except AirflowSilent:
            if supervisor.why_it_ended() or time.monotonic() > until:
                raise
            pause(_POLL_S)


def _follow(client: Client, run_id: str, on_progress: Callable[[Progress], None]) -> str:
    """Reports each change of a task's state until the run has ended; returns the run's state."""
    triggered, seen, begun = time.monotonic(), dict[str, str](), Begun()
    while True:
        state = patiently(lambda: client.state(DAG_ID, run_id))
        tasks = patiently(lambda: client.tasks(DAG_ID, run_id))
        for task in tasks:
            if task.state and seen.get(task.task_id) != task.state:
                seen[task.task_id] = task.state
                on_progress(Progress(task.task_id, task.state, time.monotonic() - triggered))
        if state in ENDED:
            return state
        begun.check(tasks)
        pause(_POLL_S)


def _at_work(client: Client, dag_id: str, run_id: str) -> bool:
    return any(task.state == "running" for task in patiently(lambda: client.tasks(dag_id, run_id)))


def end_quietly(client: Client, dag_id: str, run_id: str, stuck: bool = False) -> None:
    """Ends a run, if Airflow is still there to do it. `stuck`: also what is queued, which for a teardown must be
    said."""
    try:
        patiently(lambda: client.end_run(dag_id, run_id))
        for task in patiently(lambda: client.tasks(dag_id, run_id)) if stuck else ():
            if task.state == "queued" and task.map_index < 0:
                patiently(partial(client.fail_task, dag_id, run_id, task.task_id))
    except AirflowError:
        return  # Airflow is gone, and the run with it; the error that brought us here is the one to tell


def _require_verdict(client: Client, run_id: str, state: str, run: Path) -> None:
    """Raises RunFailed unless the run's colour and its verdict agree.

    Red with a verdict is the gate's doing, if it alone failed and the verdict is not green. Anything else that is
    red has no verdict to speak of, even where a file lies there.
    """
    tasks = patiently(lambda: client.tasks(DAG_ID, run_id))
    failed = [task for task in tasks if task.state in FAILED_TASK]
    verdict = _verdict(run)
    if verdict is not None and state == "success" and verdict.green and not failed:
        return
    if verdict is not None and state == "failed" and not verdict.green and _names(failed) == ["conclude"]:
        return
    told = [
        (task, patiently(partial(client.log_tail, DAG_ID, run_id, task))) for task in failed if task.state == "failed"
    ]
    if not told:
        raise RunFailed(DAG_ID, f"the run is {state}, but there is no verdict that agrees, in {run}", [])
    told = [
        one for one in told if one[0].task_id != "conclude"
    ] or told  # the gate fails with whatever failed before it
    # Of two that run side by side the second fails because the first did, and may well start or end before it.
    task, log = min(
        told, key=lambda one: (any(OtherSideFailed.__name__ in line for line in one[1]), one[0].end_date or "~")
    )
    raise RunFailed(task.task_id, "the task failed", log)


def _names(tasks: list[Task]) -> list[str]:
    return [task.task_id for task in tasks]


def _verdict(run: Path) -> RunVerdict | None:
    """The verdict that `conclude` sealed, or None. One that was not sealed, or was altered since, is none."""
    try:
        return RunDirectory(run).verdict()
    except IncompleteRun:
        return None
