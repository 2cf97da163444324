"""What `kdv catalogue` prints: the list of entries, a line for each run of an entry that has ended, and the summary.

An item is one entry in one round. A round runs every selected entry once. In this module, an attempt is one run of an
item.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from delivery_verifier.catalogue.entry import Entry
from delivery_verifier.model.catalogue_run import STATES, Attempt, CatalogueRun, Item
from delivery_verifier.model.figures import enumeration
from delivery_verifier.model.progress import StepProgress
from delivery_verifier.model.steps import DOING
from delivery_verifier.reporting.words import clean
from delivery_verifier.suite import selection

SIGNS = {
    "as expected": "✔",
    "not as expected": "✘",
    "failed": "✘",
    "inconclusive": "?",
    "unavailable": "–",
    "pending": "…",
}
"""The sign that a terminal shows for each state of an item (one entry in one round)."""


def listing(entries: Iterable[tuple[Entry, str]]) -> str:
    """Returns a text with one line per entry: name, title, tags and, if the entry is unavailable, the reason.

    The entries of each kind (see `selection.KINDS`) stand below a line with the name of the kind. The last line has the
    number of entries. `entries` are pairs of an entry and the reason why this host cannot run the entry. The reason is
    empty if the host can run the entry.
    """
    lines, kind = [], ""
    for entry, why in entries:
        if selection.KINDS[entry.name] != kind:
            kind = selection.KINDS[entry.name]
            lines.append(kind)
        lines.append(
            f"  {entry.name:<36} {entry.title} [{', '.join(entry.tags)}]" + (f" UNAVAILABLE: {why}" if why else "")
        )
    return "\n".join(
        [*lines, f"{len(lines) - len({line for line in lines if not line.startswith(' ')})} scenarios", ""]
    )


def verdicts(attempt: Attempt) -> str:
    """Returns a text with the verdict of every arm except the canary, e.g. `acks_1 VIOLATED, safe HELD`.

    `attempt` is the result of one run of an entry. If the run has no verdict, returns the error of the run.
    """
    if attempt.verdict is None:
        return clean(f"no verdict: {attempt.error}")
    return clean(", ".join(f"{arm.arm} {arm.verdict}" for arm in attempt.arms))


def summary(catalogue: CatalogueRun, page: Path, stream: TextIO) -> None:
    """Writes the outcome of the catalogue run to `stream`: the number of items in each state, and the path `page`.

    Also writes a line for each item that is not green, with the reason. An item is one entry in one round. It is green
    if its verdicts are as expected, or if it is unavailable and the user expected that. `page` is the file of the
    matrix, the page with all results.
    """
    counts = enumeration(
        [f"{catalogue.count(state)} {state}" for state in reversed(STATES) if catalogue.count(state)], last="and"
    )
    repeated = sum(len(item.attempts) > 1 for item in catalogue.items)
    stream.write(f"{'green' if catalogue.green else 'NOT GREEN'}: of {len(catalogue.items)} scenarios {counts}\n")
    if repeated:
        stream.write(f"run once more because they were INCONCLUSIVE: {repeated}\n")
    for item in catalogue.items:
        if not item.green:
            stream.write(f"  {SIGNS[item.state]} {item.name}: {_reason(item)}\n")
    stream.write(f"matrix     {page}\n")


def _reason(item: Item) -> str:
    """Returns why an item is not green, e.g. which arm got another verdict than expected, or what this host lacks."""
    if item.unavailable:
        return clean(f"unavailable: {item.unavailable}")
    if not item.attempts:
        return "was not run"
    last = item.attempts[-1]
    wrong = [f"{arm.arm} is {arm.verdict}, expected {arm.expected}" for arm in last.arms if not arm.as_expected]
    doubts = last.doubts[:2] if item.state == "inconclusive" else []
    return clean("; ".join([*(wrong or [verdicts(last)]), *doubts]))


class Progress:
    """Prints the progress of one catalogue run to `stream`: one line for each run of an entry that has ended.

    If `stream` is a terminal, also shows the step that is running.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._begun_s = stream, time.monotonic()
        self._lock = threading.Lock()

    def begin(self, catalogue: CatalogueRun, more: str) -> None:
        """Prints how many items will run, and a line for each item that this host cannot run.

        `more` is the end of the first line, for example how to resume the catalogue run.
        """
        self.say(f"catalogue run {catalogue.id}: {len(catalogue.open)} to run; {more}")
        for item in catalogue.items:
            if item.unavailable:
                self.say(f"{SIGNS['unavailable']} {item.name}  UNAVAILABLE: {item.unavailable}")

    def attempt_ended(self, catalogue: CatalogueRun, item: Item) -> None:
        """Prints one line about the newest run of `item`: the verdicts of the run, its duration, and the state of
        `item`.

        The line also estimates how long the rest of the catalogue run will take.
        """
        attempt, open_items = item.attempts[-1], len(catalogue.open)
        done = sum(len(other.attempts) for other in catalogue.items)
        state = "inconclusive, once more" if item.open else item.state
        each = (time.monotonic() - self._begun_s) / max(done, 1)
        remaining = f"{open_items} left, about {open_items * each / 60:.1f} min" if open_items else "none left"
        self.say(
            f"{SIGNS[item.state]} {item.name}  {verdicts(attempt)}: {state}  ({attempt.seconds:.0f} s; {remaining})"
        )

    def step_changed(self, progress: StepProgress) -> None:
        """Prints what the running step does. Does so only on a terminal, where the next output overwrites this line.

        Each run calls this method, as its ProgressListener, when a step changes its state.
        """
        if self._stream.isatty() and progress.state == "running":
            with self._lock, suppress(OSError):
                self._stream.write(f"\r\033[K{clean(progress.run)}: {DOING.get(progress.step, progress.step)}")
                self._stream.flush()

    def say(self, text: str) -> None:
        """Prints one line: the seconds since this object was created, and `text`. If nobody reads the stream any more,
        does nothing."""
        with self._lock, suppress(OSError):
            start = "\r\033[K" if self._stream.isatty() else ""
            self._stream.write(f"{start}{time.monotonic() - self._begun_s:6.1f} s  {clean(text)}\n")
            self._stream.flush()
