"""One chaos trial: a run in which one process is killed, and the record of how this run ended."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.kit.chaos import host as chaos_host
from bench.kit.chaos import truth as chaos_truth
from delivery_verifier.host import folders, processes
from delivery_verifier.host.waiting import DeadlinePassed, wait_until
from delivery_verifier.local_airflow import lifecycle
from delivery_verifier.local_airflow.access import client_of
from delivery_verifier.orchestration.client import ENDED, AirflowError
from delivery_verifier.orchestration.names import DAG_ID

SCENARIOS = {
    "safe": ("--profile", "safe", "--fault", "kill_leader"),
    "acks_1": ("--profile", "acks_1", "--claim", "at_least_once", "--fault", "pause_leader"),
}
LOAD = ("--records", "2000", "--duration-s", "6")
ENDS_WITHIN_S, GONE_WITHIN_S = 600.0, 60.0


@dataclass(frozen=True)
class Trial:
    """One trial: the kind of process to kill, and the time of the kill, which is `into_s` seconds after the start of
    `step`.

    If `kind` is empty, no process is killed.
    """

    number: int
    seed: str
    mode: str
    scenario: str
    kind: str = ""
    step: str = ""
    into_s: float = 0.0


class StartedRun:
    """A kdv command in a process of its own, with its run directory, its log and its current step."""

    def __init__(self, trial: Trial, name: str, folder: Path) -> None:
        self.run, self.log = folders.runs_dir() / name, folder / f"{name}.log"
        self.begun_s = self.step_since_s = time.monotonic()
        self.step, self.steps_s = chaos_host.STEPS[0], dict[str, float]()
        mode = ("--direct",) if trial.mode == "direct" else ()
        seed = str(random.Random(trial.seed).randrange(3))
        options = [*mode, "--run-id", name, *SCENARIOS[trial.scenario], *LOAD, "--seed", seed]
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "delivery_verifier", "run", *options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def has_ended(self) -> bool:
        """Returns whether the command has ended. Also updates the current step."""
        now = time.monotonic()
        while self.step and (self.run / f"{self.step}.json").exists():
            self.steps_s[self.step], self.step_since_s = now - self.step_since_s, now
            self.step = next(iter(chaos_host.STEPS[len(self.steps_s) :]), "")
        return self.process.poll() is not None

    def is_at(self, step: str, into_s: float) -> bool:
        """Returns whether `into_s` seconds of `step` or more have passed, or the command has ended."""
        if self.has_ended() or step in self.steps_s:
            return True
        return self.step == step and time.monotonic() - self.step_since_s >= into_s

    def error_lines(self) -> str:
        """Returns twelve lines of the log that say what went wrong: from the first line that begins with `kdv: ` on."""
        lines = self.log.read_text(errors="replace").splitlines()
        first = next((index for index, line in enumerate(lines) if line.startswith("kdv: ")), len(lines))
        return "\n".join(lines[first : first + 12])


def perform(trial: Trial, folder: Path) -> dict[str, Any]:
    """Performs a trial and returns its row.

    In the row, `false` lists false statements of the verdict, `left` lists what was left behind, and `findings` lists
    everything else that went wrong.
    """
    findings = list[str]()
    up_s = _airflow_up(findings) if trial.mode == "airflow" else None
    name = f"chaos-{trial.number:03d}-{time.strftime('%H%M%S')}"
    started = StartedRun(trial, name, folder)
    try:
        killed = _kill(trial, started, findings) if trial.kind else None
        seconds = _await_end(started, findings)
    finally:
        started.process.terminate()  # has an effect only if this process is interrupted
    leftovers, clean_s = _await_nothing_left(name)
    verdict = chaos_truth.verdict_of(started.run)
    disturbed = trial.kind in ("broker", "controller") and killed is not None and not killed["settled"]
    false, truth = chaos_truth.falsehoods(started.run, verdict, started.process.returncode, disturbed)
    chaos_host.discard_kept_workspaces()
    doubts = sorted({doubt.name for arm in verdict.arms for doubt in arm.doubts}) if verdict else []
    return {
        **dataclasses.asdict(trial),
        "run": name,
        "killed": killed,
        "exit_code": started.process.returncode,
        "verdict": verdict and verdict.verdict,
        "doubts": doubts,
        "recount": truth and dataclasses.asdict(truth),
        "left": leftovers,
        "false": false,
        "findings": findings,
        "up_s": up_s,
        "seconds": round(seconds, 1),
        "clean_s": round(clean_s, 1),
        "steps_s": started.steps_s,
        "said": started.error_lines(),
        "load_average": os.getloadavg()[0],
    }


def _airflow_up(findings: list[str]) -> float:
    """Brings up Airflow, in at most two attempts, and returns the seconds that this took.

    A failed attempt is a finding, because after any trial one `kdv up` must be enough.
    """
    begun_s = time.monotonic()
    for attempt in (1, 2):
        try:
            lifecycle.up(owner=processes.myself())
            break
        except AirflowError as error:
            findings.append(f"kdv up, attempt {attempt}: {error}")
    return round(time.monotonic() - begun_s, 1)


def _kill(trial: Trial, started: StartedRun, findings: list[str]) -> dict[str, Any] | None:
    """Waits for the time of the trial, then for a process of the trial's kind, and kills one such process.

    Returns the record of the kill; None if the run ended before the kill. Adds to `findings` if a wait took too long,
    or if the run ended early with an unknown exit code.
    """
    pids = list[int]()

    def find_processes() -> bool:
        pids[:] = chaos_host.pids_of_kind(trial.kind, started.process.pid)
        return bool(pids) or started.has_ended()

    try:
        wait_until(lambda: started.is_at(trial.step, trial.into_s), "the moment", ENDS_WITHIN_S, every_s=0.02)
        wait_until(find_processes, f"a {trial.kind} to be there", ENDS_WITHIN_S)
    except DeadlinePassed as error:
        findings.append(str(error))
    if not pids or started.has_ended():
        code = started.process.poll()
        if code not in chaos_truth.EXIT_CODES:
            findings.append(f"the run ended with {code} before anything was killed")
        return None
    pid = random.Random(trial.seed).choice(pids)
    line = chaos_host.processes().get(pid, "")
    os.kill(pid, signal.SIGKILL)
    at_s, settled = time.monotonic() - started.begun_s, (started.run / "settle.json").exists()
    return {"at_s": round(at_s, 1), "step": started.step, "settled": settled, "command": line.split("/")[-1][-60:]}


def _await_end(started: StartedRun, findings: list[str]) -> float:
    """Waits until the command ends, and kills it after ENDS_WITHIN_S. Returns the seconds that the command took."""
    try:
        wait_until(started.has_ended, "the command to end", ENDS_WITHIN_S)
    except DeadlinePassed as error:
        findings.append(f"{error} (step at work: {started.step})")
        started.process.kill()
    started.process.wait()
    return time.monotonic() - started.begun_s


def _await_nothing_left(run_id: str) -> tuple[list[str], float]:
    """Waits at most GONE_WITHIN_S until nothing of the run is left. Returns what is left, and the seconds waited."""
    begun_s, leftovers = time.monotonic(), list[str]()

    def is_clean() -> bool:
        leftovers[:] = chaos_host.leftovers() + _unfinished(run_id)
        return not leftovers

    with suppress(DeadlinePassed):  # `leftovers` names what is still there
        wait_until(is_clean, "everything of the run to be gone", GONE_WITHIN_S, every_s=0.5)
    return leftovers, time.monotonic() - begun_s


def _unfinished(run_id: str) -> list[str]:
    """Returns the run's state in Airflow as a list of leftovers; empty if Airflow is down or the run has ended."""
    status = lifecycle.status()
    if not status.ready or status.url is None:
        return []
    try:
        state = client_of(status.url).state(DAG_ID, run_id)
    except AirflowError as error:
        return [] if "404" in str(error) else [f"Airflow: {error}"]
    return [] if state in ENDED else [f"the run is {state} in Airflow"]
