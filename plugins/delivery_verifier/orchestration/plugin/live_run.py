"""The progress of a run, as the page of a run that goes on shows it: what the run does, and how long it will still
take. A terminal says the same (`progress.follower`)."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from delivery_verifier.host import folders
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.steps import BEFORE_GATE, GATE
from delivery_verifier.orchestration.plugin.dag_runs import State
from delivery_verifier.progress import estimates, phases
from delivery_verifier.progress.phases import Steps
from delivery_verifier.reporting.overview.live import LiveView, view
from delivery_verifier.run_directory.run_directory import RunDirectory


class LiveRun(Struct, frozen=True):
    """What the page of a run says as long as the run goes on.

    * `phase`: what the run does now, in words (see `progress.phases`).
    * `clock`: how long the run has been going on, and how long it will still take, in words.
    * `busy`: if the run still waits, who uses this host, in words; else an empty text.
    * `load`: the progress of the load; None if the run has no cluster.
    * `spark`: what Spark does, in words, as long as the step reconcile is under way; else an empty text.
    * `coming`: what the run will do, in words, as long as its load has not begun; else an empty text.
    """

    phase: str
    clock: str
    busy: str = ""
    load: LiveView | None = None
    spark: str = ""
    coming: str = ""


def look(run_dir: Path, state: State) -> LiveRun:
    """Returns how far the run in `run_dir` has come. `run_dir` need not exist yet. `state` is the state of the run in
    Airflow."""
    # Every task imports the plugin, and only this page needs these modules, which import NumPy and more.
    from delivery_verifier.cluster import lease
    from delivery_verifier.progress import live

    lock_owner = lease.lock_owner()
    if state.state == "queued" or not any(step.state for step in state.steps):
        busy = f"This host is in use: {lock_owner}." if lock_owner is not None else ""
        return LiveRun(phases.WAITING, "", busy, coming=phases.coming(run_dir))
    load = live.look(run_dir)
    steps = _steps(state)
    spark = live.spark(run_dir) if "reconcile" in steps.running else None
    return LiveRun(
        phases.phase(run_dir, steps),
        _clock(run_dir, state, steps),
        load=None if load is None else view(load),
        spark="" if spark is None else str(spark),
        coming="" if "produce" in {*steps.running, *steps.ended} else phases.coming(run_dir),
    )


def _steps(state: State) -> Steps:
    states = {step.task_id: step.state for step in state.steps if step.state}
    since_s = {step.task_id: step.took_s for step in state.steps_in("running") if step.took_s is not None}
    return Steps(states, since_s, min((step.ended_s for step in state.steps if step.ended_s is not None), default=0.0))


def _clock(run_dir: Path, state: State, steps: Steps) -> str:
    """Returns how long the run has taken and will still take, e.g. `38 s so far, about 60 s left (from 7 earlier runs
    on this host)`. The second part is missing if nobody can know it."""
    took_s = {step.task_id: step.took_s for step in state.steps if step.took_s is not None}
    # These steps run one after another, but inject_fault runs beside produce.
    counted = [took_s.get(name, 0.0) for name in (*BEFORE_GATE, GATE) if name != "inject_fault"]
    so_far = f"{sum(counted):.0f} s so far"
    try:
        load = RunDirectory(run_dir).read_scenario().load
    except (VerifierError, ValueError):
        return so_far
    runs = folders.stored_runs()
    usual_s = estimates.usual_s(runs, load)
    remaining = estimates.in_words(estimates.remaining_s(usual_s, steps) if usual_s else None)
    return (
        f"{so_far}, {remaining} (from {len(estimates.finished(runs))} earlier runs on this host)"
        if remaining
        else so_far
    )
