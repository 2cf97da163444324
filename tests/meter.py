"""Counts the processor seconds of all processes that have a mark in their environment, whatever their parent is."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, Self

import psutil

EVERY_S = 0.5
"""Seconds between two looks. What a process that nobody waits for does after the last look at it is not counted."""


class Seen(NamedTuple):
    """One process at the last look. `parent` is the key of its parent. `used_s`: the processor seconds of the process
    and of those of its children that it has waited for."""

    parent: tuple[int, float] | None
    used_s: float


class Meter:
    """Counts while its block runs. The mark is the value of an environment variable: children inherit it, and keep it
    when their parent ends. A child without the variable, e.g. a process in a container, counts like its parent.

    A process counts as long as it is there, with all children that it has waited for. When it is gone, its parent has
    its time. If its parent is gone, too, or does not count (the process was adopted), its last figure is kept.
    """

    def __init__(self, variable: str, mark: str) -> None:
        self._variable, self._mark = variable, mark
        self._counts: dict[tuple[int, float], bool] = {}
        self._seen: dict[tuple[int, float], Seen] = {}
        self._kept_s = 0.0
        self._curve: list[tuple[float, float]] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._look()

    @property
    def used_s(self) -> float:
        """The processor seconds up to the last look."""
        return self._curve[-1][1]

    def until(self, moment: float) -> float:
        """Returns the processor seconds until a moment of the monotonic clock, interpolated between two looks."""
        after = bisect_right(self._curve, (moment, float("inf")))
        if after in (0, len(self._curve)):
            return self._curve[min(after, len(self._curve) - 1)][1]
        (begin, least), (end, most) = self._curve[after - 1 : after + 1]
        return least + (most - least) * (moment - begin) / (end - begin)

    def _watch(self) -> None:
        while not self._end.wait(EVERY_S):
            self._look()

    def _look(self) -> None:
        there = dict[int, tuple[tuple[int, float], psutil.Process]]()
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                there[process.pid] = ((process.pid, process.create_time()), process)
        now = dict[tuple[int, float], Seen]()
        for key, process in sorted(there.values(), key=lambda one: one[0][1]):  # parents first
            with suppress(psutil.Error), process.oneshot():
                if self._is_counted(key, process, there):
                    parent, times = there.get(process.ppid()), process.cpu_times()
                    used = times.user + times.system + times.children_user + times.children_system
                    now[key] = Seen(parent[0] if parent else None, used)
        gone = [seen for key, seen in self._seen.items() if key not in now]
        self._kept_s += sum(seen.used_s for seen in gone if seen.parent not in now)
        self._seen = now
        self._counts = {key: self._counts[key] for key, _ in there.values() if key in self._counts}
        used = self._kept_s + sum(seen.used_s for seen in now.values())
        self._curve.append((time.monotonic(), max(used, self._curve[-1][1] if self._curve else 0.0)))

    def _is_counted(
        self, key: tuple[int, float], process: psutil.Process, there: Mapping[int, tuple[tuple[int, float], object]]
    ) -> bool:
        if key not in self._counts:
            try:
                mark = process.environ().get(self._variable)
            except psutil.AccessDenied:
                mark = None
            parent = there.get(process.ppid())
            of_parent = parent is not None and self._counts.get(parent[0], False)
            self._counts[key] = of_parent if mark is None else mark == self._mark
        return self._counts[key]
