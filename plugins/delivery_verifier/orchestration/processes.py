"""Processes of the local Airflow: started so that they cannot outlive it, found again, and ended for certain."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable

import psutil

from delivery_verifier.orchestration.settings import MARK

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_POLL_S = 0.1


def become_subreaper() -> None:
    """Makes this process the parent of all descendants that lose theirs, so that none escapes (prctl(2))."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def child_setup() -> None:
    """Runs in a child before exec: default signal handling, and SIGTERM when its parent dies.

    A child of a non-interactive shell would inherit SIGINT as ignored, and could then never be interrupted.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def await_that(condition: Callable[[], bool], deadline_s: float) -> bool:
    """Polls until the condition holds. False if it does not within `deadline_s`."""
    ends = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(_POLL_S)
    return True


def descendants() -> list[psutil.Process]:
    """All living descendants of this process, those of dead parents included (it is their subreaper)."""
    return living(psutil.Process().children(recursive=True))


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that run; a zombie is dead already."""
    return [process for process in processes if _runs(process)]


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def marked(mark: str) -> list[psutil.Process]:
    """All processes, but this one, that carry the mark of this local Airflow in their environment."""
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and _mark(process) == mark]


def _mark(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK)
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return None  # gone, or another user's: not ours


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Sends a signal to each that still is the same process."""
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue  # it ended by itself


def end_all(find: Callable[[], list[psutil.Process]], grace_s: float, deadline_s: float) -> list[psutil.Process]:
    """Ends all processes that `find` finds, also those that appear meanwhile; returns any that are left.

    SIGTERM to each when it is first seen; SIGKILL to whoever remains after `grace_s`.
    """
    begun, told = time.monotonic(), set[int]()

    def none_left() -> bool:
        _reap()
        found = find()
        if time.monotonic() - begun > grace_s:
            send(found, signal.SIGKILL)
        else:
            send([process for process in found if process.pid not in told], signal.SIGTERM)
            told.update(process.pid for process in found)
        return not found

    await_that(none_left, deadline_s)
    return find()


def _reap() -> None:
    """Collects dead children, adopted ones too, so that they do not stay as zombies."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return  # there are no children left
