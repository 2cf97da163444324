"""Computes the SHA-256 of files. Each process remembers the digest of a file until the file changes (see `sha256`)."""

from __future__ import annotations

import hashlib
import time
from functools import lru_cache
from pathlib import Path

SETTLED_NS = 1_000_000_000
"""A time in ns. The digest of a file is remembered only if the file's last change is at least this long ago. Reason: a
second change shortly after the first one could fall into the same tick of the file system's clock, and would then leave
the times of the file as they are."""
_REMEMBERED = 4096
"""The greatest number of digests that a process remembers."""


def sha256(file: Path) -> str:
    """Returns the SHA-256 of a file, as hexadecimal digits. Raises OSError if the file cannot be read.

    This process remembers the digest as long as path, size, inode, modification time and change time of the file stay
    the same, so that a large ledger is not read again for each check. A file that changed less than one second ago is
    read every time (see SETTLED_NS). The remembered digest is safe enough for two reasons:

    * Files of a finished step are only ever replaced as a whole.
    * Every write call changes the times, even if the size stays the same.

    A process that remembers the digest does not notice some changes: a write to the block device, a write through a
    memory map, a write while the clock of the machine is set back, and any write on a file system that keeps no change
    times. The next process notices such changes, because nothing is remembered between processes. Airflow executes
    every step of a run in a process of its own.
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
