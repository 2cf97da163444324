"""The owner of a run: the process that started it from a terminal, and without which the run ends."""

from __future__ import annotations

import os
from pathlib import Path


def start_ticks(pid: int) -> int | None:
    """When `pid` started, in clock ticks since boot; None if there is no such process or it is a zombie.

    With the pid it identifies a process for good: a pid alone is given to others later (proc(5), field 22).
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def identify(pid: int | None = None) -> str:
    """`<pid>:<start ticks>` of a living process (default: this one). Raises ProcessLookupError."""
    pid = pid or os.getpid()
    started = start_ticks(pid)
    if started is None:
        raise ProcessLookupError(f"owner: there is no process {pid}")
    return f"{pid}:{started}"


def is_alive(owner: str) -> bool:
    """Whether the very process that `identify` named still lives. Raises ValueError if `owner` is malformed."""
    pid, separator, started = owner.partition(":")
    if not (separator and pid.isdigit() and started.isdigit()):
        raise ValueError(f"owner is {owner!r}, expected <pid>:<start ticks>")
    return start_ticks(int(pid)) == int(started)
