"""Progress on a terminal: the phase of the run, the time that is left, the reported attempts, their rate, and what
Spark does."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from delivery_verifier.host import folders
from delivery_verifier.model.progress import StepProgress
from delivery_verifier.progress import estimates, live
from delivery_verifier.progress.phases import ENDED, Steps, phase
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory

EVERY_S = 2.0
"""Seconds between two lines of progress, where there is no terminal."""
REDRAW_S = 0.5
"""Seconds between two drawings of the one line that shows progress on a terminal."""


class Follower:
    """Prints the progress of one run on stderr. Use it as a context manager, and do the run in the block.

    A line is printed when a step changes its state. Between these lines, a terminal shows one line that is redrawn
    every REDRAW_S seconds. If stderr is no terminal, the Follower looks every EVERY_S seconds: it prints a line about
    the load while the load flows, and later a line about Spark if Spark's progress has changed. `run_dir` is the run
    directory, which need not exist yet. If `quiet` is true, nothing is printed. `clock` returns the time in seconds.
    """

    def __init__(self, run_dir: Path, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._run_dir, self._quiet, self._clock = run_dir, quiet, clock
        self._start = clock()
        self._states: dict[str, str] = {}
        self._begun_s: dict[str, float] = {}
        self._ended_s = self._start
        self._reported = (self._start, 0)
        self._usual_s: dict[str, float] | None = None
        self._spark_said = ""
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="progress", daemon=True)
        console = Console(stderr=True, highlight=False, emoji=False)
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None

    def __enter__(self) -> Follower:
        if self._live is not None and not self._quiet:
            self._live.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join(timeout=5)
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()

    def say(self, text: str) -> None:
        """Prints one line: the seconds since the start, then `text`. If nobody reads stderr any more, does nothing."""
        if self._quiet:
            return
        line = f"{self._elapsed_s():6.1f} s  {text}"
        with suppress(OSError):
            if self._live is not None and self._live.is_started:
                self._live.console.print(Text(line))
            else:
                print(line, file=sys.stderr, flush=True)

    def step_changed(self, progress: StepProgress) -> None:
        """Prints the new state of a step. A caller passes this method to the run as its ProgressListener."""
        if progress.state == "running":
            self._begun_s[progress.step] = self._clock()
        elif progress.state in ENDED:
            self._ended_s = self._clock()
        self._states[progress.step] = progress.state
        if progress.state in ("running", "success", "failed", "upstream_failed"):
            self.say(f"{progress.step:<14} {progress.state}")

    def line(self) -> str:
        """Returns the line that a terminal shows. The most important words come first, because a narrow terminal cuts
        off the end of the line."""
        steps = self._steps()
        parts = [phase(self._run_dir, steps), estimates.in_words(self._left_s(steps))]
        if "produce" in steps.running and (load := self._load()):
            arms, rate = load
            parts += [f"{arms[0]}, {rate}"]
        return "  ".join([f"{self._elapsed_s():6.1f} s", *filter(None, [*parts, self._spark(steps)])])

    def _elapsed_s(self) -> float:
        return self._clock() - self._start

    def _steps(self) -> Steps:
        """Returns how far the steps have come. Another thread may call `step_changed` meanwhile."""
        now_s, begun_s = self._clock(), {**self._begun_s}
        since_s = {step: now_s - at_s for step, at_s in begun_s.items()}
        return Steps({**self._states}, since_s, now_s - self._ended_s)

    def _tick(self) -> None:
        """Shows the state of the run again and again, until the run is over."""
        while not self._done.wait(EVERY_S if self._live is None else REDRAW_S):
            if self._quiet:
                continue
            if self._live is not None:
                self._live.update(Text(self.line(), no_wrap=True, overflow="ellipsis"), refresh=True)
            elif text := self._plain_line():
                self.say(text)

    def _plain_line(self) -> str:
        """Returns the next line where there is no terminal, e.g. `load before the fault kill_leader; reported 120,000
        of 1,000,000 (safe); 21,300/s; about 40 s left`. Returns an empty text if there is nothing new to say."""
        steps = self._steps()
        remaining = estimates.in_words(self._left_s(steps))
        if "produce" in steps.running and (load := self._load()):
            arms, rate = load
            return "; ".join(
                filter(None, (phase(self._run_dir, steps), f"reported {', '.join(arms)}", rate, remaining))
            )
        if (spark := self._spark(steps)) in ("", self._spark_said):
            return ""
        self._spark_said = spark
        return "; ".join(filter(None, (phase(self._run_dir, steps), spark, remaining)))

    def _load(self) -> tuple[list[str], str] | None:
        """Returns the reported records of each arm in words, subjects first, and the rate of all arms. Returns None if
        the run has no cluster yet."""
        run = RunDirectory(self._run_dir)
        try:
            scenario, start_cluster = run.read_scenario(), run.manifest("start_cluster")
        except (IncompleteRun, ValueError):
            return None
        counts = live.reported(scenario, Path(start_cluster.notes["workspace"]) / "live")
        arms = [f"{counts[arm.name]:,} of {arm.records:,} ({arm.name})" for arm in scenario.loaded]
        return arms, f"{self._rate(sum(counts.values())):,.0f}/s"

    def _spark(self, steps: Steps) -> str:
        """Returns what Spark does now, e.g. `job 5, 41 of 64 tasks`. Empty if no step needs Spark, or if nothing is
        known."""
        if not {"read_topic", "reconcile"} & {*steps.running}:
            return ""
        spark = live.spark(self._run_dir)
        return "" if spark is None else str(spark)

    def _rate(self, reported: int) -> float:
        """Returns the reports per second since the last call of this method. `reported`: the number of reports so
        far."""
        now_s = self._clock()
        (before_s, before), self._reported = self._reported, (now_s, reported)
        return max(0, reported - before) / max(now_s - before_s, 1e-3)

    def _left_s(self, steps: Steps) -> float | None:
        """Estimates from earlier runs on this host how many seconds the run still takes. None: nobody can know."""
        if self._usual_s is None:
            try:
                load = RunDirectory(self._run_dir).read_scenario().load
            except (IncompleteRun, ValueError):
                return None
            self._usual_s = estimates.usual_s(folders.stored_runs(), load) or {}
        return estimates.remaining_s(self._usual_s, steps) if self._usual_s else None
