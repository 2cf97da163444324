"""Tests of the task that reconciles: the Spark properties for `spark-submit`, the interface on which the driver
listens, and the end of a job from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from msgspec.structs import replace
from support.run_builder import RunBuilder

from delivery_verifier import catalogue
from delivery_verifier.cluster import lease
from delivery_verifier.cluster.connection import Address, Connection
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.security import spark_options
from delivery_verifier.host.java import jars
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.scenario import Load, Scenario
from delivery_verifier.orchestration.tasks import spark_job, verify_delivery
from delivery_verifier.orchestration.tasks.server_job import ServerJob
from delivery_verifier.run_directory.run_directory import RunDirectory
from spark_jobs import reconcile
from spark_jobs.session import connect, progress
from spark_jobs.session.classic import SMALL_RECORDS

SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "u",
    "sasl.password": "hush-7",
}


class Stand(Cluster):
    """A stand-in for a cluster of which only the connection and the workspace are asked."""

    def __init__(self, connection: Connection, workspace: Path) -> None:
        self.connection, self.workspace, self.socket = connection, workspace, workspace / "none"


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
    job = ServerJob(RunDirectory(tmp_path), "sc://localhost:1/;token=x", Stand(Connection({}), tmp_path))
    operator = verify_delivery.SubmitReconcile(task_id="reconcile")
    operator._server_job = job
    operator.on_kill()
    with pytest.raises(StepFailed, match="ended from outside"):
        job.reconcile()


def test_a_job_on_a_server_shows_the_progress_of_its_own_session(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, events = RunBuilder(scenario).at(tmp_path), list[object]()
    session = SimpleNamespace(conf={"spark.master": "local[*]"})
    cluster = Stand(Connection({1: Address("a", 1)}, SCRAM), tmp_path)

    @contextmanager
    def shown(run: RunDirectory, spark: object) -> Iterator[None]:
        events.append(("shown", run.path, spark))
        yield
        events.append("shown no more")

    monkeypatch.setattr(ServerJob, "_listens", lambda self: True)
    monkeypatch.setattr(connect, "connect_session", lambda url, records: nullcontext(session))
    monkeypatch.setattr(connect, "client_of", lambda spark: SimpleNamespace(release_session=None))
    monkeypatch.setattr(progress, "shown", shown)
    given = dict[str, str]()

    def reconciled(path: Path, from_log: bool, spark: object, connection: dict[str, str]) -> None:
        given.update(connection)
        assert "hush-7" in (tmp_path / spark_options.FILE).read_text()
        events.append("reconciled")

    monkeypatch.setattr(reconcile, "reconcile", reconciled)
    ServerJob(run, "sc://localhost:1/;token=x", cluster).reconcile()
    assert events == [("shown", run.path, session), "reconciled", "shown no more"]
    assert given["kafka.bootstrap.servers"] == "a:1" and "hush-7" not in repr(given)
    assert given["kafka.sasl.jaas.config"] == f"${{file:{tmp_path / spark_options.FILE}:sasl.jaas.config}}"
    assert not (tmp_path / spark_options.FILE).exists()
    session.conf["spark.master"] = "spark://far:7077"
    with pytest.raises(spark_options.SecretsOutOfReach, match=r"Spark runs elsewhere \(sc://localhost:1\)"):
        ServerJob(run, "sc://localhost:1/;token=x", cluster).reconcile()


def test_a_submitted_job_is_told_a_file_whose_options_have_no_secret(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands, options = list[list[str]](), dict[str, str]()

    def submitted(operator: verify_delivery.SubmitReconcile, context: object) -> None:
        commands.append([*operator.application_args])
        if "--connection" in operator.application_args:
            options.update(msgspec.json.decode(Path(operator.application_args[-1]).read_bytes()))
            private = tmp_path / spark_options.FILE
            assert "hush-7" in private.read_text() and private.stat().st_mode & 0o777 == 0o600

    monkeypatch.setattr(verify_delivery, "_begin", lambda context: None)
    monkeypatch.setattr(verify_delivery, "_run_directory", lambda context: tmp_path)
    monkeypatch.setattr(RunDirectory, "read_scenario", lambda run: scenario)
    monkeypatch.setattr(lease, "renewed", lambda socket, give_up: nullcontext())
    monkeypatch.setattr(SparkSubmitOperator, "execute", submitted)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type":"spark","host":"local[2]"}')
    for security in ({}, SCRAM):
        cluster = Stand(Connection({1: Address("a", 1)}, security), tmp_path)
        monkeypatch.setattr(Cluster, "of_run", lambda run, cluster=cluster: cluster)
        verify_delivery.SubmitReconcile(task_id="reconcile").execute({})  # type: ignore[arg-type]
    plain, secured = commands
    assert plain[0] == "--run-dir" and "--connection" not in plain, "the job knows the addresses from the run directory"
    assert secured == [*plain, "--connection", str(tmp_path / spark_options.OPTIONS)]
    assert options["kafka.bootstrap.servers"] == "a:1" and options["kafka.sasl.jaas.config"].startswith("${file:")
    assert "hush-7" not in repr(options) + repr(secured)
    assert [*tmp_path.iterdir()] == []


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
