"""Parking: a member stands still at a named point of its work (a crash point), so that a kill hits it exactly there."""

from __future__ import annotations

from collections.abc import Callable

from delivery_verifier.applications.control import Control, Word
from delivery_verifier.applications.journal import Journal
from delivery_verifier.host.waiting import pause
from delivery_verifier.model.application import CRASH_POINTS, CrashPoint

POINTS: tuple[CrashPoint, ...] = tuple(CRASH_POINTS)
_EVERY_S = 0.002


class Parking:
    """Parks a member in one of its incarnations, as the fault plan orders. `is_stopping` returns whether the member is
    to end.

    An order names a crash point, a batch and, for the crash point `applied`, a record. The first batch that begins
    after the order is batch 1. If a batch has fewer records than the order needs, the member parks in the next batch
    that has enough.
    """

    def __init__(self, control: Control, journal: Journal, is_stopping: Callable[[], bool]) -> None:
        self._control, self._journal, self._is_stopping = control, journal, is_stopping
        self._order, self._batches, self._is_due = 0, 0, False

    def begin_batch(self) -> None:
        """Counts a batch. The member calls this when it begins its work on the batch."""
        order = self._control[Word.PARKS]
        if order != self._order:
            self._order, self._batches, self._is_due = order, 0, True
        self._batches += 1

    def stand(self, point: CrashPoint, batch: int, applied: int = 0) -> None:
        """If the member is ordered to park at `point`, parks it. It stays parked until it is killed, told to end, or
        given another order.

        `batch` is the number of the batch, for the journal. `applied` is the number of records of the batch that are
        applied.
        """
        if not self.begin_call(point, batch, applied):
            return
        while self._control[Word.PARKS] == self._order and not self._is_stopping():
            pause(_EVERY_S)
        self.end_call()

    def begin_call(self, point: CrashPoint, batch: int, applied: int = 0) -> bool:
        """If the member is ordered to park at `point`, counts it as parked while it waits for a broker. Returns whether
        the member is ordered to park there. The parameters are those of `stand`."""
        control = self._control
        if not self._is_due or POINTS[control[Word.PARK_AT] - 1] != point or self._batches < control[Word.PARK_BATCH]:
            return False
        if point == "applied" and applied != control[Word.PARK_RECORD]:
            return False
        self._is_due = False
        self._journal.note("parked", batch)
        control[Word.PARKED] = self._order
        return True

    def end_call(self) -> None:
        """Stops counting the member as parked, because the broker has answered."""
        self._control[Word.PARKED] = 0
