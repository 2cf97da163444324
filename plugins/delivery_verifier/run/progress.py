"""Progress on a terminal: the current steps, the number of reported attempts, the rate, the fault, what Spark does, and
the estimated time until the end of the run."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from rich.console import Console
from rich.live import Live
from rich.text import Text

from delivery_verifier.host import folders
from delivery_verifier.model.history import now_us
from delivery_verifier.model.progress import StepProgress
from delivery_verifier.run import estimates, live
from delivery_verifier.store.run_directory import IncompleteRun, RunDirectory

EVERY_S = 2.0
"""Seconds between two lines of progress, where there is no terminal."""
REDRAW_S = 0.5
"""Seconds between two drawings of the one line that shows progress on a terminal."""


class _Load(NamedTuple):
    """What the load does, in words.

    * `arms`: the reported records of each arm, subjects first. `rate`: the reported records of all arms per second.
    * `fault`: the fault, or an empty text. `left`: the time until the verdict.
    """

    arms: list[str]
    rate: str
    fault: str
    left: str

    def __str__(self) -> str:
        """The fields as one line, e.g. `reported 120,000 of 1,000,000 (safe), 4,100 of 100,000 (control-acks_0);
        21,300/s; fault kill_leader; about 40 s left`."""
        return "; ".join(filter(None, (f"reported {', '.join(self.arms)}", self.rate, self.fault, self.left)))


class Follower:
    """Prints the progress of one run on stderr. Use it as a context manager, and do the run in the block.

    A line is printed when a step changes its state. Between these lines, a terminal shows one line that is redrawn
    every REDRAW_S seconds. If stderr is no terminal, the Follower looks every EVERY_S seconds: it prints a line about
    the load while the load flows, and later a line about Spark if Spark's progress has changed. `run_dir` is the run
    directory, which need not exist yet. If `quiet` is true, nothing is printed.
    """

    def __init__(self, run_dir: Path, quiet: bool = False) -> None:
        self._run_dir, self._quiet = run_dir, quiet
        self._start = time.monotonic()
        self._begun_s: dict[str, float] = {}
        self._over: set[str] = set()
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
            self._begun_s[progress.step] = time.monotonic()
        else:
            self._begun_s.pop(progress.step, None)
            self._over.add(progress.step)
        if progress.state in ("running", "success", "failed", "upstream_failed"):
            self.say(f"{progress.step:<14} {progress.state}")

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._start

    def _tick(self) -> None:
        """Shows the state of the run again and again, until the run is over."""
        while not self._done.wait(EVERY_S if self._live is None else REDRAW_S):
            if self._quiet:
                continue
            if self._live is not None:
                self._live.update(Text(self._line(), no_wrap=True, overflow="ellipsis"), refresh=True)
            elif "produce" in self._begun_s and (load := self._load()):
                self.say(str(load))
            elif (spark := self._spark()) not in ("", self._spark_said):
                self._spark_said = spark
                self.say(f"Spark: {spark}; about {self._after_load_s():.0f} s left")

    def _line(self) -> str:
        """Returns the line that a terminal shows: the steps under way, the time left, and what the load or Spark does.

        The most important words come first, because a narrow terminal cuts off the end of the line.
        """
        now_s = time.monotonic()
        begun_s = {**self._begun_s}
        if "produce" in begun_s:  # both begin together
            begun_s.pop("inject_fault", None)
        steps = ", ".join(f"{step} {now_s - at_s:.0f} s" for step, at_s in begun_s.items())
        load = self._load() if "produce" in begun_s else None
        parts = [steps or ("next step" if self._over else "starting")]
        if load is not None:
            parts += [load.left, f"{load.arms[0]}, {load.rate}", load.fault]
        elif self._over:
            parts += [f"about {self._after_load_s():.0f} s left", self._spark()]
        return "  ".join([f"{self._elapsed_s():6.1f} s", *filter(None, parts)])

    def _load(self) -> _Load | None:
        """Returns what the load does now, or None if the run has no cluster yet."""
        run = RunDirectory(self._run_dir)
        try:
            scenario, start_cluster = run.read_scenario(), run.manifest("start_cluster")
        except (IncompleteRun, ValueError):
            return None
        counts = live.reported(scenario, Path(start_cluster.notes["workspace"]) / "live")
        state = "over" if "inject_fault" in self._over else scenario.fault.name
        elapsed_s = (now_us() - start_cluster.finished_at_us) / 1e6
        load_s = max(0.0, scenario.load.duration_s + scenario.load.recovery_s - elapsed_s)
        return _Load(
            arms=[f"{counts[arm.name]:,} of {arm.records:,} ({arm.name})" for arm in scenario.loaded],
            rate=f"{self._rate(sum(counts.values())):,.0f}/s",
            fault=f"fault {state}" if scenario.fault.steps else "",
            left=f"about {load_s + self._after_load_s():.0f} s left",
        )

    def _spark(self) -> str:
        """Returns what Spark does now, e.g. `job 5, 41 of 64 tasks`. Empty if no step needs Spark, or if nothing is
        known."""
        if "read_topic" not in self._begun_s and "reconcile" not in self._begun_s:
            return ""
        spark = live.spark(self._run_dir)
        return "" if spark is None else str(spark)

    def _rate(self, reported: int) -> float:
        """Returns the reports per second since the last call of this method. `reported`: the number of reports so
        far."""
        now_s = time.monotonic()
        (before_s, before), self._reported = self._reported, (now_s, reported)
        return max(0, reported - before) / max(now_s - before_s, 1e-3)

    def _after_load_s(self) -> float:
        """Estimates from earlier runs on this host how many seconds the steps after the load still take."""
        if self._usual_s is None:
            self._usual_s = estimates.seconds_of(folders.stored_runs())
        now_s = time.monotonic()
        since_s = {step: now_s - begun_s for step, begun_s in {**self._begun_s}.items()}
        return estimates.remaining_s(self._usual_s, self._over, since_s)
