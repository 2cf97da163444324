"""Counts the processor seconds of all processes that have a mark in their environment, whatever their parent is."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple, Self

import psutil

TICK_S = 0.02
"""Processor time is told in ticks of 0.01 s. A sum of two may be off by so many seconds."""
EVERY_S = 0.5
"""Seconds between two looks. What a process that nobody waits for does after the last look at it is not counted."""


Key = tuple[int, float]
"""A process: its pid and the time at which it began."""


class Seen(NamedTuple):
    """One process at the last look, in processor seconds. `waited_s`: the time of the children that it has waited for,
    with that of theirs."""

    parent: Key | None
    own_s: float
    waited_s: float

    @property
    def used_s(self) -> float:
        """The time of the process and of the children that it has waited for."""
        return self.own_s + self.waited_s


class Meter:
    """Counts while its block runs. The mark is the value of an environment variable: children inherit it, and keep it
    when their parent ends. A child without the variable, e.g. a process in a container, counts like its parent.

    A process counts as long as it is there, with all children that it has waited for. When it is gone, whoever waited
    for it has its time: one of its ancestors, whose `waited_s` has grown by as much. If none has, nobody waited for the
    process (it was adopted), and its last figure is kept. This is decided one look later, because the ancestor may have
    been looked at just before.
    """

    def __init__(self, variable: str, mark: str) -> None:
        self._variable, self._mark = variable, mark
        self._counts: dict[Key, bool] = {}
        self._seen: dict[Key, Seen] = {}
        self._gone: dict[Key, Seen] = {}
        self._parents: dict[Key, Key | None] = {}
        self._waited_s: defaultdict[Key, float] = defaultdict(float)
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
        self._look()  # decides about those that were gone at the look before

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
        now = self._now()
        for key, seen in now.items():
            before = self._seen[key].waited_s if key in self._seen else 0.0
            self._waited_s[key] += seen.waited_s - before
            self._parents[key] = seen.parent
        for key, seen in self._gone.items():
            waiter = next((one for one in self._ancestors(key) if self._waited_s[one] >= seen.used_s - TICK_S), None)
            if waiter is None:
                self._kept_s += seen.used_s
            else:
                self._waited_s[waiter] -= seen.used_s
        self._gone = {key: seen for key, seen in self._seen.items() if key not in now}
        self._seen = now
        used = self._kept_s + sum(seen.used_s for seen in now.values())
        self._curve.append((time.monotonic(), max(used, self._curve[-1][1] if self._curve else 0.0)))

    def _now(self) -> dict[Key, Seen]:
        there = dict[int, tuple[Key, psutil.Process]]()
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                there[process.pid] = ((process.pid, process.create_time()), process)
        now = dict[Key, Seen]()
        for key, process in sorted(there.values(), key=lambda one: one[0][1]):  # parents first
            with suppress(psutil.Error), process.oneshot():
                if self._is_counted(key, process, there):
                    parent, times = there.get(process.ppid()), process.cpu_times()
                    waited_s = times.children_user + times.children_system
                    now[key] = Seen(parent[0] if parent else None, times.user + times.system, waited_s)
        self._counts = {key: self._counts[key] for key, _ in there.values() if key in self._counts}
        return now

    def _ancestors(self, key: Key) -> Iterator[Key]:
        """Yields the counted ancestors of a process, the nearest first, whether or not they are still there."""
        parent = self._parents.get(key)
        while parent is not None:
            yield parent
            parent = self._parents.get(parent)

    def _is_counted(self, key: Key, process: psutil.Process, there: Mapping[int, tuple[Key, object]]) -> bool:
        if key not in self._counts:
            try:
                mark = process.environ().get(self._variable)
            except psutil.AccessDenied:
                mark = None
            parent = there.get(process.ppid())
            of_parent = parent is not None and self._counts.get(parent[0], False)
            self._counts[key] = of_parent if mark is None else mark == self._mark
        return self._counts[key]
