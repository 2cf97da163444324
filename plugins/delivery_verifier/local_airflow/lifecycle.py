"""Starts and stops the local Airflow on this host, and tells its status."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import filelock
import psutil
from msgspec import Struct

from delivery_verifier.cluster import workspaces
from delivery_verifier.host import folders
from delivery_verifier.host.ports import free_ports
from delivery_verifier.host.processes import ProcessId
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.local_airflow import database, logs, settings, supervisor, tree
from delivery_verifier.local_airflow.access import client_of
from delivery_verifier.orchestration.client import AirflowError, Client
from delivery_verifier.orchestration.names import AUDIT_DAG_ID, CATALOGUE_DAG_ID, DAG_ID, SENTINEL_DAG_ID

START_WITHIN_S = 180.0
"""Seconds within which the local Airflow must become ready."""
_STOP_WITHIN_S = supervisor.STOP_WITHIN_S + 5


class Status(Struct, frozen=True, kw_only=True):
    """The state of the local Airflow. `ready` is true if all components of Airflow are healthy and both DAGs are
    parsed. `detail` is the word `ready`, or says why Airflow is not ready. `pid` is the process id of the supervisor.
    `runs` is the folder of the run directories. If Airflow is not running, `url`, `pid` and `runs` are None."""

    running: bool
    ready: bool
    url: str | None
    pid: int | None
    runs: Path | None
    detail: str


def up(port: int | None = None, *, wait: bool = True, owner: ProcessId | None = None) -> Status:
    """Starts the local Airflow if it is not running yet, and returns its state.

    If `wait` is true, waits until Airflow is ready. When the process `owner` ends, Airflow ends, too. Raises
    AirflowError if the port is taken, if Airflow runs on another port, or if Airflow does not become ready."""
    with _one_at_a_time():
        state = living()
        if state is None:
            state = _start(settings.port(port), owner)
        elif port is not None and port != state.port:
            raise AirflowError(f"the local Airflow runs on port {state.port} already: stop it first (kdv down)")
    return _await_ready(state) if wait else status()


def down() -> bool:
    """Stops the local Airflow and every process that it started. Returns False if there was nothing to stop.

    Raises AirflowError if some processes do not end. The message names these processes.
    """
    with _one_at_a_time():
        state = supervisor.read_state()
        if state is not None:
            state.supervisor.send(signal.SIGTERM)
            _await(lambda: not state.supervisor.alive, "the supervisor ends", _STOP_WITHIN_S)
        return _sweep() or state is not None


def status() -> Status:
    """Returns the current state of the local Airflow, without waiting."""
    state = supervisor.read_state()
    if state is None:
        return Status(running=False, ready=False, url=None, pid=None, runs=None, detail="not running")
    problem = _problem(state)
    return Status(
        running=True,
        ready=problem is None,
        url=settings.base_url(state.port),
        pid=state.supervisor.pid,
        runs=Path(state.runs),
        detail=problem or "ready",
    )


def living() -> supervisor.State | None:
    """Returns the state of the supervisor; None if no supervisor lives. First waits for a supervisor that is ending."""
    state = supervisor.read_state()
    if state is not None and state.dead_children:
        _await(lambda: not state.supervisor.alive, "the supervisor ends", _STOP_WITHIN_S)
        return supervisor.read_state()
    return state


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Holds a lock, so that no other process starts or stops the local Airflow while the block runs."""
    settings.airflow_home().mkdir(parents=True, exist_ok=True)
    folders.state_dir().chmod(0o700)
    with filelock.FileLock(settings.airflow_home() / "lock", timeout=START_WITHIN_S):
        yield


def _start(port: int, owner: ProcessId | None) -> supervisor.State:
    _sweep()  # a supervisor that was killed leaves its processes behind
    _require_free(port)
    settings.ensure_passwords()
    settings.ensure_configuration()
    spark_port = None if settings.SPARK_VARIABLE in os.environ else free_ports(1)[0]
    environment = settings.environment(port, spark_port)
    has_runs = database.file().is_file()
    database.migrate(environment)
    with logs.log_file("supervisor").open("ab") as log:
        process = subprocess.Popen(
            supervisor.command(port, owner, spark_port, ends_orphans=has_runs),
            env=environment,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    _await(lambda: process.poll() is not None or supervisor.read_state() is not None, "the supervisor starts", 30)
    state = supervisor.read_state()
    if state is None:
        raise AirflowError(f"the local Airflow ended at once: {logs.tail('supervisor')}")
    return state


def _require_free(port: int) -> None:
    """Raises AirflowError if another program uses the port. Tests this by binding the port, and sends no request."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            remedy = "stop what uses it, or choose another with --port or KDV_PORT"
            raise AirflowError(f"port {port} is taken ({error.strerror}{_user_of(port)}): {remedy}") from None


def _user_of(port: int) -> str:
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr[1:2] == (port,) and connection.pid:
            return f", by pid {connection.pid}"
    return ""


def _await_ready(state: supervisor.State) -> Status:
    problem: str | None = "not asked yet"

    def is_settled() -> bool:
        nonlocal problem
        problem = _problem(state)
        return problem is None or problem.startswith(_FATAL)

    _await(is_settled, "the local Airflow is ready", START_WITHIN_S)
    if problem is not None:
        raise AirflowError(f"the local Airflow is not ready: {problem}")
    return status()


_FATAL = ("ended", "broken")


def _problem(state: supervisor.State) -> str | None:
    """Returns why Airflow is not ready, or None. If the reason begins with a word of _FATAL, waiting does not help."""
    if not state.supervisor.alive:
        return f"ended: {logs.tail('supervisor')}"
    if state.dead_children:
        return f"ended: {', '.join(state.dead_children)}, see {settings.airflow_home()}/*.log"
    client = client_of(settings.base_url(state.port))
    try:
        sick = [part for part, health in client.health().items() if health != "healthy"]
        if sick:
            return f"not healthy yet: {', '.join(sick)}"
        if errors := client.import_errors(state.started_at):
            return "broken: " + "\n".join(f"{file} does not load:\n{trace}" for file, trace in errors.items())
        return _dag_problem(client, state.started_at)
    except AirflowError as error:
        return str(error)


def _dag_problem(client: Client, started_at: float) -> str | None:
    """Returns a message about a DAG that Airflow has not parsed since `started_at`, or None if there is no such DAG."""
    for dag_id in (DAG_ID, CATALOGUE_DAG_ID, AUDIT_DAG_ID, SENTINEL_DAG_ID):
        if _seconds(client.dag(dag_id)["last_parsed_time"]) < started_at:
            return f"{dag_id} is not parsed yet"
    return None


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _sweep() -> bool:
    """Ends all processes of this Airflow. Returns whether there were any. Raises AirflowError if some survive."""
    mark = str(settings.airflow_home())
    processes = tree.marked(mark)
    survivors = tree.end_all(lambda: tree.marked(mark), supervisor.GRACE_S, _STOP_WITHIN_S) if processes else []
    if survivors:
        raise AirflowError(f"processes of the local Airflow are left and do not end: {survivors}")
    if processes:
        workspaces.sweep_unless_busy()
    supervisor.state_file().unlink(missing_ok=True)
    return bool(processes)


def _await(condition: Callable[[], bool], what: str, deadline_s: float) -> None:
    """Waits until `condition` returns true (in words: `what`). After `deadline_s` seconds, returns without an error."""
    try:
        wait_until(condition, what, deadline_s, every_s=0.2)
    except DeadlinePassed:
        return
