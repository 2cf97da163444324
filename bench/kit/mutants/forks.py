"""Work in a fork of this process, which a limit of time ends."""

from __future__ import annotations

import os
import resource
import select
import signal
from collections.abc import Callable

PASSED, TIMED_OUT = "", "time"

PATIENCE = 20
"""How many times longer than its limit work may take on a busy machine, if it has not used as much processor time."""


def forked(work: Callable[[], str], limit_s: float) -> str:
    """Returns what `work` returns in a fork of this process, or TIMED_OUT. Ends all processes of the fork.

    `limit_s`: how much processor time it may use. If it waits, it may take PATIENCE times as long.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.close(reader)
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s) + 1, int(limit_s) + 5))
            os.write(writer, work().encode() or b"-")
        finally:
            os._exit(0)
    os.close(writer)
    try:
        in_time, _, _ = select.select([reader], [], [], PATIENCE * limit_s)
        answer = os.read(reader, 4096).decode() if in_time else TIMED_OUT
    finally:
        os.close(reader)
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:  # not yet, or no longer, a group
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return TIMED_OUT
    if not answer:
        raise RuntimeError("a trial ended without an answer")
    return PASSED if answer == "-" else answer
