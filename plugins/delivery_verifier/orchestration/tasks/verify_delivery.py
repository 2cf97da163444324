"""The tasks of a run: each calls one step of the library with the run directory that `plan` made."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context, get_current_context

from delivery_verifier.host import folders
from delivery_verifier.model.errors import StepFailed
from delivery_verifier.model.scenario import STEPS, Scenario
from delivery_verifier.orchestration.tasks import gate, note, spark_connection
from delivery_verifier.store.run_directory import RunDirectory

_LONGEST_LOAD = timedelta(days=1, minutes=10)
TIMEOUTS: dict[str, timedelta] = {
    "plan": timedelta(minutes=5),
    "start_cluster": timedelta(minutes=20),  # the first run fetches the Kafka jars
    "create_topics": timedelta(minutes=5),
    # These have deadlines of their own, from the scenario (Load.deadline_s, at most a day).
    "produce": _LONGEST_LOAD,
    "inject_fault": _LONGEST_LOAD,
    "settle": timedelta(minutes=30),
    "reconcile": timedelta(hours=12),
    "validate": timedelta(minutes=30),
    "conclude": timedelta(minutes=15),
    "stop_cluster": timedelta(minutes=5),
}
"""The last line of defence per task."""
_BESIDE_THE_GATE = ("conclude", "stop_cluster")


def plan_run() -> str:
    """Plans the run of the current context and returns its run directory. Refuses what cannot work."""
    context = get_current_context()
    gate.require_open(context, "conclude")
    spark_connection.require()
    plan = importlib.import_module("delivery_verifier.run.steps.plan")
    given: Mapping[str, Any] = context["params"]
    # The owner is no field of the form: only who starts a run from a terminal gives one.
    owner = (context["dag_run"].conf or {}).get("owner")
    name = folders.run_directory_name(context["run_id"])
    return str(plan.plan_from_params({**given, "owner": owner}, name))


def run_step(name: str) -> None:
    """Runs a step of the library on the run directory of the current context."""
    context = get_current_context()
    if name not in _BESIDE_THE_GATE:
        gate.require_open(context, "conclude")
    step = importlib.import_module(f"delivery_verifier.run.steps.{name}")
    getattr(step, name)(_run_directory(context))


def conclude_run() -> None:
    """The last step: the gate. Its verdict, green or not, becomes the note of the DAG run.

    Raises gate.Shut if any step that a verdict rests on did not succeed.
    """
    context = get_current_context()
    gate.require_success(context, [step for step in STEPS if step not in _BESIDE_THE_GATE])
    try:
        run_step("conclude")
    finally:
        note.attach_verdict(_run_directory(context), str(context["run_id"]))


def _run_directory(context: Context) -> Path:
    path = context["ti"].xcom_pull(task_ids="plan")
    if not path:
        raise StepFailed("task plan left no run directory")
    return Path(str(path))


class SubmitReconcile(SparkSubmitOperator):
    """Submits the reconciliation to the Spark of the connection. What it needs is looked up when it runs."""

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

    def execute(self, context: Context) -> None:
        """Submits and waits. Raises AirflowException if the job ends with anything but 0."""
        from delivery_verifier.cluster import lease
        from delivery_verifier.cluster.handle import Cluster
        from spark_jobs.session import class_archive

        gate.require_open(context, "conclude")
        run = RunDirectory(_run_directory(context))
        master = spark_connection.require(self._conn_id)
        self.application = str(_reconcile_script())
        self.conf = _spark_conf(run.read_scenario(), master)
        # A child of the task would otherwise take the first python3 on PATH, which may know no Spark.
        self.env_vars = {"PYSPARK_PYTHON": sys.executable}
        # The work is done in another process, so it is this one that says the run still needs its cluster.
        with lease.renewed(Cluster.of(run).socket, lambda: self._give_up_reading(run)):
            super().execute(context)
        class_archive().keep()

    def _give_up_reading(self, run: RunDirectory) -> None:
        """Spark would ask brokers that are gone for minutes. Once the log is read, it needs them no more."""
        if not (run.path / "read_topic.json").exists():
            self.on_kill()


def _spark_conf(scenario: Scenario, master: str) -> dict[str, str]:
    """Spark's properties for a load of this size, with the jars that read Kafka."""
    from delivery_verifier.host.java.jars import spark_jars
    from spark_jobs import session

    conf = session.settings(sum(arm.records for arm in scenario.loaded))
    conf["spark.jars"] = ",".join(str(jar) for jar in spark_jars())
    if not master.startswith("local"):
        # Executors on other hosts must reach the driver under its own address.
        del conf["spark.driver.host"], conf["spark.driver.bindAddress"]
    return conf


def _reconcile_script() -> Path:
    found = importlib.util.find_spec("spark_jobs.reconcile")
    if found is None or found.origin is None:
        raise FileNotFoundError("spark_jobs/reconcile.py is not installed: install the project (uv sync)")
    return Path(found.origin)
