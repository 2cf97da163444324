"""Tests that no failure ends in a green run: the run is red, and no verdict says HELD.

Airflow judges a run only by its leaves, and a teardown hides the failures before it. `tests/airflow/test_colour.py`
asks Airflow's own functions about every step of the DAG that may fail. Here a real scheduler runs the tasks, and the
option `fail_step` makes a step fail when it begins. `tests/unit/pipeline/test_failing_steps.py` tests this option for
every step, and that a step does not wait for one that failed beside it. `test_airflow_runs` has the run in which no
step fails.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.airflow import LocalAirflow
from support.browser import RUN_ID
from support.patience import LOOK_EVERY_S, PATIENCE_S

from delivery_verifier.cluster import lease
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.command_line.stored import read_verdict
from delivery_verifier.host import folders
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.local_airflow.run import patiently, trigger
from delivery_verifier.orchestration.client import Task
from delivery_verifier.orchestration.failures import RunFailed
from delivery_verifier.orchestration.names import DAG_ID
from delivery_verifier.pipeline.signals import Signals
from delivery_verifier.run_directory.run_directory import RunDirectory

TINY = {"profile": "safe", "fault": "none", "records": 1000, "pacing": "flat_out"}
FAILING = {
    "reconcile": "the task is an operator of another kind",
}
"""The steps that fail in a real run, and why a real run is needed to show each of them. `red_run` is one more: its
first step fails."""


@pytest.fixture(autouse=True)
def _free_host() -> Iterator[None]:
    yield
    wait_until(lambda: lease.lock_owner() is None, "no other run uses this host", 2 * lease.LEASE_S)


def test_a_run_that_is_marked_failed_is_red_however_far_it_was(local_airflow: LocalAirflow) -> None:
    """A user marks a run as failed in Airflow's UI, or by Ctrl-C in a terminal. Airflow then skips tasks that have not
    begun, and would show a run as green if its leaves were skipped."""
    client = local_airflow.client()

    def states() -> dict[str, str | None]:
        return {task.task_id: task.state for task in patiently(lambda: client.tasks(DAG_ID, "ended-at-work"))}

    with local_airflow.environment():  # `patiently` asks again only while this Airflow lives
        trigger(client, DAG_ID, "ended-at-once", TINY)
        patiently(lambda: client.end_run(DAG_ID, "ended-at-once"))
        local_airflow.wait_until_ended("ended-at-once")
        trigger(client, DAG_ID, "ended-at-work", {**TINY, "records": 20_000, "pacing": "spread", "duration_s": 60})
        wait_until(lambda: states()["produce"] == "running", "the step produce to be at work", PATIENCE_S, LOOK_EVERY_S)
        # Until then, produce can be killed before it can signal its end, and inject_fault waits for `deadline_s`.
        run = RunDirectory(local_airflow.runs / folders.run_directory_name("ended-at-work"))
        wait_until(lambda: Signals(Cluster.of_run(run).workspace).has_begun("produce"), "the load to flow", PATIENCE_S)
        patiently(lambda: client.end_run(DAG_ID, "ended-at-work"))
        local_airflow.wait_until_ended("ended-at-work")
        for run_id in ("ended-at-once", "ended-at-work"):
            assert client.state(DAG_ID, run_id) == "failed", run_id
            assert not (local_airflow.runs / folders.run_directory_name(run_id) / "verdict.json").exists()


def test_a_step_that_is_cleared_alone_leaves_the_verdict_of_a_green_run_as_it_was(
    plain_run: RunDirectory, local_airflow: LocalAirflow
) -> None:
    """Clearing one task does not run the gate again. If the cleared step did its work, the run would stay green
    although the files behind its verdict were replaced."""
    client, sealed = local_airflow.client(), (plain_run.path / "conclude.json").read_bytes()
    what = {"dag_run_id": RUN_ID, "task_ids": ["validate"], "include_downstream": False, "only_failed": False}
    what |= {"reset_dag_runs": True, "dry_run": False}
    patiently(lambda: client._api("POST", f"/dags/{DAG_ID}/clearTaskInstances", what))

    def validate() -> Task:
        return next(task for task in patiently(lambda: client.tasks(DAG_ID, RUN_ID)) if task.task_id == "validate")

    refused = lambda: validate().state == "failed"  # noqa: E731
    wait_until(refused, "the step to refuse", PATIENCE_S, LOOK_EVERY_S, detail=lambda: str(validate()))
    assert "conclude has let this run through already" in "\n".join(client.log_tail(DAG_ID, RUN_ID, validate()))
    local_airflow.wait_until_ended(RUN_ID)
    assert (plain_run.path / "conclude.json").read_bytes() == sealed and read_verdict(plain_run.path).green


def test_if_the_first_step_fails_the_run_is_red_and_says_nothing_is_held(
    red_run: str, local_airflow: LocalAirflow
) -> None:
    assert local_airflow.client().state(DAG_ID, red_run) == "failed"
    assert not (local_airflow.runs / folders.run_directory_name(red_run) / "verdict.json").exists()


@pytest.mark.parametrize("step", FAILING)
def test_if_a_step_fails_the_run_is_red_and_says_nothing_is_held(local_airflow: LocalAirflow, step: str) -> None:
    run_id = f"fails-in-{step}"
    with pytest.raises(RunFailed) as failure:
        local_airflow.run({**TINY, "fail_step": step}, run_id)
    assert failure.value.task_id == step
    client = local_airflow.client()
    assert client.state(DAG_ID, run_id) == "failed"
    # The task that emits verdicts is done in time, and does not count for the colour of the run.
    (publisher,) = (task for task in client.tasks(DAG_ID, run_id) if task.task_id == "publish_verdict")
    assert publisher.state == "skipped"
    assert local_airflow.verdict_events(run_id) == []
    assert not (local_airflow.runs / folders.run_directory_name(run_id) / "verdict.json").exists()


def test_if_only_the_stop_of_the_cluster_fails_the_verdict_stands_and_the_run_is_as_green_as_without(
    local_airflow: LocalAirflow, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = "fails-in-stop_cluster"
    run = RunDirectory(local_airflow.run({**TINY, "fail_step": "stop_cluster"}, run_id))
    client = local_airflow.client()
    assert client.state(DAG_ID, run_id) == ("success" if read_verdict(run.path).green else "failed")
    states = {task.task_id: task.state for task in client.tasks(DAG_ID, run_id)}
    assert (states["stop_cluster"], states["publish_verdict"]) == ("failed", "success")
    assert "warning: the task stop_cluster failed" in caplog.text
    assert len(local_airflow.verdict_events(run_id)) == 1
    # the cluster agent would end it, a lease later (tests of the cluster agent)
    Cluster.of_run(run).finish(keep_workspace=False)
