"""The loop: runs the items of a catalogue run one after another and records every attempt. No failure stops it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Protocol

from msgspec.structs import replace

from delivery_verifier.catalogue_run import results
from delivery_verifier.host import folders
from delivery_verifier.model.catalogue_run import Attempt, CatalogueRun, Item
from delivery_verifier.store import catalogue_runs


class Runner(Protocol):
    """Runs the entries of a catalogue run, one after another."""

    def begin(self, entry: str, run: str, before_load: Callable[[], None]) -> Future[Attempt]:
        """Runs `entry` as the run `run`. Returns as soon as the next entry may begin; `entry` may still be judged then.

        Calls `before_load` when the cluster is up, before the first record is sent. `before_load` returns once the
        previous entry has been judged. The future never holds an error: a failed run is an attempt, too.
        """


AttemptListener = Callable[[CatalogueRun, Item], None]
"""A function that is called with the catalogue run, and with the item that has just got another attempt."""


class Loop:
    """One catalogue run under way. Every attempt is written to the record as soon as its result is known."""

    def __init__(self, catalogue: CatalogueRun, runner: Runner, listener: AttemptListener) -> None:
        self.catalogue = catalogue
        self._runner, self._listener = runner, listener
        self._awaited: tuple[Item, Future[Attempt]] | None = None
        self._lock = threading.Lock()

    def run(self) -> CatalogueRun:
        """Runs all open items, and each INCONCLUSIVE item once more. Returns the finished catalogue run."""
        catalogue_runs.write(self.catalogue)
        while (item := self._next()) is not None:
            attempt = self._runner.begin(item.name, self._free_name(item), self._record_awaited)
            self._record_awaited()  # a run that ended before its load has not called before_load
            self._awaited = (item, attempt)
        self.catalogue = replace(self.catalogue, ended_at=now())
        catalogue_runs.write(self.catalogue)
        return self.catalogue

    def _next(self) -> Item | None:
        """Returns the next open item; None if no item is open.

        The item that is still being judged comes last. Its verdict must be known first, because only an INCONCLUSIVE
        item is open once more.
        """
        awaited = self._awaited[0] if self._awaited else None
        item = next((item for item in self.catalogue.open if item is not awaited), None)
        if item is None:
            self._record_awaited()
            item = next(iter(self.catalogue.open), None)
        return item

    def _record_awaited(self) -> None:
        """Waits for the attempt that is being judged, if there is such an attempt, and records the attempt."""
        with self._lock:
            awaited, self._awaited = self._awaited, None
            if awaited is None:
                return
            item, attempt = awaited[0], awaited[1].result()
            changed = replace(item, attempts=(*item.attempts, attempt))
            items = tuple(changed if other is item else other for other in self.catalogue.items)
            self.catalogue = replace(self.catalogue, items=items)
            catalogue_runs.write(self.catalogue)
        self._listener(self.catalogue, changed)

    def _free_name(self, item: Item) -> str:
        """Returns a name for the next run of `item`, which no run directory has yet, not even of an interrupted run."""
        stem = run_name(self.catalogue, item)
        names = (
            folders.run_directory_name(f"{stem}-{number}" if number > 1 else stem) for number in itertools.count(1)
        )
        return next(name for name in names if not (folders.runs_dir() / name).exists())


def run_name(catalogue: CatalogueRun, item: Item) -> str:
    """Returns the name of an item's runs: the catalogue run, the entry and, if there are several rounds, the round."""
    return f"{catalogue.id}-{item.name}" + (f"-r{item.round}" if catalogue.rounds > 1 else "")


def attempt_or_failure(work: Callable[[], Attempt], run: str) -> Attempt:
    """Returns the attempt that `work` returns. If `work` raises an error, returns a failed attempt with the error."""
    started_at, begun_s = now(), time.monotonic()
    try:
        return work()
    except Exception as error:  # a failed entry must not stop the other entries; the page shows it as failed
        return results.failed(run, started_at, time.monotonic() - begun_s, error)


def now() -> str:
    """Returns this moment as ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
