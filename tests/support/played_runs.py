"""A run that is played on a clock: its steps, its files and its fault happen at known seconds, as through Airflow or as
in a direct run. Nothing really runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from delivery_verifier.model.history import now_us
from delivery_verifier.model.live import RECOVERED
from delivery_verifier.model.progress import StepProgress
from delivery_verifier.progress import phases
from delivery_verifier.progress.marks import Marks
from delivery_verifier.run_directory.run_directory import RunDirectory
from support.run_builder import planned

NAME = "played"


class Happening(NamedTuple):
    """Something that happens at `at_s`, in seconds since the run was asked for. From then on, a watcher must say
    `phase`, a regular expression. `do` is called, and `state` is the new state of the step `step`; both may be missing.
    """

    at_s: float
    phase: str
    step: str = ""
    state: str = ""
    do: Callable[[], object] | None = None


class PlayedRun:
    """The run, and the clock on which it is played. `now_s` is the present time in seconds."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, cycles: int = 1) -> None:
        self.now_s, self.begun_us = 0.0, now_us()
        self.runs, self.workspace = folder / "runs", folder / "workspace"
        self.path, self.cycles = self.runs / NAME, cycles
        patch.setattr(phases, "now_us", lambda: self.begun_us + int(self.now_s * 1e6))

    def clock(self) -> float:
        return self.now_s

    def plan(self) -> None:
        run = planned(self.runs, NAME)
        scenario = run.read_scenario()
        fault = msgspec.structs.replace(scenario.fault, cycles=self.cycles)
        with run.writing("plan") as output:
            output.write_json("scenario.json", msgspec.structs.replace(scenario, fault=fault))

    def start_cluster(self) -> None:
        self.workspace.mkdir()
        with RunDirectory(self.path).writing("start_cluster") as output:
            output.notes["workspace"] = str(self.workspace)

    def touch(self, name: str) -> Callable[[], object]:
        return lambda: (self.workspace / name).touch()

    def mark(self, text: str) -> Callable[[], object]:
        return lambda: Marks(self.workspace).add(text, self.begun_us + int(self.now_s * 1e6))

    def read_topics(self) -> None:
        with RunDirectory(self.path).writing("read_topic"):
            pass


def load(run: PlayedRun, at_s: float) -> Iterator[Happening]:
    """Yields what happens in the load, which begins `at_s`: each cycle of the fault takes 8 s."""
    yield Happening(at_s, _before(run, 0), do=run.touch("produce.begun"))
    for cycle in range(run.cycles):
        begins, under = at_s + 3 + 8 * cycle, f"load under the fault {_name(run, cycle)}:"
        yield Happening(begins, rf"{under} kill \(broker 1\) \d s ago", do=run.mark("kill (broker 1)"))
        yield Happening(begins + 3, rf"{under} start \(broker 1\) \d s ago", do=run.mark("start (broker 1)"))
        phase = _before(run, cycle + 1) if cycle + 1 < run.cycles else "load after the fault kill_leader"
        yield Happening(begins + 5, phase, do=run.mark(RECOVERED))
    yield Happening(at_s + 3 + 8 * run.cycles, "load after the fault kill_leader", do=run.touch("inject_fault.done"))


def _name(run: PlayedRun, cycle: int) -> str:
    return "kill_leader" if run.cycles == 1 else rf"kill_leader \({cycle + 1} of {run.cycles}\)"


def _before(run: PlayedRun, cycle: int) -> str:
    return f"load before the fault {_name(run, cycle)}"


def directly(run: PlayedRun) -> list[Happening]:
    """Returns a run of `kdv run --direct`: a step ends when the next one begins."""
    end = 18.0 + 8 * run.cycles
    return [
        Happening(0, "planning the run", "plan", "running"),
        Happening(2, "next: starting the cluster", "plan", "success", run.plan),
        Happening(2, "starting the cluster", "start_cluster", "running"),
        Happening(11, "next: creating the topics", "start_cluster", "success", run.start_cluster),
        Happening(11, "creating the topics", "create_topics", "running"),
        Happening(13, "next: sending the load", "create_topics", "success"),
        Happening(13, "warm-up of the producers", "inject_fault", "running"),
        Happening(13, "warm-up of the producers", "produce", "running"),
        *load(run, 15),
        Happening(end + 1, "load after the fault kill_leader", "inject_fault", "success"),
        Happening(end + 6, "next: proving where the logs end", "produce", "success"),
        Happening(end + 6, "proving where the logs end", "settle", "running"),
        Happening(end + 12, "next: Spark reads the topics", "settle", "success"),
        Happening(end + 12, "Spark reads the topics", "read_topic", "running"),
        Happening(end + 20, "next: Spark compares ledger and log", "read_topic", "success", run.read_topics),
        Happening(end + 20, "stopping the cluster", "stop_cluster", "running"),
        Happening(end + 22, "next: Spark compares ledger and log", "stop_cluster", "success"),
        Happening(end + 22, "Spark compares ledger and log", "reconcile", "running"),
        Happening(end + 44, "next: Great Expectations evaluates the counts", "reconcile", "success"),
        Happening(end + 44, "Great Expectations evaluates the counts", "validate", "running"),
        Happening(end + 50, "next: giving the verdict", "validate", "success"),
        Happening(end + 50, "giving the verdict", "conclude", "running"),
        Happening(end + 58, "ending the run", "conclude", "success"),
    ]


def through_airflow(run: PlayedRun) -> list[Happening]:
    """Returns a run through Airflow: each task is scheduled and queued before it runs, and the topics are read in the
    task reconcile."""
    end = 26.0 + 8 * run.cycles
    return [
        Happening(0, "waiting to begin", "plan", "scheduled"),
        Happening(1, "waiting to begin", "plan", "queued"),
        Happening(2, "planning the run", "plan", "running"),
        Happening(5, "next: starting the cluster", "plan", "success", run.plan),
        Happening(6, "next: starting the cluster", "start_cluster", "queued"),
        Happening(7, "starting the cluster", "start_cluster", "running"),
        Happening(17, "next: creating the topics", "start_cluster", "success", run.start_cluster),
        Happening(18, "creating the topics", "create_topics", "running"),
        Happening(20, "next: sending the load", "create_topics", "success"),
        Happening(20, "next: sending the load", "produce", "scheduled"),
        Happening(20, "next: sending the load", "inject_fault", "scheduled"),
        Happening(21, "next: sending the load", "inject_fault", "queued"),
        Happening(21, "warm-up of the producers", "produce", "running"),
        Happening(22, "warm-up of the producers", "inject_fault", "running"),
        *load(run, 23),
        Happening(end + 1, "load after the fault kill_leader", "inject_fault", "success"),
        Happening(end + 6, "next: proving where the logs end", "produce", "success"),
        Happening(end + 7, "next: proving where the logs end", "settle", "queued"),
        Happening(end + 8, "proving where the logs end", "settle", "running"),
        Happening(end + 14, "next: Spark reads the topics", "settle", "success"),
        Happening(end + 15, "Spark reads the topics", "reconcile", "running"),
        Happening(end + 25, "Spark compares ledger and log", do=run.read_topics),
        Happening(end + 50, "next: Great Expectations evaluates the counts", "reconcile", "success"),
        Happening(end + 51, "stopping the cluster", "stop_cluster", "running"),
        Happening(end + 52, "Great Expectations evaluates the counts", "validate", "running"),
        Happening(end + 54, "Great Expectations evaluates the counts", "stop_cluster", "success"),
        Happening(end + 58, "next: giving the verdict", "validate", "success"),
        Happening(end + 59, "giving the verdict", "conclude", "running"),
        Happening(end + 67, "ending the run", "conclude", "success"),
    ]


def play(
    run: PlayedRun, happenings: list[Happening], listener: Callable[[StepProgress], None]
) -> Iterator[tuple[float, str]]:
    """Plays the run second by second. `listener` hears of each change of a step's state.

    Yields the present second and the phase that a watcher must name now, after everything of this second has happened.
    """
    coming, phase = list(happenings), phases.WAITING
    for second in range(int(happenings[-1].at_s) + 1):
        run.now_s = float(second)
        while coming and coming[0].at_s <= second:
            now = coming.pop(0)
            if now.do is not None:
                now.do()
            if now.step:
                listener(StepProgress(NAME, now.step, now.state))
            phase = now.phase
        yield run.now_s, phase
