"""All processes below one process, also those whose parents have ended or that have left its process group, e.g. by
`setsid` or as a daemon.

A process that calls `adopt_orphans` becomes the parent of each descendant whose own parent has ended. So every such
process remains its descendant.
"""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress

import psutil

from delivery_verifier.host.processes import LIBC
from delivery_verifier.host.waiting import wait_until

DEAD_S = 10.0
"""Seconds in which all processes must be dead after SIGKILL."""
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Makes this process adopt each descendant whose parent ends, so that no descendant escapes.

    Calls prctl(2) with PR_SET_CHILD_SUBREAPER. Raises OSError if this call fails.
    """
    if LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def reap() -> None:
    """Collects dead children of this process, also adopted ones, so that they do not stay as zombies. Call it only
    where nobody waits for a child by its pid."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def runs(process: psutil.Process) -> bool:
    """Returns whether a process runs or is frozen. Returns False for a zombie: a process that has ended, but whose
    parent has not waited for it yet."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def descendants(pid: int) -> list[psutil.Process]:
    """Returns all descendants of the process `pid` that run. Empty if there is no such process."""
    with suppress(psutil.NoSuchProcess):
        return [process for process in psutil.Process(pid).children(recursive=True) if runs(process)]
    return []


def send_to_tree(leader: int, number: int) -> None:
    """Sends the signal `number` to the process group of `leader`, and to all descendants of `leader` outside of it."""
    for process in _outside(leader):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


def kill_tree(leader: int) -> None:
    """Kills the process group of `leader` and all its descendants. Waits until none is left.

    Raises DeadlinePassed if a process still runs after `DEAD_S` seconds.
    """
    send_to_tree(leader, signal.SIGSTOP)  # so that no process starts another meanwhile

    def are_outside() -> bool:
        outside = _outside(leader)
        for process in outside:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return bool(outside)

    wait_until(lambda: not are_outside(), "processes outside a process group to die", DEAD_S, every_s=0.005)
    group = descendants(leader)
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    wait_until(lambda: not any(map(runs, group)), "the processes of a group to die", DEAD_S, every_s=0.005)


def _outside(leader: int) -> list[psutil.Process]:
    return [process for process in descendants(leader) if _group_of(process) not in (leader, None)]


def _group_of(process: psutil.Process) -> int | None:
    with suppress(ProcessLookupError):
        return os.getpgid(process.pid)
    return None
