"""Mapped words: int64 numbers in a file that several processes share. A number that a process wrote stays in the file,
even if SIGKILL ends the process right afterwards."""

from __future__ import annotations

import mmap
from pathlib import Path


def map_words(file: Path, words: int) -> tuple[memoryview, mmap.mmap]:
    """Maps the first `words` int64 words of `file` into memory. Returns a writable view of the words, and the mmap
    object.

    Processes that map the same file share the words. If the file is missing, creates the file and fills it with zeros.
    """
    size = words * 8
    with file.open("a+b") as stream:
        if stream.seek(0, 2) < size:
            stream.truncate(size)
        mapped = mmap.mmap(stream.fileno(), size)
    return memoryview(mapped).cast("q"), mapped
