"""The loop: runs the items of a catalogue run one after another, and records every attempt.

A failed run does not stop the loop.

An item is one entry in one round. A round runs every selected entry once. An attempt is one run of an item.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Protocol

from msgspec.structs import replace

from delivery_verifier.host import folders
from delivery_verifier.model.catalogue_run import Attempt, CatalogueRun, Item
from delivery_verifier.run_directory import catalogue_runs
from delivery_verifier.suite import results


class Runner(Protocol):
    """The interface of a runner, which runs the entries of a catalogue run one after another."""

    def begin(self, entry: str, run: str, before_load: Callable[[], None]) -> Future[Attempt]:
        """Runs the entry called `entry`. `run` is the name of the run and of its run directory.

        Returns as soon as the next entry may begin, even if this run is still being judged. The returned future will
        hold the result of the run as an `Attempt`, even if the run fails. The future itself never raises an error.

        Calls `before_load` after the cluster is up, and before the first record is sent. `before_load` waits until the
        previous entry has been judged, because the judging would disturb the load. If the run ends earlier,
        `before_load` is not called.
        """


AttemptListener = Callable[[CatalogueRun, Item], None]
"""A function that is called after each run of an item (one entry in one round). Its arguments are the catalogue run and
this item. Both arguments already include the result of the run."""


class Loop:
    """One catalogue run under way.

    `catalogue` is the state of the catalogue run so far. `runner` runs the entries. `listener` is called after each run
    of an entry.

    The result of each run of an entry is written to catalogue.json before the next run sends its first record.
    """

    def __init__(self, catalogue: CatalogueRun, runner: Runner, listener: AttemptListener) -> None:
        self.catalogue = catalogue
        self._runner, self._listener = runner, listener
        self._awaited: tuple[Item, Future[Attempt]] | None = None
        self._lock = threading.Lock()

    def run(self) -> CatalogueRun:
        """Runs every open item. If the first attempt of an item is INCONCLUSIVE, runs the item once more.

        An item is open if it must still be run (see `Item.open`). Returns the finished catalogue run.
        """
        catalogue_runs.write(self.catalogue)
        while (item := self._next()) is not None:
            attempt = self._runner.begin(item.name, self._free_name(item), self._record_awaited)
            self._record_awaited()  # a run that ended before its load has not called before_load
            self._awaited = (item, attempt)
        self.catalogue = replace(self.catalogue, ended_at=now())
        catalogue_runs.write(self.catalogue)
        return self.catalogue

    def _next(self) -> Item | None:
        """Returns the next item that must still be run, or None if there is no such item.

        Passes over the item whose run is being judged. If all other items have been run, waits for the verdict of the
        run that is being judged. If this verdict is INCONCLUSIVE, the item may have to run again.
        """
        awaited = self._awaited[0] if self._awaited else None
        item = next((item for item in self.catalogue.open if item is not awaited), None)
        if item is None:
            self._record_awaited()
            item = next(iter(self.catalogue.open), None)
        return item

    def _record_awaited(self) -> None:
        """Waits until the run that is being judged has a result, and writes the result to catalogue.json.

        Does nothing if no run is being judged.
        """
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
        """Returns a name for the next run of `item`.

        No run directory has this name yet, not even the directory of a run that was interrupted.
        """
        stem = run_name(self.catalogue, item)
        names = (
            folders.run_directory_name(f"{stem}-{number}" if number > 1 else stem) for number in itertools.count(1)
        )
        return next(name for name in names if not (folders.runs_dir() / name).exists())


def run_name(catalogue: CatalogueRun, item: Item) -> str:
    """Returns the name of the first run of `item`, for example `nightly-acks_1.frozen_followers-r2`.

    The name consists of the catalogue run, the entry and, if there are several rounds, the round. A further run of the
    item has the same name with a number at its end, e.g. `-2` (see `Loop._free_name`).
    """
    return f"{catalogue.id}-{item.name}" + (f"-r{item.round}" if catalogue.rounds > 1 else "")


def attempt_or_failure(work: Callable[[], Attempt], run: str) -> Attempt:
    """Calls `work`, and returns the `Attempt` that it returns. If `work` raises an error, returns an `Attempt` with the
    error.

    An `Attempt` is the result of one run of an entry. `run` is the name of the run.
    """
    started_at, begun_s = now(), time.monotonic()
    try:
        return work()
    except Exception as error:  # a failed entry must not stop the other entries; the page shows it as failed
        return results.failed(run, started_at, time.monotonic() - begun_s, error)


def now() -> str:
    """Returns the present time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
