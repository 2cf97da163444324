"""The machine: a description of the host, which is published beside every measured figure."""

from __future__ import annotations

import os
import platform


def describe() -> str:
    """Returns one line of text: the number of CPUs, the size of the memory, the architecture, and the operating
    system's version."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{os.cpu_count()} CPUs, {memory_gb:.0f} GB, {platform.machine()}, {platform.system()} {platform.release()}"
