"""The SHA-256 of files, computed once per process for each state of a file."""

from __future__ import annotations

import hashlib
import time
from functools import lru_cache
from pathlib import Path

SETTLED_NS = 1_000_000_000
"""A file changed less than this before now may change again within the resolution of its file system's clock."""
_REMEMBERED = 4096


def sha256(file: Path) -> str:
    """The SHA-256 of a file, as hexadecimal digits. Raises OSError if it cannot be read.

    This process remembers the digest for as long as path, size, inode, modification time and change time of the file
    stay the same, so that each check of a step does not read the whole ledger again. That is safe enough here: files
    of a finished step are replaced as a whole or not at all, and every write call changes the times, even if it keeps
    the size. A file whose modification is younger than one second is read every time, because a second write within the
    resolution of the file system's clock would leave the same times.

    The memory is not safe against someone who writes to the block device, through a memory map, or with the clock of
    the machine set back, nor on a file system that keeps no change times; such a change escapes this process. It does
    not escape the next process: nothing is remembered between processes, and every step of a run that Airflow executes
    is a process of its own.
    """
    state = file.stat()
    times_ns = state.st_mtime_ns, state.st_ctime_ns
    if time.time_ns() - max(times_ns) < SETTLED_NS:
        return _read(file)
    return _remembered(str(file.absolute()), state.st_size, state.st_ino, times_ns)


@lru_cache(maxsize=_REMEMBERED)
def _remembered(path: str, size_bytes: int, inode: int, times_ns: tuple[int, int]) -> str:
    return _read(Path(path))


def _read(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
