"""The processes of the local Airflow: finds all of them, even if their parents have ended, and ends them."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterable

import psutil

from delivery_verifier.host.supervision.descendants import descendants as below
from delivery_verifier.host.supervision.descendants import reap, runs
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.orchestration.names import MARK

_log = logging.getLogger("kdv.tree")


def descendants() -> list[psutil.Process]:
    """Returns all living descendants of this process.

    After `adopt_orphans`, these include descendants whose parents have ended.
    """
    return below(os.getpid())


def marked(mark: str) -> list[psutil.Process]:
    """Returns all living processes of one local Airflow, even if their parents have ended. Leaves out this process.

    `mark` is the value of the environment variable MARK, the AIRFLOW_HOME of the local Airflow.
    """
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and _has_mark(process, mark)]


def _has_mark(process: psutil.Process, mark: str) -> bool:
    """Returns whether the process is alive and belongs to the local Airflow whose AIRFLOW_HOME is `mark`.

    The process belongs to this Airflow in two cases: its environment variable MARK is `mark`, or its title is
    `airflow ...` and its current folder is `mark`. The second case is needed because a process that sets its own title
    may overwrite its environment.
    """
    try:
        if not runs(process):
            return False
        titled = "".join(process.cmdline()[:1]).startswith("airflow ")
        return process.environ().get(MARK) == mark or (titled and process.cwd() == mark)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False  # the process is gone, or belongs to another user


def end_all(find: Callable[[], list[psutil.Process]], grace_s: float, deadline_s: float) -> list[psutil.Process]:
    """Ends all processes that `find` returns. Calls `find` repeatedly, because further processes may appear.

    `grace_s` and `deadline_s` count from the call of this function:

    * In the first `grace_s` seconds, each process gets SIGTERM when `find` first returns it.
    * After that, every process that `find` returns gets SIGKILL.
    * After `deadline_s` seconds, returns the processes that are left.

    Returns an empty list as soon as `find` returns no process.
    """
    begun, signalled = time.monotonic(), set[int]()

    def none_left() -> bool:
        reap()
        processes = find()
        if time.monotonic() - begun > grace_s:
            _log.info(
                "SIGKILL to who ignored SIGTERM for %.0f s: %s", grace_s, [_title(process) for process in processes]
            )
            _send(processes, signal.SIGKILL)
        else:
            _send([process for process in processes if process.pid not in signalled], signal.SIGTERM)
            signalled.update(process.pid for process in processes)
        return not processes

    try:
        wait_until(none_left, "processes end", deadline_s, every_s=0.1)
    except DeadlinePassed:
        return find()
    return []


def _send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue  # the process has ended by itself


def _title(process: psutil.Process) -> str:
    """Returns the pid and the command line of a process, for the log."""
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:80]}"
    except psutil.Error:
        return f"{process.pid} (gone)"
