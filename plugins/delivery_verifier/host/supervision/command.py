"""One command line of somebody else's: run to its end or its deadline, with no more than the end of its output kept."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from delivery_verifier.host.processes import state
from delivery_verifier.host.waiting import DeadlinePassed, wait_until

KEPT_BYTES = 16 << 10
"""How much is kept of the end of the output."""
GRACE_S = 3.0
"""Seconds between SIGTERM and SIGKILL."""
_LOOK_EVERY_S, _READ_BYTES, _MOST_READS = 0.05, 64 << 10, 64


class Ended(NamedTuple):
    """How a command ended.

    * `exit_code`: as `Popen.returncode` has it. None: it was ended at its deadline.
    * `output`: the end of what it printed, on both streams, in at most KEPT_BYTES.
    * `is_cut`: whether it printed more.
    """

    exit_code: int | None
    took_s: float
    output: bytes
    is_cut: bool


def run(
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    deadline_s: float,
    started: Callable[[int], None] = lambda pid: None,
) -> Ended:
    """Runs a command in a session and process group of its own, without a shell, a terminal or an input.

    `started` is called with the number of the group. At the deadline, or if this call is interrupted, all processes of
    the group are ended. What a command that has ended in time leaves behind goes on, e.g. a server that it started.
    Raises OSError if the program cannot be started.
    """
    began_s = time.monotonic()
    process = subprocess.Popen(
        list(words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        cwd=folder,
        start_new_session=True,
    )
    assert process.stdout is not None, "a pipe was asked for"
    with process.stdout as stream:
        os.set_blocking(stream.fileno(), False)
        output = _Output(stream.fileno())
        try:
            started(process.pid)
            in_time = _await(process, output, began_s + deadline_s)
        finally:
            if process.returncode is None:
                _end_group(process)
        output.read(_MOST_READS)
    code = process.returncode if in_time else None
    return Ended(code, time.monotonic() - began_s, output.end, output.is_cut)


class _Output:
    """The end of what comes out of a pipe that does not block."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.end, self.is_cut, self.is_open = descriptor, b"", False, True

    def read(self, times: int = 1) -> None:
        """Takes what is there, in at most so many reads."""
        for _ in range(times):
            try:
                read = os.read(self.descriptor, _READ_BYTES)
            except BlockingIOError:
                return
            if not read:
                self.is_open = False
                return
            self.is_cut = self.is_cut or len(self.end) + len(read) > KEPT_BYTES
            self.end = (self.end + read)[-KEPT_BYTES:]


def _await(process: subprocess.Popen[bytes], output: _Output, until_s: float) -> bool:
    """Reads the output until the process has ended. Returns False if it had not at `until_s`, on the monotonic
    clock."""
    with selectors.DefaultSelector() as selector:
        selector.register(output.descriptor, selectors.EVENT_READ)
        while process.poll() is None:
            if time.monotonic() >= until_s:
                return False
            if output.is_open:
                if selector.select(_LOOK_EVERY_S):
                    output.read()
            else:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_EVERY_S)
    return True


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends the group of a process that nobody has waited for yet: until then, no other group has its number."""
    _signal(process.pid, signal.SIGTERM)
    with suppress(DeadlinePassed):
        wait_until(lambda: state(process.pid) in ("Z", "X", ""), "a command to end", GRACE_S)
    _signal(process.pid, signal.SIGKILL)  # also for those of the group that ignore SIGTERM
    process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)
