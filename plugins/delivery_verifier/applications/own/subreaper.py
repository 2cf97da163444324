"""The subreaper of one member of a user application (a program of the user's own). The subreaper starts the member's
command, and leads the process group in which the command and its child processes run.

If the supervisor of the members ends, the subreaper kills its descendants and its whole group. This is how to run it:
`python -m delivery_verifier.applications.own.subreaper WORD...`. The words are the command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from types import FrameType

import psutil

from delivery_verifier.host.processes import dies_with_parent
from delivery_verifier.host.supervision.descendants import adopt_orphans, descendants

SUPERVISOR_ENDED = signal.SIGUSR1
"""The signal that the kernel sends to the subreaper when the supervisor has ended."""
_NOT_STARTED = 127


def main() -> int:
    """Runs the command, and waits until it has ended. The command may leave processes behind. If the subreaper got
    SIGTERM, it waits until these processes have ended by themselves. Otherwise it kills them. The supervisor of the
    members has a deadline, and kills all processes that still run at the deadline.

    Returns the exit code of the command, or 127 if the command cannot be started. If a signal ended the command, the
    subreaper ends by the same signal.
    """
    adopt_orphans()
    signal.signal(SUPERVISOR_ENDED, _kill_all)
    stops = list[int]()
    signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))  # every process of the member gets the signal
    try:
        child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, preexec_fn=dies_with_parent())
    except OSError as error:
        print(f"{sys.argv[1]} cannot be started: {error.strerror}", file=sys.stderr)
        return _NOT_STARTED
    code = child.wait()
    _wait_descendants() if stops else _kill_descendants()
    if code >= 0:
        return code
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
    return -code


def _wait_descendants() -> None:
    """Waits until this process has no descendant. Each descendant becomes a child of this process once its own parent
    has ended."""
    with suppress(ChildProcessError):
        while True:
            os.wait()


def _kill_descendants() -> None:
    for process in descendants(os.getpid()):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _kill_all(_number: int, _frame: FrameType | None) -> None:
    _kill_descendants()  # some may have left the group
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
