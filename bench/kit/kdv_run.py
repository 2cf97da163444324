"""One run of a benchmark, direct or through a local Airflow: the seconds of each step, and what each kind of process
cost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psutil

from delivery_verifier.run_directory.run_directory import RunDirectory

STEPS = ("produce", "settle", "read_topic", "reconcile", "validate", "conclude")
"""The steps from the first record to the verdict, in their order."""
KDV = (str(Path(sys.executable).with_name("kdv")),)
TAG = "KDV_TEST_BENCH"
"""A variable of the environment. All processes of the run inherit it, so that they are known by it."""
AIRFLOW_PORT = 18080
"""The port of the local Airflow of a benchmark. This Airflow has a home of its own (`KDV_HOME`), too, so that a user's
own Airflow is neither used nor stopped."""
FIXED = ("--profile", "idempotent", "--fault", "none", "--pacing", "flat_out")
KINDS = (
    ("kafka.Kafka", "brokers"),
    ("load.producer", "producers"),
    ("applications.process", "members"),
    ("SparkSubmit", "Spark"),
    ("agent", "agent"),
    ("airflow", "Airflow"),
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


class Cost(NamedTuple):
    """What one process cost: its kind (see KINDS), its CPU time in seconds, and its peak memory in MB."""

    kind: str
    cpu_s: float
    peak_mb: int


def run(records: int, folder: Path, *options: str, program: Sequence[str] = KDV) -> Measured:
    """Makes a flat-out direct run of `records` records without a fault, below `folder`. `options` are further ones of
    `kdv run`. `program` is the command of kdv. Raises CalledProcessError if the run has no verdict."""
    command = (*program, "run", "--direct", *FIXED, "--records", str(records), *options)
    return measured(command, folder / f"runs-{records}")


@contextmanager
def airflow(runs: Path) -> Iterator[None]:
    """Starts a local Airflow at AIRFLOW_PORT, whose runs are kept in the folder `runs`. Stops this Airflow at the end
    of the block. Raises CalledProcessError if Airflow does not start or stop."""
    environment = _environment_of_airflow(runs)
    try:
        subprocess.run((*KDV, "up"), env=environment, stdout=subprocess.DEVNULL, check=True)
        yield
    finally:
        subprocess.run((*KDV, "down"), env=environment, stdout=subprocess.DEVNULL, check=True)


def run_through_airflow(records: int, runs: Path) -> Measured:
    """Makes the run that `run` makes, through the Airflow that `airflow` has started for the folder `runs`."""
    return measured((*KDV, "run", *FIXED, "--records", str(records)), runs, _environment_of_airflow(runs))


def measured(command: Sequence[str], runs: Path, environment: Mapping[str, str] | None = None) -> Measured:
    """Runs `command`, which makes one run in the folder `runs`, and measures it.

    `environment`: that of the command, if not `_environment(runs)`. A process that lived before counts only with the
    CPU time that it takes from now on. Raises CalledProcessError if the exit code is not that of a run with a verdict.
    """
    earlier = _ended(runs)
    code, costs = counted(command, environment or _environment(runs))
    kinds = sorted({each.kind for each in costs})
    (ended,) = _ended(runs) - earlier
    return Measured(
        steps_of(RunDirectory(ended)),
        {kind: max(each.peak_mb for each in costs if each.kind == kind) for kind in kinds},
        {kind: round(sum(each.cpu_s for each in costs if each.kind == kind), 1) for kind in kinds},
        code,
        RunDirectory(ended),
    )


def counted(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, list[Cost]]:
    """Runs `command`, and returns its exit code, and what each process with the same TAG in its environment cost.
    `environment`: that of the command, with a TAG. Raises CalledProcessError if the exit code is not that of a run with
    a verdict."""
    tag = environment[TAG]
    spent = {process: cost.cpu_s for process, cost in _processes(tag, set())}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    costs: dict[psutil.Process, Cost] = {}
    done = threading.Event()
    sampler = threading.Thread(target=_sample, args=(tag, spent, costs, done))
    sampler.start()
    try:
        code = process.wait()
    finally:
        done.set()
        sampler.join()
    if code not in (0, 1, 2):
        raise subprocess.CalledProcessError(code, command)
    return code, list(costs.values())


def _tag(runs: Path) -> str:
    return f"{os.getpid()}-{runs.name}"


def _environment(runs: Path) -> dict[str, str]:
    return os.environ | {"KDV_RUNS": str(runs), TAG: _tag(runs)}


def _environment_of_airflow(runs: Path) -> dict[str, str]:
    # Without SPT_NOENV, the titles that Airflow gives its processes overwrite their environment, and the tag with it.
    own = {"KDV_HOME": str(runs.with_name("home")), "KDV_PORT": str(AIRFLOW_PORT), "SPT_NOENV": "1"}
    return _environment(runs) | own


def _ended(runs: Path) -> set[Path]:
    """Returns the run directories in the folder `runs` that have ended. The link `latest` is no run of its own."""
    return {file.resolve().parent for file in runs.glob("*/conclude.json")}


def steps_of(run: RunDirectory) -> dict[str, float]:
    """Returns `Measured.steps` of a finished run."""
    manifests = [run.manifest(step) for step in STEPS]
    bounds = [manifests[0].started_at_us, *(manifest.finished_at_us for manifest in manifests)]
    spans = zip(STEPS, pairwise(bounds), strict=True)
    return {step: round((end - begin) / 1e6, 1) for step, (begin, end) in spans}


def _sample(
    tag: str,
    spent: Mapping[psutil.Process, float],
    costs: dict[psutil.Process, Cost],
    done: threading.Event,
) -> None:
    """Notes what each process of the run has cost in `costs`, until `done` is set. `spent`: the CPU seconds that do not
    count."""
    strangers: set[psutil.Process] = set()
    while not done.wait(0.5):
        for process, cost in _processes(tag, strangers):
            peak_mb = costs[process].peak_mb if process in costs else 0
            costs[process] = Cost(cost.kind, cost.cpu_s - spent.get(process, 0.0), max(cost.peak_mb, peak_mb))


def _processes(tag: str, strangers: set[psutil.Process]) -> Iterator[tuple[psutil.Process, Cost]]:
    """Yields each process with `tag` in its environment, and what it has cost; the memory is that of now. Passes over
    `strangers`, and adds every other process to them."""
    for process in psutil.process_iter():
        if process in strangers:
            continue
        try:
            if process.environ().get(TAG) != tag:
                strangers.add(process)
                continue
            times, memory = process.cpu_times(), process.memory_info().rss >> 20
            yield process, Cost(kind_of(" ".join(process.cmdline())), times.user + times.system, memory)
        except (psutil.Error, OSError):
            continue


def kind_of(command: str) -> str:
    """Returns the kind of process with the command line `command`."""
    return next((kind for words, kind in KINDS if words in command), "kdv")
