"""Estimates from earlier runs how long each step of a run takes on this host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct

from delivery_verifier.model.errors import VerifierError
from delivery_verifier.model.scenario import Load
from delivery_verifier.model.sentinel import NOTE
from delivery_verifier.model.steps import DECLARED
from delivery_verifier.progress.phases import Steps
from delivery_verifier.run_directory.run_directory import RunDirectory

RUNS_READ = 10
"""How many earlier runs an estimate reads at most: the newest."""
RUNS_NEEDED = 3
"""How many earlier runs an estimate of the time left needs. The median of three is no outlier."""
AFTER_LOAD = tuple(step.name for step in DECLARED if "produce" in step.rests_on)
"""The steps between the end of the load and the verdict, in their order."""
DEFAULTS_S: dict[str, float] = dict(zip(AFTER_LOAD, (6.0, 14.0, 26.0, 6.0, 8.0), strict=True))
"""Maps each step to its seconds in a default run on two cores, for a host without earlier runs. Measured:
docs/results/default-run-2026-11-21.md."""

BEFORE_LOAD_S: dict[str, float] = dict(zip(("plan", "start_cluster", "create_topics"), (2.0, 9.0, 3.0), strict=True))
"""Maps each step before the load to its seconds on two cores, for a host without earlier runs."""


class _Times(Struct):
    """The part of a manifest that says when its step began and ended, in µs since the epoch."""

    started_at_us: int
    finished_at_us: int


class _Noted(Struct):
    """The notes of a manifest."""

    notes: dict[str, str] = {}


def finished(run_dirs: Iterable[Path]) -> list[Path]:
    """Returns those of `run_dirs` whose runs have a verdict, at most RUNS_READ of them. `run_dirs` must be sorted,
    newest first. The result has the same order. Leaves out the runs of sentinels: they start no cluster, and there are
    so many of them that nothing else would count."""
    has_verdict = (run for run in run_dirs if (run / "conclude.json").is_file())
    return list(islice((run for run in has_verdict if not _is_of_sentinel(run)), RUNS_READ))


def _is_of_sentinel(run: Path) -> bool:
    try:
        return NOTE in msgspec.json.decode((run / "plan.json").read_bytes(), type=_Noted).notes
    except (OSError, msgspec.MsgspecError):
        return False


def seconds_of(run_dirs: Iterable[Path], defaults_s: Mapping[str, float] = DEFAULTS_S) -> dict[str, float]:
    """Maps each step in `defaults_s` to its usual seconds: the median over the newest finished runs.

    `run_dirs` are run directories, newest first. The function reads at most RUNS_READ finished runs. If none of these
    runs has done a step, the step gets its value in `defaults_s`.
    """
    runs = finished(run_dirs)
    usual = {**defaults_s}
    for step in defaults_s:
        if seconds := [taken for run in runs if (taken := _seconds(run / f"{step}.json")) is not None]:
            usual[step] = median(seconds)
    return usual


def usual_s(run_dirs: Iterable[Path], load: Load) -> dict[str, float] | None:
    """Maps each step of a run with the load `load` to its usual seconds. Returns None if fewer than RUNS_NEEDED runs
    have finished: one slow run would make a wrong estimate.

    `run_dirs` are run directories, newest first. The load takes as long as it was planned, and as much longer as the
    loads of these runs took (the median).
    """
    runs = finished(run_dirs)
    if len(runs) < RUNS_NEEDED:
        return None
    beyond_s = [taken_s - planned_s for run in runs for taken_s, planned_s in _loads_s(run)]
    load_s = load.duration_s + load.recovery_s + max(0.0, median(beyond_s) if beyond_s else 0.0)
    return seconds_of(runs, BEFORE_LOAD_S | DEFAULTS_S) | {"produce": load_s}


def remaining_s(usual_s: Mapping[str, float], steps: Steps) -> float | None:
    """Returns the seconds from now until the end of the last step in `usual_s`. Returns None if nobody can know: a step
    takes longer than usual, a step failed, or no step has begun.

    In a run through Airflow, read_topic is the first part of the task reconcile. In a direct run, it is a step.
    """
    ended = {*steps.ended}
    since_s = {step: steps.since_s.get(step, 0.0) for step in steps.running if step in usual_s}
    if not since_s and ended and steps.next:
        since_s[steps.next] = steps.idle_s
    if not since_s:
        return None
    if "reconcile" in ended:
        ended.add("read_topic")
    if "reconcile" in since_s and "read_topic" in usual_s and "read_topic" not in ended:
        since_s["read_topic"] = min(since_s["reconcile"], usual_s["read_topic"])
        since_s["reconcile"] -= since_s["read_topic"]
    rest_s = {step: taken_s - since_s.get(step, 0.0) for step, taken_s in usual_s.items() if step not in ended}
    return None if any(seconds < 0 for seconds in rest_s.values()) else sum(rest_s.values())


def in_words(left_s: float | None) -> str:
    """Returns the time that is left, e.g. `about 40 s left`. Empty if it is not known."""
    return "" if left_s is None else f"about {left_s:.0f} s left"


def _loads_s(run: Path) -> Iterator[tuple[float, float]]:
    """Yields how long the load of a finished run took, and how long it was planned to take, in seconds. Yields nothing
    if that is not known."""
    try:
        load = RunDirectory(run).read_scenario().load
    except (VerifierError, OSError, ValueError):
        return
    if (taken_s := _seconds(run / "produce.json")) is not None:
        yield taken_s, load.duration_s + load.recovery_s


def _seconds(manifest: Path) -> float | None:
    try:
        times = msgspec.json.decode(manifest.read_bytes(), type=_Times)
    except (OSError, msgspec.MsgspecError):
        return None
    return (times.finished_at_us - times.started_at_us) / 1e6
