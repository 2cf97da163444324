"""# Verify delivery

Does Kafka keep what **your** settings promise when a broker dies? Trigger this DAG to find out: it boots a fresh
Kafka cluster, sends a numbered load with the chosen delivery profile, injects a fault while the load flows, reads the
topics back, and compares, record by record, what the producer was told with what is there.

## To start a run Press **Trigger** and choose

* **Delivery profile**: the producer and topic settings to be verified, e.g. `acks_1`;
* **Fault**: what happens to the brokers, e.g. `kill_leader`;
* **Claim**: `contract` holds the profile to exactly what Kafka promises for it. A stronger claim, such as
  `exactly_once` for a profile that may write twice, is one the run tries to refute;
* **Records**: how many to send at least.

The folded sections shape load, topic and repetition. The defaults are a complete run of about a minute.

## To read the result The tab **Delivery report** of a run shows the verdict with its evidence.

| verdict | meaning |
|---|---|
| `HELD` | nothing happened that the claim forbids, and the fault is proven to have hit enough records to tell |
| `VIOLATED` | something happened that the claim forbids; the report lists the records |
| `INCONCLUSIVE` | it cannot be told, and the report says why: no verdict is ever guessed |

A run is **green** only if every arm, the controls' too, ended as expected. It is red if a verdict was not as
expected and also if any step failed; then there is no verdict at all.

## The steps `plan` checks the settings and writes the scenario. `start_cluster` boots the brokers. `create_topics`
makes one topic per arm. `produce` and `inject_fault` run side by side. `settle` waits until the cluster is whole and
takes the snapshot. `reconcile` (Spark) finds the anomalies, `validate` (Great Expectations) holds them against the
contract, `conclude` gives the verdict. `stop_cluster` removes the brokers, whatever happened before. One run at a time;
a run that is triggered meanwhile waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import DAG, setup, task, teardown

from delivery_verifier.orchestration.local.settings import DAG_ID
from delivery_verifier.orchestration.tasks import form, notify
from delivery_verifier.orchestration.tasks.verify_delivery import (
    TIMEOUTS,
    SubmitReconcile,
    conclude_run,
    plan_run,
    run_step,
)

if TYPE_CHECKING:
    from airflow.sdk.definitions.xcom_arg import XComArg


def step(name: str) -> XComArg:
    """The task that runs the library's step of the same name."""
    return task(task_id=name, execution_timeout=TIMEOUTS[name])(run_step)(name)


with DAG(
    dag_id=DAG_ID,
    dag_display_name="Verify delivery",
    description="Sends a sequenced load, injects a broker fault, reconciles every record, and gives a verdict.",
    schedule=None,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=False,
    tags=["kafka", "delivery"],
    doc_md=__doc__,
    default_args={"owner": "delivery-verifier", "retries": 0},
    params=form.params(),
    on_failure_callback=notify.on_red(),
) as dag:
    plan = task(task_id="plan", execution_timeout=TIMEOUTS["plan"])(plan_run)()
    start_cluster = setup(task(task_id="start_cluster", execution_timeout=TIMEOUTS["start_cluster"])(run_step))(
        "start_cluster"
    )
    create_topics = step("create_topics")
    produce, inject_fault = step("produce"), step("inject_fault")
    settle = step("settle")
    reconcile = SubmitReconcile(task_id="reconcile", execution_timeout=TIMEOUTS["reconcile"])
    validate = step("validate")
    # The gate: asks what came of all before it, so that no failure upstream can end in a green run, nor one that was
    # ended.
    conclude = teardown(on_failure_fail_dagrun=True)(
        task(task_id="conclude", execution_timeout=TIMEOUTS["conclude"])(conclude_run)
    )()
    stop_cluster = teardown(on_failure_fail_dagrun=True)(
        task(task_id="stop_cluster", execution_timeout=TIMEOUTS["stop_cluster"])(run_step)
    )("stop_cluster")

    plan >> start_cluster >> create_topics >> [produce, inject_fault] >> settle >> reconcile >> validate >> conclude
    # Beside the work, never in its way: a teardown between two steps would hide the first one's failure.
    # It waits for both branches: brokers must not vanish under an injection that is still at work.
    start_cluster >> stop_cluster
    [produce, inject_fault, reconcile] >> stop_cluster
