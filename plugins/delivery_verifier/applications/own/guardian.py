"""The guardian of one member of an own application. It starts the member's command, and leads the process group in
which the command and its children run.

If the supervisor of the members ends, the guardian kills its whole group. Run it as
`python -m delivery_verifier.applications.own.guardian WORD...`. The words are the command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import FrameType

import psutil

from delivery_verifier.host.processes import LIBC, dies_with_parent

SUPERVISOR_ENDED = signal.SIGUSR1
"""The signal that the kernel sends to the guardian when the supervisor has ended."""
_PR_SET_CHILD_SUBREAPER = 36
_NOT_STARTED = 127


def main() -> int:
    """Runs the command, and waits until it has ended. Then kills the processes that it has left behind.

    Returns its exit code. If a signal ended the command, ends by the same signal. Returns 127 if there is no such
    program.
    """
    LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(SUPERVISOR_ENDED, _kill_group)
    signal.signal(signal.SIGTERM, lambda *_: None)  # the whole group gets the signal: the command ends, then this
    try:
        child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, preexec_fn=dies_with_parent())
    except OSError as error:
        print(f"{sys.argv[1]} cannot be started: {error.strerror}", file=sys.stderr)
        return _NOT_STARTED
    code = child.wait()
    for process in psutil.Process().children(recursive=True):
        process.kill()
    if code >= 0:
        return code
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
    return -code


def _kill_group(_number: int, _frame: FrameType | None) -> None:
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
