"""Functions for tests that start clusters. One gives a test a home, a lock and workspaces that no other run shares. The
others find the processes that a test has started, and wait for their end."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from delivery_verifier.host.waiting import wait_until
from support.patience import LOOK_EVERY_S

GONE_WITHIN_S = 30.0
"""How long processes may live, in seconds, after the event that ends them."""


@contextmanager
def own_host() -> Iterator[Path]:
    """Makes this process and its children use a home, a lock and workspaces of their own inside the block.

    Yields the folder that holds all three. Its name is short, because a Unix socket's path may have at most 107 bytes.
    """
    folder = Path(tempfile.mkdtemp(prefix="kdv-t-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KDV_HOME", str(folder / "home"))
        patch.setenv("KDV_LOCK", str(folder / "lock"))
        patch.setenv("KDV_WORKSPACES", str(folder / "ws"))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.delenv("KDV_RUNS", raising=False)
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


def alive(mark: str, value: str, command: str = "") -> dict[int, str]:
    """Returns the command lines, by pid, of the processes whose environment has `mark`=`value`, whatever their parent.

    The command lines must match the regular expression `command`. This process is left out.
    """
    found = {}
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
            if process.environ().get(mark) == value and process.status() != psutil.STATUS_ZOMBIE:
                found[process.pid] = line
        except psutil.Error:
            continue
    found.pop(os.getpid(), None)
    return {pid: line for pid, line in found.items() if re.search(command, line)}


def wait_until_gone(mark: str, value: str, command: str = "") -> None:
    """Waits until `alive` finds no process. Raises DeadlinePassed, with the processes, after GONE_WITHIN_S seconds."""
    left = lambda: alive(mark, value, command)  # noqa: E731
    wait_until(lambda: not left(), "all processes to be gone", GONE_WITHIN_S, LOOK_EVERY_S, detail=lambda: str(left()))
