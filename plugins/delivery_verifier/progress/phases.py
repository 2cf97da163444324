"""The phase of a run that goes on, in words, and the time that is left. Terminal and web page show the same words.

The states of the steps say which step is under way. During the load, files in the workspace say what the load and the
fault plan do. Where nobody can see the workspace, only the step is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from delivery_verifier.model.history import now_us
from delivery_verifier.model.live import RECOVERED
from delivery_verifier.model.scenario import Scenario
from delivery_verifier.model.steps import BEFORE_GATE, DECLARED, DOING, GATE
from delivery_verifier.progress.marks import Marks
from delivery_verifier.run_directory.run_directory import IncompleteRun, RunDirectory

ENDED = frozenset({"success", "failed", "upstream_failed", "skipped", "removed"})
"""The states in which a step has ended. Airflow has further states for a step that has not begun, e.g. `queued`."""
WAITING = "waiting to begin"
"""The phase before the first step."""
_LOAD = ("produce", "inject_fault")
_ORDER = tuple(step.name for step in DECLARED)


class Steps(Struct, frozen=True):
    """How far the steps of a run have come.

    * `states`: the state of each step that has one, in Airflow's words.
    * `since_s`: for each step under way, how many seconds ago it began.
    * `idle_s`: if no step is under way, how many seconds ago the last one ended.
    """

    states: Mapping[str, str]
    since_s: Mapping[str, float]
    idle_s: float = 0.0

    @property
    def running(self) -> list[str]:
        """The steps under way, in their order."""
        return [step for step in _ORDER if self.states.get(step) == "running"]

    @property
    def ended(self) -> list[str]:
        """The steps that have ended, in their order."""
        return [step for step in _ORDER if self.states.get(step) in ENDED]

    @property
    def next(self) -> str:
        """The step that comes next if none is under way; an empty text if there is none, or if a step failed."""
        if any(self.states.get(step) in ENDED - {"success"} for step in (*BEFORE_GATE, GATE)):
            return ""
        behind = [step for step in (*BEFORE_GATE, GATE) if step not in self.ended]
        return behind[0] if behind else ""


def phase(run_dir: Path, steps: Steps) -> str:
    """Returns what the run in `run_dir` does now, in words, e.g. `load before the fault kill_leader`.

    The directory need not exist yet.
    """
    running = steps.running
    if not running and not steps.ended:
        return WAITING
    if not running and not steps.next:
        return "ending the run"
    step = running[0] if running else steps.next
    if step == "reconcile" and "read_topic" not in steps.ended and not (run_dir / "read_topic.json").is_file():
        step = "read_topic"  # through Airflow, it is the first part of the task reconcile
    if not running:
        return f"next: {DOING[step]}"
    return (_of_load(run_dir) if step in _LOAD else "") or DOING[step]


def coming(run_dir: Path) -> str:
    """Returns what the run in `run_dir` will do, in one sentence, as long as its load has not begun.

    The directory need not exist yet.
    """
    end = "then Spark compares what was acknowledged with what the topics hold, and the report stands here."
    try:
        scenario = RunDirectory(run_dir).read_scenario()
    except (IncompleteRun, OSError, ValueError):
        return f"What comes: the brokers start; producers send the load, under the fault that was asked for; {end}"
    records, fault = max(arm.records for arm in scenario.subjects), scenario.fault
    load = f"producers send at least {records:,} records" if records else "producers send records"
    under = f"under the fault {fault.name} ({fault.summary.rstrip('.')})" if fault.steps else "without a fault"
    return f"What comes: the brokers start; {load}, {under}; {end}"


def _of_load(run_dir: Path) -> str:
    """Returns what the load and the fault plan do now. Returns an empty text if nobody can see the workspace."""
    run = RunDirectory(run_dir)
    try:
        scenario = run.read_scenario()
        workspace = Path(run.manifest("start_cluster").notes["workspace"])
        if not workspace.is_dir():
            return ""
        if not (workspace / "produce.begun").exists():
            return "warm-up of the producers"
        return _beside_fault(scenario, workspace)
    except (IncompleteRun, OSError, KeyError, ValueError):  # ValueError: a file that is only half made
        return ""


def _beside_fault(scenario: Scenario, workspace: Path) -> str:
    """Returns the place of the load relative to the fault: before it, under it with what was done last, or after
    it."""
    if not scenario.fault.steps:
        return "load without a fault"
    marks = Marks(workspace).read()
    cycles, recovered = scenario.fault.cycles, sum(mark.text == RECOVERED for mark in marks)
    if recovered == cycles or (workspace / "inject_fault.done").exists():
        return f"load after the fault {scenario.fault.name}"
    name = scenario.fault.name if cycles == 1 else f"{scenario.fault.name} ({recovered + 1} of {cycles})"
    if not marks or marks[-1].text == RECOVERED:
        return f"load before the fault {name}"
    ago_s = max(0.0, (now_us() - marks[-1].at_us) / 1e6)
    return f"load under the fault {name}: {marks[-1].text} {ago_s:.0f} s ago"
