"""The graph of a run: the tasks of its steps, and their order. Each DAG that makes runs has this graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, setup, task, teardown

from delivery_verifier.model.steps import TIMEOUTS
from delivery_verifier.orchestration.tasks import verdict_event
from delivery_verifier.orchestration.tasks import verify_delivery as steps

SHORT = timedelta(minutes=5)
"""The execution timeout of the task that is no step."""
_OF_RUN = {
    step.__name__: step
    for step in (
        steps.plan,
        steps.start_cluster,
        steps.create_topics,
        steps.produce,
        steps.inject_fault,
        steps.settle,
        steps.validate,
        steps.conclude,
        steps.stop_cluster,
    )
}


def add_tasks(dag: DAG, instead: Mapping[str, Callable[[], Any]] | None = None) -> None:
    """Adds the tasks of a run to `dag`. Call this inside the `with` block of `dag`.

    `instead` maps the name of a step to the function that performs it in this DAG, in place of that of verify_delivery.
    """
    functions = _OF_RUN | dict(instead or {})

    def step(name: str) -> Any:
        return task(task_id=name, execution_timeout=TIMEOUTS[name])(functions[name])

    plan = step("plan")()
    start_cluster = setup(step("start_cluster"))()
    create_topics = step("create_topics")()
    produce, inject_fault = step("produce")(), step("inject_fault")()
    settle = step("settle")()
    reconcile = steps.SubmitReconcile(task_id="reconcile", execution_timeout=TIMEOUTS["reconcile"])
    validate = step("validate")()
    # conclude is the gate. The gate asks Airflow for the states of all tasks before it. So a run with a failed task, or
    # a run that a user ended, cannot be green.
    conclude = teardown(on_failure_fail_dagrun=True)(step("conclude"))()
    # No verdict rests on stop_cluster. If it fails, the cluster ends by itself, once the cluster agent's lease is over.
    stop_cluster = teardown(on_failure_fail_dagrun=False)(step("stop_cluster"))()
    # publish_verdict comes after the gate, and succeeds for a red run, too. Airflow derives the colour of a run from
    # its leaf tasks. A teardown that cannot fail the run does not count, so conclude is a leaf all the same. Any other
    # task in this place would make red runs green.
    publish = task(task_id="publish_verdict", execution_timeout=SHORT, outlets=[verdict_event.ASSET])
    publish_verdict = teardown(on_failure_fail_dagrun=False)(publish(steps.publish_verdict))()

    plan >> start_cluster >> create_topics >> [produce, inject_fault] >> settle >> reconcile >> validate >> conclude
    conclude >> publish_verdict
    # No step comes after stop_cluster: a teardown between two steps would hide the failure of the first step.
    # stop_cluster waits for produce, inject_fault and reconcile: the brokers must not vanish during an injection.
    start_cluster >> stop_cluster
    [produce, inject_fault, reconcile] >> stop_cluster

    # Airflow gives each task a copy of the form, and serializes all copies whenever it reads the DAG's file. A task
    # takes the default values from the DAG and the chosen values from the run, so it needs no copy.
    for each in dag.tasks:
        each.params = {}
