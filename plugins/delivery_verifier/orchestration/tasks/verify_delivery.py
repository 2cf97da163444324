"""The tasks of the DAG verify_delivery: one function per step, and an operator for the step reconcile.

The task `plan` creates the run directory. Every other task performs its step on this run directory.

The function of a task imports the code of its step, and the modules that this code needs, only when it is called.
Reason: Airflow's DAG processor imports this module every few seconds, and every task imports this module once more.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context, get_current_context

from delivery_verifier.host import folders
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.steps import BEFORE_GATE, GATE
from delivery_verifier.orchestration.tasks import (
    connections,
    gate,
    give_way,
    kafka_connection,
    note,
    red_run,
    spark_connection,
    spark_job,
    verdict_event,
)
from delivery_verifier.orchestration.tasks.server_job import ServerJob
from delivery_verifier.run_directory.run_directory import RunDirectory

if TYPE_CHECKING:
    from delivery_verifier.model.verdict import RunVerdict


def plan() -> str:
    """The step plan: checks the fields of the form and creates the run directory. Returns the path of this directory.

    Waits until a sentinel has ended that works on this host. Raises what `plan_run` raises, and DeadlinePassed if the
    sentinel does not end.
    """
    return plan_run(get_current_context())


def plan_run(
    context: Context, fields_instead: Mapping[str, Any] | None = None, notes: Mapping[str, str] | None = None
) -> str:
    """Checks the fields of the form and creates the run directory. Returns the path of this directory.

    `context` is the context of the task plan. `fields_instead`: the fields of the run, if they are not those of the
    form. `notes` are added to the manifest of the step. Without them, waits until a sentinel has ended that works on
    this host. Raises

    * BadInput if a field is not allowed
    * lease.HostBusy if another run uses this host
    * NoSparkConnection if the Spark connection is unusable
    * Unfit if this host cannot do the run, and the errors of `external_runs.planned` if somebody else runs the cluster
    * gate.GatePassed if the gate has succeeded already.
    """
    _begin(context)
    from delivery_verifier.planning.build import scenario_from_params

    name = folders.run_directory_name(context["run_id"])
    # The form has no field for the owner: only a command that starts a run from a terminal names an owner.
    fields = {**(fields_instead or context["params"]), "owner": (context["dag_run"].conf or {}).get("owner")}
    # The input comes first: it may not have come through the form, which would have refused it. What the host lacks now
    # may be there when the user has corrected the input.
    scenario_from_params(fields, name)
    from delivery_verifier.cluster import lease

    if not notes:
        give_way.wait_for_sentinel()
    lease.require_free_host()
    spark = spark_connection.location()
    from delivery_verifier.pipeline.steps.plan import plan_from_params

    return str(plan_from_params(fields, name, spark=spark, notes=notes))


def start_cluster() -> None:
    """The step start_cluster: starts a fresh Kafka cluster for this run, or goes to the one that the run names."""
    run_dir = open_run_directory()
    give_way.wait_for_sentinel()
    from delivery_verifier.pipeline.steps import start_cluster as step

    step.start_cluster(run_dir)


def create_topics() -> None:
    """The step create_topics: creates one topic for each arm."""
    run_dir = open_run_directory()
    from delivery_verifier.pipeline.steps import create_topics as step

    step.create_topics(run_dir)


def produce() -> None:
    """The step produce: sends the load. The step inject_fault runs at the same time."""
    run_dir = open_run_directory()
    connections.provide(run_dir)
    from delivery_verifier.pipeline.steps import produce as step

    step.produce(run_dir)


def inject_fault() -> None:
    """The step inject_fault: carries out the fault plan. The step produce sends the load at the same time."""
    run_dir = open_run_directory()
    connections.provide(run_dir)
    from delivery_verifier.pipeline.steps import inject_fault as step

    step.inject_fault(run_dir)


def settle() -> None:
    """The step settle: ends all faults, waits until all replicas are in sync, and stores the end offset of each
    partition."""
    run_dir = open_run_directory()
    connections.provide(run_dir)
    from delivery_verifier.pipeline.steps import settle as step

    step.settle(run_dir)


def validate() -> None:
    """The step validate: uses Great Expectations to check the counts that the step reconcile has written."""
    run_dir = open_run_directory()
    from delivery_verifier.pipeline.steps import validate as step

    step.validate(run_dir)


def conclude() -> None:
    """The step conclude, which is the gate: writes the verdict. Fails if the run is not green.

    Raises what `judge_run` raises. If the run has a verdict but is not green, logs the verdict and raises SystemExit,
    because Airflow would log any other exception with its traceback.
    """
    context = get_current_context()
    verdict = judge_run(context)
    if not verdict.green:
        red_run.end(verdict, str(context["run_id"]))


def judge_run(context: Context) -> RunVerdict:
    """Writes and returns the verdict of the run. `context` is the context of the task conclude.

    In the local Airflow, writes the note of the DAG run. The note has the verdict, or the reason why there is none.
    Raises gate.GateClosed if a step before the gate did not succeed, and the errors of the step.
    """
    note.withdraw(context)
    with note.of_failure(context):
        gate.require_success(context, BEFORE_GATE)
        run_dir = _run_directory(context)
        from delivery_verifier.pipeline.steps import conclude as step

        verdict = step.judge_and_report(run_dir)
    verdict_event.remember(context, verdict)
    note.attach_verdict(run_dir, context)
    return verdict


def publish_verdict() -> None:
    """The task publish_verdict: emits the verdict of `conclude` as an event of the asset `verdict_event.ASSET`.

    The task succeeds for every verdict, and does not count for the colour of the run. Raises AirflowSkipException if
    `conclude` has given no verdict. Raises the errors of `verdict_event.emit`.
    """
    verdict_event.emit(get_current_context())


def stop_cluster() -> None:
    """The step stop_cluster: ends the cluster. Unlike the tasks before the gate, this task may run again after the gate
    has succeeded, and its failure does not make the run red."""
    run_dir = _run_directory(get_current_context())
    kafka_connection.provide()
    from delivery_verifier.pipeline.steps import stop_cluster as step

    step.stop_cluster(run_dir)


def open_run_directory() -> Path:
    """Returns the run directory of the current DAG run. Raises gate.GatePassed if the gate has succeeded already.

    Raises StepFailed if the task `plan` returned no run directory.
    """
    context = get_current_context()
    _begin(context)
    return _run_directory(context)


def _begin(context: Context) -> None:
    """Raises gate.GatePassed if the gate has succeeded already. If the task was cleared, withdraws the run's note. From
    now on, the task can read a cluster that a connection of Airflow names."""
    gate.require_not_passed(context, GATE)
    note.withdraw(context)
    kafka_connection.provide()


def _run_directory(context: Context) -> Path:
    """Returns the run directory that the task `plan` returned. Raises StepFailed if `plan` returned none."""
    path = context["ti"].xcom_pull(task_ids="plan")
    if not path:
        raise StepFailed("task plan left no run directory")
    return Path(str(path))


class SubmitReconcile(SparkSubmitOperator):
    """The task of the step reconcile. The task uses the Spark that the Spark connection names.

    If the connection names a master, the task submits the Spark job to this master. If the connection names a Spark
    Connect server, the task itself runs the job, and the server runs the job's queries.

    The script, the properties and the environment of the job depend on the run. The run does not exist yet when Airflow
    makes this object. So `execute` sets them."""

    def __init__(self, *, task_id: str, **more: Any) -> None:
        super().__init__(
            task_id=task_id,
            conn_id=spark_connection.DEFAULT_ID,
            application="spark_jobs/reconcile.py",
            application_args=["--run-dir", "{{ ti.xcom_pull(task_ids='plan') }}"],
            name="kdv-{{ run_id }}",
            conf={},
            env_vars={},
            durable=False,
            **more,
        )
        self._server_job: ServerJob | None = None

    def execute(self, context: Context) -> None:
        """Runs the Spark job and waits for its end. The Spark connection decides whether the job uses a Spark Connect
        server or is submitted to a master.

        Raises the errors of `ServerJob` if the job uses a server. Raises AirflowException if the job is submitted and
        its exit code is not 0. In both cases, raises ClusterGone if the cluster ends while the job needs the brokers,
        NoSparkConnection if the Spark connection is unusable, gate.GatePassed if the gate has succeeded already, and
        SecretsOutOfReach as the task plan does.
        """
        from delivery_verifier.cluster import lease
        from delivery_verifier.cluster.handle import Cluster

        _begin(context)
        run = RunDirectory(_run_directory(context))
        master = spark_connection.require(self._conn_id)
        self.log.info("Spark of the connection %s: %s", self._conn_id, master)
        # The lease is renewed here as long as the run needs its cluster, because the job itself does not do this.
        cluster = Cluster.of_run(run)
        with lease.renewed(cluster.socket, lambda: self._give_up_reading(run)):
            if spark_connection.is_server(master):
                self._server_job = ServerJob(run, spark_connection.server_url(self._conn_id), cluster)
                self._server_job.reconcile()
            else:
                with spark_job.connected(cluster, spark_connection.location(self._conn_id)) as arguments:
                    self.application_args = [*(self.application_args or ()), *arguments]
                    self._submit(context, run, master)

    def _submit(self, context: Context, run: RunDirectory, master: str) -> None:
        self.application = str(spark_job.script())
        self.conf = spark_job.properties(run.read_scenario(), master)
        # Without this variable, a child of the task would run the first python3 on PATH, which may have no PySpark.
        self.env_vars = {"PYSPARK_PYTHON": sys.executable}
        super().execute(context)

    def on_kill(self) -> None:
        """Ends the Spark job. Airflow calls this method when a user or a timeout ends the task."""
        if self._server_job is not None:
            self._server_job.kill()
        else:
            super().on_kill()

    def _give_up_reading(self, run: RunDirectory) -> None:
        """Ends the Spark job if it has not read all topics yet. Call this method when the cluster is gone: Spark would
        otherwise try to reach the brokers for minutes.

        A job that has read the topics goes on, because such a job needs no broker.
        """
        if not (run.path / "read_topic.json").exists():
            self.on_kill()
