"""Tests of the task that reconciles: the Spark properties for `spark-submit`, the interface on which the driver
listens, and the end of a job from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from support.run_builder import RunBuilder

from delivery_verifier import catalogue
from delivery_verifier.host.java import jars
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.scenario import Load, Scenario
from delivery_verifier.orchestration.tasks import spark_job, verify_delivery
from delivery_verifier.orchestration.tasks.server_job import ServerJob
from delivery_verifier.store.run_directory import RunDirectory
from spark_jobs import reconcile
from spark_jobs.session import connect, progress
from spark_jobs.session.classic import SMALL_RECORDS


@pytest.fixture
def scenario(monkeypatch: pytest.MonkeyPatch) -> Scenario:
    monkeypatch.setattr(jars, "spark_jars", lambda: [Path("/cache/a.jar"), Path("/cache/b.jar")])
    return catalogue.scenario(
        "r", profile=catalogue.PROFILES["safe"], fault=catalogue.FAULTS["none"], load=Load(), records=1000
    )


def test_spark_gets_the_jars_that_read_kafka_when_it_runs_not_when_the_dag_is_parsed(scenario: Scenario) -> None:
    assert spark_job.properties(scenario, "local[2]")["spark.jars"] == "/cache/a.jar,/cache/b.jar"
    operator = verify_delivery.SubmitReconcile(task_id="reconcile")
    assert operator.conf == {}
    assert operator.jars is None


def test_a_local_driver_listens_on_the_loopback(scenario: Scenario) -> None:
    assert spark_job.properties(scenario, "local[2]")["spark.driver.host"] == "127.0.0.1"


def test_a_driver_of_a_remote_master_is_reachable_under_its_own_address(scenario: Scenario) -> None:
    conf = spark_job.properties(scenario, "spark://master:7077")
    assert "spark.driver.host" not in conf
    assert "spark.driver.bindAddress" not in conf


@pytest.mark.parametrize(("records", "quick"), [(SMALL_RECORDS - 1, True), (SMALL_RECORDS, False)])
def test_executors_of_a_remote_master_leave_out_the_optimizing_compiler_as_the_driver_does(
    scenario: Scenario, records: int, quick: bool
) -> None:
    scenario = replace(scenario, arms=[replace(scenario.arms[0], records=records)])
    for master in ("local[2]", "spark://master:7077"):
        conf = spark_job.properties(scenario, master)
        jvms = {name.split(".")[1] for name, value in conf.items() if "-XX:TieredStopAtLevel=1" in value}
        expected = {"driver"} if master.startswith("local") else {"driver", "executor"}
        assert jvms == (expected if quick else set()), master
    assert ("spark.executor.extraJavaOptions" in conf) == quick, "the user's own stay in a large run"


def test_a_job_on_a_server_that_is_ended_before_the_server_listens_never_begins(
    scenario: Scenario, tmp_path: Path
) -> None:
    job = ServerJob(RunDirectory(tmp_path), "sc://localhost:1/;token=x")
    operator = verify_delivery.SubmitReconcile(task_id="reconcile")
    operator._server_job = job
    operator.on_kill()
    with pytest.raises(StepFailed, match="ended from outside"):
        job.reconcile()


def test_a_job_on_a_server_shows_the_progress_of_its_own_session(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, session, events = RunBuilder(scenario).at(tmp_path), object(), list[object]()

    @contextmanager
    def shown(run: RunDirectory, spark: object) -> Iterator[None]:
        events.append(("shown", run.path, spark))
        yield
        events.append("shown no more")

    monkeypatch.setattr(ServerJob, "_listens", lambda self: True)
    monkeypatch.setattr(connect, "connect_session", lambda url, records: nullcontext(session))
    monkeypatch.setattr(connect, "client_of", lambda spark: SimpleNamespace(release_session=None))
    monkeypatch.setattr(progress, "shown", shown)
    monkeypatch.setattr(reconcile, "reconcile", lambda path, from_log, spark: events.append("reconciled"))
    ServerJob(run, "sc://localhost:1/;token=x").reconcile()
    assert events == [("shown", run.path, session), "reconciled", "shown no more"]


def test_the_script_is_the_installed_one() -> None:
    assert spark_job.script().name == "reconcile.py"


def test_a_run_that_is_stopped_gives_up_the_job_until_the_topics_are_read_and_from_then_on_lets_it_finish(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kdv stop` says so: what was read is complete, and a verdict on it needs no broker."""
    kills, run = list[str](), RunBuilder(scenario).at(tmp_path)
    operator = verify_delivery.SubmitReconcile(task_id="reconcile")
    monkeypatch.setattr(operator, "on_kill", lambda: kills.append("killed"), raising=False)
    operator._give_up_reading(run)
    assert kills == ["killed"]
    with run.writing("read_topic"):
        pass
    operator._give_up_reading(run)
    assert kills == ["killed"]
