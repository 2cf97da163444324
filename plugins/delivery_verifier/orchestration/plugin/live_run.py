"""The progress of a run: how far the run has come, and how long it will still take. The page of a run that goes on
shows this."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from delivery_verifier.host import folders
from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.steps import BEFORE_GATE, GATE
from delivery_verifier.orchestration.plugin.dag_runs import State
from delivery_verifier.pages.overview.live import LiveView, view
from delivery_verifier.run import estimates
from delivery_verifier.store.run_directory import RunDirectory


class LiveRun(Struct, frozen=True):
    """What the page of a run says as long as the run goes on.

    * `clock`: how long the run has been going on, and how long it will still take, in words.
    * `busy`: if the run still waits, who uses this host, in words; else an empty text.
    * `load`: the progress of the load; None if the run has no cluster.
    * `spark`: what Spark does, in words, as long as the step reconcile is under way; else an empty text.
    """

    clock: str
    busy: str = ""
    load: LiveView | None = None
    spark: str = ""


def look(run_dir: Path, state: State) -> LiveRun:
    """Returns how far the run in `run_dir` has come. `run_dir` need not exist yet. `state` is the state of the run in
    Airflow."""
    # Every task imports the plugin, and only this page needs these modules, which import the Kafka client.
    from delivery_verifier.cluster import lease
    from delivery_verifier.run import live

    holder = lease.holder()
    if state.state == "queued" or not any(step.state for step in state.steps):
        return LiveRun("", f"This host is in use: {holder}." if holder is not None else "")
    load = live.look(run_dir)
    reconciles = any(step.task_id == "reconcile" for step in state.steps_in("running"))
    spark = live.spark(run_dir) if reconciles else None
    return LiveRun(
        _clock(run_dir, state),
        load=None if load is None else view(load),
        spark="" if spark is None else str(spark),
    )


def _clock(run_dir: Path, state: State) -> str:
    """Returns how long the run has taken and will still take, e.g. `38 s so far, about 60 s left (from 7 earlier runs
    on this host)`."""
    took_s = {step.task_id: step.took_s for step in state.steps if step.took_s is not None}
    # These steps run one after another, but inject_fault runs beside produce.
    counted = [took_s.get(name, 0.0) for name in (*BEFORE_GATE, GATE) if name != "inject_fault"]
    so_far = f"{sum(counted):.0f} s so far"
    try:
        load = RunDirectory(run_dir).read_scenario().load
    except (VerifierError, ValueError):
        return so_far
    runs = folders.stored_runs()
    usual_s = estimates.seconds_of(runs, estimates.BEFORE_LOAD_S | estimates.DEFAULTS_S)
    usual_s["produce"] = load.duration_s + load.recovery_s
    done = [step.task_id for step in state.steps_in("success")]
    left_s = estimates.remaining_s(usual_s, done, took_s)
    count = len(estimates.finished(runs))
    source = f"from {count} earlier run{'s'[: count != 1]} on this host" if count else "from runs on another host"
    return f"{so_far}, about {left_s:.0f} s left ({source})"
