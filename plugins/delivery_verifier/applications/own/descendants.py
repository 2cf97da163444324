"""The processes of one own member (one run of a program of the user's own). The guardian is the process that started
the program. The member's processes are the guardian, its process group, and descendants that left this group.

A program leaves the group e.g. by `setsid`, or when it becomes a daemon. The guardian adopts every descendant whose
parent has ended. So every such process remains a descendant of the guardian.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import psutil

from delivery_verifier.host.waiting import wait_until

DEAD_S = 10.0
"""Seconds in which every process of a member must be dead after SIGKILL."""


def send_to_all(guardian: int, number: int) -> None:
    """Sends the signal `number` to all processes of a member. `guardian` is the pid of the member's guardian, i.e. of
    the process that started the member's program."""
    for process in _outside(guardian):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    with suppress(ProcessLookupError):
        os.killpg(guardian, number)


def kill_all(guardian: int) -> None:
    """Kills all processes of a member, and waits until none is left. `guardian` is the pid of the member's guardian,
    i.e. of the process that started the member's program.

    Raises DeadlinePassed if a process still runs after `DEAD_S` seconds.
    """
    send_to_all(guardian, signal.SIGSTOP)  # so that no process starts another meanwhile

    def are_outside() -> bool:
        outside = _outside(guardian)
        for process in outside:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return bool(outside)

    wait_until(lambda: not are_outside(), "processes outside the group of an own member to die", DEAD_S, every_s=0.005)
    group = _descendants(guardian)
    with suppress(ProcessLookupError):
        os.killpg(guardian, signal.SIGKILL)
    wait_until(lambda: not any(map(_runs, group)), "the processes of an own member to die", DEAD_S, every_s=0.005)


def _outside(guardian: int) -> list[psutil.Process]:
    """Returns the descendants of the process `guardian` that are not in the process group of `guardian`."""
    return [process for process in _descendants(guardian) if _group_of(process) not in (guardian, None)]


def _descendants(guardian: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return [process for process in psutil.Process(guardian).children(recursive=True) if _runs(process)]
    return []


def _group_of(process: psutil.Process) -> int | None:
    with suppress(ProcessLookupError):
        return os.getpgid(process.pid)
    return None


def _runs(process: psutil.Process) -> bool:
    """Returns whether a process runs or is frozen. Returns False for a zombie: a process that has ended, but whose
    parent has not waited for it yet."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False
