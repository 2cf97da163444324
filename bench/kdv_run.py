"""One `kdv run --direct` of a benchmark: the seconds of each step, and what each kind of process cost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from delivery_verifier.store.run_directory import RunDirectory

STEPS = ("produce", "settle", "read_topic", "reconcile", "validate", "conclude")
"""The steps from the first record to the verdict, in their order."""
KDV = (str(Path(sys.executable).with_name("kdv")),)
TAG = "KDV_BENCH"
"""A variable of the environment. All processes of the run inherit it, so that they are known by it."""
KINDS = (
    ("kafka.Kafka", "brokers"),
    ("load.producer", "producers"),
    ("applications.process", "members"),
    ("SparkSubmit", "Spark"),
    ("keeper", "keeper"),
)
"""Words in a command line, each with the kind of process that it tells."""


class Measured(NamedTuple):
    """What a run took. `steps`: seconds from the end of the step before (or the begin of `produce`) to the end of each
    step. `peak_mb` and `cpu_s`: by kind of process, the peak memory of the largest process, and the CPU time of all.
    `code`: the exit code of `kdv run`. `directory`: the run."""

    steps: dict[str, float]
    peak_mb: dict[str, int]
    cpu_s: dict[str, float]
    code: int
    directory: RunDirectory

    @property
    def seconds(self) -> float:
        """The seconds from the first record to the verdict, without the start of the cluster."""
        return sum(self.steps.values())


def run(records: int, folder: Path, *options: str, program: Sequence[str] = KDV) -> Measured:
    """Makes a flat-out run of `records` records without a fault, below `folder`. `options` are further ones of `kdv
    run`. `program` is the command of kdv. Raises CalledProcessError if the run has no verdict."""
    fixed = ("run", "--direct", "--profile", "idempotent", "--fault", "none", "--pacing", "flat_out")
    return measured((*program, *fixed, "--records", str(records), *options), folder / f"runs-{records}")


def measured(command: Sequence[str], runs: Path) -> Measured:
    """Runs `command`, which makes one run in the folder `runs`, and measures it.

    Raises CalledProcessError if the exit code is not that of a run with a verdict.
    """
    tag = f"{os.getpid()}-{runs.name}"
    process = subprocess.Popen(command, env=os.environ | {"KDV_RUNS": str(runs), TAG: tag}, stdout=subprocess.DEVNULL)
    costs: dict[psutil.Process, tuple[str, float, int]] = {}
    done = threading.Event()
    sampler = threading.Thread(target=_sample, args=(tag, costs, done))
    sampler.start()
    try:
        code = process.wait()
    finally:
        done.set()
        sampler.join()
    if code not in (0, 1, 2):
        raise subprocess.CalledProcessError(code, command)
    kinds = sorted({kind for kind, _, _ in costs.values()})
    directory = RunDirectory(next(file.parent for file in runs.glob("*/conclude.json")))
    return Measured(
        steps_of(directory),
        {kind: max(peak for other, _, peak in costs.values() if other == kind) for kind in kinds},
        {kind: round(sum(cpu for other, cpu, _ in costs.values() if other == kind), 1) for kind in kinds},
        code,
        directory,
    )


def steps_of(run: RunDirectory) -> dict[str, float]:
    """Returns `Measured.steps` of a finished run."""
    manifests = [run.manifest(step) for step in STEPS]
    bounds = [manifests[0].started_at_us, *(manifest.finished_at_us for manifest in manifests)]
    spans = zip(STEPS, pairwise(bounds), strict=True)
    return {step: round((end - begin) / 1e6, 1) for step, (begin, end) in spans}


def _sample(tag: str, costs: dict[Any, tuple[str, float, int]], done: threading.Event) -> None:
    """Notes the kind, the CPU seconds and the peak memory (MB) of all processes of the run, until `done` is set."""
    strangers: set[psutil.Process] = set()
    while not done.wait(0.5):
        for process in psutil.process_iter():
            if process in strangers:
                continue
            try:
                if process not in costs and process.environ().get(TAG) != tag:
                    strangers.add(process)
                    continue
                times, memory = process.cpu_times(), process.memory_info().rss >> 20
                known = costs.get(process, ("", 0.0, 0))
                costs[process] = (
                    kind_of(" ".join(process.cmdline())),
                    times.user + times.system,
                    max(memory, known[2]),
                )
            except (psutil.Error, OSError):
                continue


def kind_of(command: str) -> str:
    """Returns the kind of process with the command line `command`."""
    return next((kind for words, kind in KINDS if words in command), "kdv")
