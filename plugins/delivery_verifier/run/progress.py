"""Progress on a terminal: the current step, the number of reported attempts, and the estimated rest of the run's
time."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from delivery_verifier.load.live_ledger import Control, Word
from delivery_verifier.model.history import now_us
from delivery_verifier.model.progress import StepProgress
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory

EVERY_S = 2.0
"""Seconds between two printed lines of progress while the producers send the load."""
AFTER_LOAD_S = 60.0
"""About how many seconds the steps after `produce` take. The estimate of the remaining time includes them."""


class Follower:
    """Prints the progress of one run on stderr. The run takes place in the block of this context manager.

    A line is printed when a step changes its state and, while the load flows, every EVERY_S seconds. `run_dir` is the
    run directory, which need not exist yet. If `quiet` is true, nothing is printed.
    """

    def __init__(self, run_dir: Path, quiet: bool = False) -> None:
        self._run_dir, self._quiet = run_dir, quiet
        self._start = time.monotonic()
        self._running: set[str] = set()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="progress", daemon=True)

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join(timeout=5)

    def say(self, text: str) -> None:
        """Prints one line: the seconds since the start, and `text`."""
        if not self._quiet:
            print(f"{time.monotonic() - self._start:6.1f} s  {text}", file=sys.stderr, flush=True)

    def step_changed(self, progress: StepProgress) -> None:
        """Prints the new state of a step. A caller passes this method to the run as its ProgressListener."""
        if progress.state == "running":
            self._running.add(progress.step)
        else:
            self._running.discard(progress.step)
        if progress.state in ("running", "success", "failed", "upstream_failed"):
            self.say(f"{progress.step:<14} {progress.state}")

    def _tick(self) -> None:
        """Prints the line of `_load_line` every EVERY_S seconds during the step produce."""
        while not self._done.wait(EVERY_S):
            if "produce" in self._running and (line := self._load_line()):
                self.say(line)

    def _load_line(self) -> str | None:
        """Returns one line that says how many attempts of each arm are reported, and how long the run still takes.

        An example with the arms idempotent and control-acks_0 is
        `reported 120,000 of 1,000,000 (idempotent), 4,100 of 1,000,000 (control-acks_0); about 40 s left`.

        Returns None if the run has no cluster yet.
        """
        run = RunDirectory(self._run_dir)
        try:
            scenario, start_cluster = run.read_scenario(), run.manifest("start_cluster")
        except (IncompleteRun, ValueError):
            return None
        live = Path(start_cluster.notes["workspace"]) / "live"
        parts = []
        for arm in scenario.loaded:
            producers = [folder for folder in (live / arm.name).glob("*") if (folder / "control").exists()]
            reported = sum(Control(folder)[Word.REPORTED] for folder in producers)
            parts.append(f"{reported:,} of {arm.records:,} ({arm.name})")
        elapsed_s = (now_us() - start_cluster.finished_at_us) / 1e6
        remaining_s = max(0.0, scenario.load.duration_s + scenario.load.recovery_s - elapsed_s) + AFTER_LOAD_S
        return f"reported {', '.join(parts)}; about {remaining_s:.0f} s left"
