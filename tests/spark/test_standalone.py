"""Tests of a reconciliation on a Spark standalone cluster: a worker that is lost in the middle changes nothing."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.live_runs import give_workspace
from support.mixed_runs import content
from support.patience import LOOK_EVERY_S, PATIENCE_S
from support.spark_progress import followed, require_progress
from support.standalone import Job, Standalone, Worker, left, standalone

from delivery_verifier.host.waiting import wait_until
from delivery_verifier.run_directory.run_directory import RunDirectory
from spark_jobs import reconcile as job
from spark_jobs.session.classic import settings


def test_a_worker_that_is_killed_in_the_middle_changes_nothing_in_the_tally(
    copied: Callable[[str], RunDirectory], expected: dict[str, Any], tmp_path: Path
) -> None:
    run, folder = copied("run"), tmp_path / "cluster"
    folder.mkdir()
    file = give_workspace(run, tmp_path / "w")
    with standalone(folder, workers=2) as cluster:
        arguments = ["--run-dir", str(run.path), "--from-log"]
        with cluster.submitted(Path(job.__file__), arguments, settings()) as submitted, followed(run) as seen:
            _kill_a_busy_worker(cluster, submitted)
            assert submitted.process.wait(PATIENCE_S) == 0, submitted.said()[-3000:]
        assert cluster.states() == ["ALIVE", "DEAD"]
        assert run.manifest("reconcile").notes["spark"] == cluster.url
    wait_until(
        lambda: not left(folder), "no process is left", PATIENCE_S, LOOK_EVERY_S, detail=lambda: str(left(folder))
    )
    reasons = Counter(_reason(event) for event in submitted.events() if event["Event"] == "SparkListenerTaskEnd")
    assert reasons["ExecutorLostFailure"], f"the killed worker had no task: {reasons}"
    assert content(run) == expected
    require_progress(seen, "job")
    assert [*file.parent.iterdir()] == []


def _kill_a_busy_worker(cluster: Standalone, submitted: Job) -> None:
    """Kills the worker on which a task runs, with its executor.

    Both workers are frozen first, so that no task can end before the kill. A report that an executor sent before may
    still be under way to the driver. So the number of tasks must have stayed the same.
    """
    wait_until(lambda: len(submitted.busy()) == len(cluster.workers), "both executors have registered", PATIENCE_S)
    # An executor that has registered gets no task before it has also reported that it is ready.
    wait_until(lambda: any(total for _, total in submitted.busy().values()), "the first task was sent", PATIENCE_S)
    executors = {worker.executor: worker for worker in cluster.workers}
    for worker in cluster.workers:
        worker.send(signal.SIGSTOP)
    before: dict[str, tuple[int, int]] = {}

    def busy() -> Worker | None:
        nonlocal before
        before, now = submitted.busy(), before
        return next((executors[name] for name, (active, _) in now.items() if active and now == before), None)

    victim = wait_until(busy, "a task runs", PATIENCE_S, every_s=0.5)
    victim.send(signal.SIGKILL)
    for worker in cluster.workers:
        if worker is not victim:
            worker.send(signal.SIGCONT)


def _reason(event: dict[str, Any]) -> str:
    return str(event["Task End Reason"]["Reason"])
