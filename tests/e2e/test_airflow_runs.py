"""Tests of runs through Airflow. Such a run has the same result as a direct run. All its processes end if the
scheduler, or the command that asked for the run, is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.airflow import LocalAirflow
from support.browser import PLAIN, RUN_ID
from support.own_host import alive, wait_until_gone
from support.patience import LOOK_EVERY_S, PATIENCE_S
from support.stored_runs import arm

from delivery_verifier.cluster import lease, workspaces
from delivery_verifier.command_line.stored import read_verdict
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.local_airflow import settings, spark_server, supervisor
from delivery_verifier.model.steps import STEPS
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.orchestration.client import FINISHED_TASK
from delivery_verifier.orchestration.failures import RunFailed
from delivery_verifier.orchestration.names import DAG_ID, MARK
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.run_directory.tally import Tally

LONG: dict[str, Any] = {"profile": "safe", "fault": "none", "records": 5000, "duration_s": 90}
OF_A_RUN = r"embedded\.agent|kafka\.Kafka|load\.producer"


def of_the_run(airflow: LocalAirflow) -> dict[int, str]:
    """Returns the command lines, by pid, of the living processes of the run: cluster agent, brokers, producers."""
    with airflow.environment():
        return alive(MARK, str(settings.airflow_home()), OF_A_RUN)


def is_loading(airflow: LocalAirflow) -> None:
    wait_until(
        lambda: len([line for line in of_the_run(airflow).values() if "load.producer" in line]) == 2,
        "the load",
        PATIENCE_S,
        LOOK_EVERY_S,
    )


def nothing_is_left(airflow: LocalAirflow, kept: set[Path]) -> None:
    """Asserts that, within 30 s, nothing of the run is left. `kept` are the workspaces that earlier runs have left."""
    with airflow.environment():
        wait_until_gone(MARK, str(settings.airflow_home()), OF_A_RUN)
    assert lease.lock_owner() is None
    assert {*workspaces.folder().iterdir()} <= kept


@pytest.fixture(scope="module")
def both(plain_run: RunDirectory, plain_run_directly: RunDirectory) -> tuple[RunDirectory, RunDirectory]:
    """The directories of two runs with the same parameters, seed and name: one went through the form and Airflow, the
    other ran directly."""
    return plain_run, plain_run_directly


def test_when_the_spark_server_is_killed_in_the_middle_that_run_is_red_and_the_next_one_works(
    local_airflow: LocalAirflow,
) -> None:
    run = RunDirectory(local_airflow.runs / "spark-killed")

    def kill() -> None:
        wait_until(lambda: [*run.path.glob(".re*.partial")], "Spark is at work", PATIENCE_S)
        (server,) = _spark_servers(local_airflow)
        os.kill(server, signal.SIGKILL)

    with ThreadPoolExecutor(1) as pool:
        killer = pool.submit(kill)
        with pytest.raises(RunFailed) as failure:
            local_airflow.run({**PLAIN, "records": 1000}, run.path.name)
        killer.result()
    assert failure.value.task_id == "reconcile" and not (run.path / "verdict.json").exists()
    assert "the Spark Connect server has ended" in str(failure.value)
    assert read_verdict(local_airflow.run({**PLAIN, "records": 1000}, "spark-works-again")).green
    assert len(_spark_servers(local_airflow)) == 1


def _spark_servers(airflow: LocalAirflow) -> list[int]:
    with airflow.environment():
        return [*alive(MARK, str(settings.airflow_home()), f"java.*{spark_server.PLUGIN}")]


def test_a_run_through_airflow_says_on_which_spark_it_was_reconciled(plain_run: RunDirectory) -> None:
    assert plain_run.manifest("reconcile").notes["spark"] == "Spark Connect, local[*]"


def test_a_direct_run_says_on_which_spark_it_was_reconciled(plain_run_directly: RunDirectory) -> None:
    assert plain_run_directly.manifest("reconcile").notes["spark"] == "local[2]"


def test_the_replicas_were_read_while_the_end_of_the_snapshot_was_proven(
    both: tuple[RunDirectory, RunDirectory],
) -> None:
    assert [run.manifest("settle").counts["replicas_early"] for run in both] == [1, 1]


def test_airflow_and_direct_plan_the_same_and_write_the_same_files(both: tuple[RunDirectory, RunDirectory]) -> None:
    scenarios = [run.read_scenario() for run in both]
    planned = [(item.arms, item.load, item.fault, item.cluster, item.seed) for item in scenarios]
    assert planned[0] == planned[1]
    through, directly = ({_kind(run, file) for file in run.path.rglob("*") if file.is_file()} for run in both)
    assert through == directly
    assert {f"{step}.json" for step in STEPS if step != "stop_cluster"} <= through


def test_a_run_in_which_no_step_fails_is_green_and_mailed_to_nobody(
    plain_run: RunDirectory, local_airflow: LocalAirflow
) -> None:
    client = local_airflow.client()
    assert client.state(DAG_ID, RUN_ID) == "success"
    states = {task.task_id: task.state for task in client.tasks(DAG_ID, RUN_ID)}
    assert states == dict.fromkeys((*STEPS, "publish_verdict"), "success")
    assert read_verdict(plain_run.path).green
    (event,) = local_airflow.verdict_events(RUN_ID)
    assert (event["run"], event["verdict"], event["green"]) == (plain_run.path.name, "HELD", True)
    assert local_airflow.mail.about(RUN_ID) == local_airflow.mail.about(plain_run.path.name) == []


def _kind(run: RunDirectory, file: Path) -> str:
    """Returns the path of a file in its run directory. The names of Spark's part files, which are random, are cut."""
    name = file.relative_to(run.path)
    return f"{name.parent}/part" if name.name.startswith("part-") else str(name)


def test_airflow_and_direct_write_tables_of_the_same_columns_and_tally_of_the_same_rows(
    both: tuple[RunDirectory, RunDirectory],
) -> None:
    """Compares only what does not depend on time: what was planned, and what was found. The number of records beyond
    the planned ones, and the losses of a control arm, differ from run to run."""
    tally = [Tally.read(run.path) for run in both]
    assert set(tally[0].tables) == set(tally[1].tables)
    for name in tally[0].tables:
        assert tally[0].tables[name].schema == tally[1].tables[name].schema, name
    for table, keys in {
        "producers": ("arm", "producer", "session", "partition"),
        "partitions": ("arm", "partition"),
        "invariants": ("invariant", "arm", "partition", "left_name"),
        "cases": ("arm", "kind", "cases", "written", "cut"),
    }.items():
        through, directly = (
            sorted(
                str(row) for row in one.rows(table).select(keys).to_pylist() if not row["arm"].startswith("control-")
            )
            for one in tally
        )
        assert through == directly, table
    canary = [sorted(map(str, one.rows("producers", arm="canary").to_pylist())) for one in tally]
    assert canary[0] == canary[1]


def test_airflow_and_direct_give_the_same_verdict_and_findings(both: tuple[RunDirectory, RunDirectory]) -> None:
    through, directly = (read_verdict(run.path) for run in both)
    for plain in (through, directly):
        assert (plain.verdict, plain.green, plain.exit_code) == ("HELD", True, 0)
        assert {name for name, count in arm(plain, "idempotent").tally.items() if count} == {
            "attempted",
            "acked",
            "reported",
            "found",
            "log_records",
            "first_copies",
        }
        assert arm(plain, "idempotent").tally["attempted"] >= PLAIN["records"]
    assert _told(through) == _told(directly)


def _told(verdict: RunVerdict) -> list[Any]:
    return [
        (one.arm, one.role, one.verdict, one.as_expected, one.doubts, one.findings)
        for one in verdict.arms
        if one.role != "control"
    ]


def test_when_the_command_that_started_it_is_killed_the_run_in_airflow_ends(local_airflow: LocalAirflow) -> None:
    kept = {*workspaces.all_workspaces()}
    options = [word for key, value in LONG.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    with local_airflow.environment():
        command = [sys.executable, "-m", "delivery_verifier", "run", "--run-id", "orphan", *options]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
    try:
        is_loading(local_airflow)
    finally:
        process.kill()
        process.wait()
    nothing_is_left(local_airflow, kept)
    client = local_airflow.client()
    wait_until(
        lambda: client.state(DAG_ID, "orphan") == "failed",
        "the run to be red",
        150,
        LOOK_EVERY_S,
        detail=lambda: str(client.tasks(DAG_ID, "orphan")),
    )
    assert not (local_airflow.runs / "orphan" / "verdict.json").exists()


@pytest.fixture(scope="module")
def killed(local_airflow: LocalAirflow) -> set[Path]:
    """The workspaces that were there before a run whose Airflow was killed in the middle: `unscheduled`."""
    kept = {*workspaces.all_workspaces()}
    local_airflow.client().trigger(DAG_ID, "unscheduled", LONG)
    is_loading(local_airflow)
    with local_airflow.environment():
        state = supervisor.read_state()
    assert state is not None
    os.kill(state.children["scheduler"].pid, signal.SIGKILL)
    return kept


@pytest.mark.last
def test_when_the_scheduler_is_killed_nothing_of_the_run_stays_alive(
    local_airflow: LocalAirflow, killed: set[Path]
) -> None:
    nothing_is_left(local_airflow, killed)
    with local_airflow.environment():
        wait_until_gone(MARK, str(settings.airflow_home()))
    assert not (local_airflow.runs / "unscheduled" / "verdict.json").exists()


@pytest.mark.last
@pytest.mark.usefixtures("killed")
def test_the_run_of_a_killed_airflow_is_ended_by_the_next_start_and_the_next_run_works(
    local_airflow: LocalAirflow,
) -> None:
    local_airflow.up()
    client, of_run = local_airflow.client(), (DAG_ID, "unscheduled")
    assert client.state(*of_run) == "failed"
    tasks = client.tasks(*of_run)
    assert not [task for task in tasks if task.state not in FINISHED_TASK]
    assert read_verdict(local_airflow.run({**PLAIN, "records": 1000}, "after-the-kill")).green
    assert client.tasks(*of_run) == tasks, "no scheduler went on with it"
