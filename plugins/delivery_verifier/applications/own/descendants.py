"""The processes of one own member: its guardian, the guardian's process group, and descendants that left this group.

A program leaves the group e.g. by `setsid`, or when it becomes a daemon. The guardian adopts every descendant whose
parent has ended, so that all of them remain its descendants.
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
    """Sends the signal `number` to all processes of the member whose guardian has the pid `guardian`."""
    for process in _outside(guardian):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    with suppress(ProcessLookupError):
        os.killpg(guardian, number)


def kill_all(guardian: int) -> None:
    """Kills all processes of a member, and waits until none is left. `guardian` is the pid of its guardian.

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
    """Returns the descendants of the guardian that run outside its process group."""
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
    """Returns whether a process runs or is frozen. A process that has ended and is not yet waited for does not run."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False
