"""Processes: their identities and states, and children that die with their parent.

An identity stays unique even if the pid of an ended process is used again.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
from msgspec import Struct

_PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


class ProcessId(Struct, frozen=True):
    """The identity of a process: its pid, and `started`, its start time in clock ticks since boot.

    A later process with the same pid has another start time.
    """

    pid: int
    started: int

    def __str__(self) -> str:
        return f"{self.pid}:{self.started}"

    @property
    def alive(self) -> bool:
        """Whether the process still runs. False if the process is a zombie, or if its pid belongs to another process
        now."""
        return identify(self.pid) == self and state(self.pid) not in ("Z", "X", "")

    def send(self, number: int) -> bool:
        """Sends the signal `number` to the process if the process still runs. Returns whether the signal was sent."""
        if not self.alive:
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        """Sends SIGKILL to the process. Does nothing if the process has ended.

        If the process leads a process group, sends SIGKILL to the whole group.
        """
        if not self.alive:
            return
        with suppress(ProcessLookupError):
            if os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, signal.SIGKILL)
            else:
                os.kill(self.pid, signal.SIGKILL)


def incarnations(name: str) -> bool:
    """Returns whether the process that `name` identifies still runs. `name` has the form `pid:started` (see ProcessId).

    Returns False if `name` has another form.
    """
    process = process_of(name)
    return process is not None and process.alive


def process_of(name: str) -> ProcessId | None:
    """Returns the process that `name` identifies. `name` has the form `pid:started` (see ProcessId).

    Returns None if `name` has another form.
    """
    pid, _, started = name.partition(":")
    return ProcessId(int(pid), int(started)) if pid.isdigit() and started.isdigit() else None


def user_of(pid: int) -> str:
    """Returns the name of the user who owns process `pid`, or the user's number if the user has no name.

    Returns `unknown` if there is no such process.
    """
    try:
        number = Path(f"/proc/{pid}").stat().st_uid
        return pwd.getpwuid(number).pw_name
    except OSError:
        return "unknown"
    except KeyError:
        return str(number)


def terminal_of(pid: int) -> str | None:
    """Returns the terminal of process `pid`, e.g. `/dev/pts/3`. Returns None if the process has no terminal or has
    ended.
    """
    try:
        terminal: str | None = psutil.Process(pid).terminal()
    except psutil.Error:
        return None
    return terminal


def identify(pid: int) -> ProcessId | None:
    """Returns the identity of the process with this pid, or None if there is no such process."""
    fields = _stat(pid)
    return ProcessId(pid, int(fields[19])) if fields else None


def myself() -> ProcessId:
    """Returns the identity of this process."""
    identity = identify(os.getpid())
    assert identity is not None, "a running process has a /proc entry"
    return identity


def state(pid: int) -> str:
    """Returns the kernel's one-letter state of the process with this pid, e.g. `R` for running, or `T` for stopped.

    Returns '' if there is no such process.
    """
    fields = _stat(pid)
    return fields[0] if fields else ""


def is_frozen(pid: int) -> bool:
    """Returns whether every thread of the process with this pid is stopped. Returns False if there is no such process.

    Looks at all threads, because SIGSTOP does not stop all threads at once. One thread that still runs can answer a
    request. Ends at the first such thread: a JVM has about 80 threads, and the cluster agent asks 20 times a second.
    """
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        return bool(threads) and all(_is_stopped(pid, thread) for thread in threads)
    except (OSError, IndexError):
        return False


def _is_stopped(pid: int, thread: str) -> bool:
    """Returns whether one thread of a process is stopped. Raises OSError if the thread has ended."""
    return Path(f"/proc/{pid}/task/{thread}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def how_it_ended(code: int) -> str:
    """Returns a text for the exit code `code` of a process, e.g. `exit code -9 (killed by SIGKILL)`.

    `code` has the form of `Popen.returncode`: minus the number of the signal if a signal killed the process.
    """
    return f"exit code {code}" if code >= 0 else f"exit code {code} (killed by {signal.Signals(-code).name})"


def dies_with_parent(number: int = signal.SIGKILL) -> Callable[[], None]:
    """Returns a function that ties a child process to its parent process. Pass the function to subprocess.Popen as
    `preexec_fn`.

    The kernel then sends the signal `number` to the child when the parent's thread that started the child ends. The
    function also restores the default handling of SIGINT, SIGTERM and SIGQUIT in the child. Reason: a process that a
    shell starts in the background ignores SIGINT and SIGQUIT, and its children would ignore them, too.
    """

    def set_death_signal() -> None:
        for default in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
            signal.signal(default, signal.SIG_DFL)
        LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)

    return set_death_signal


def _stat(pid: int) -> list[str] | None:
    """Returns the fields of /proc/<pid>/stat, beginning with field 3 (the state). Returns None if there is no such
    process.

    Source: proc(5).
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
