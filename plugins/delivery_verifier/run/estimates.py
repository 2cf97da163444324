"""Estimates from earlier runs how long each step of a run takes on this host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct

from delivery_verifier.model.steps import DECLARED

RUNS_READ = 10
"""How many earlier runs an estimate reads at most: the newest."""
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


def finished(run_dirs: Iterable[Path]) -> list[Path]:
    """Returns those of `run_dirs` whose runs have a verdict, at most RUNS_READ of them. `run_dirs` must be sorted,
    newest first. The result has the same order."""
    return list(islice((run for run in run_dirs if (run / "conclude.json").is_file()), RUNS_READ))


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


def remaining_s(usual_s: Mapping[str, float], done: Iterable[str], since_s: Mapping[str, float]) -> float:
    """Returns the seconds from now until the end of the last step in `usual_s`.

    `usual_s`: the usual seconds of each step. `done`: the steps that have ended. `since_s`: for each step under way,
    how many seconds ago the step began. A step that takes longer than usual counts as nearly over.

    In a run through Airflow, read_topic is the first part of the task reconcile, so `done` and `since_s` have no entry
    for read_topic. In a direct run, they have one.
    """
    ended, since = {*done}, {**since_s}
    if "reconcile" in ended:
        ended.add("read_topic")
    if "reconcile" in since and "read_topic" in usual_s and "read_topic" not in ended:
        since["read_topic"] = min(since["reconcile"], usual_s["read_topic"])
        since["reconcile"] -= since["read_topic"]
    return sum(max(0.0, seconds - since.get(step, 0.0)) for step, seconds in usual_s.items() if step not in ended)


def _seconds(manifest: Path) -> float | None:
    try:
        times = msgspec.json.decode(manifest.read_bytes(), type=_Times)
    except (OSError, msgspec.MsgspecError):
        return None
    return (times.finished_at_us - times.started_at_us) / 1e6
